"""Every home under random use."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, settings

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.sqlite import SqliteFrontier, seen
from shoal.testing.stateful import machine

_folder = tempfile.TemporaryDirectory(prefix="shoal-stateful-")
_number = itertools.count()

TestMemory = machine(MemoryFrontier).TestCase
TestMemory.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

_Sqlite = machine(lambda clock: SqliteFrontier(Path(_folder.name) / f"{next(_number)}.db", clock))

TestSqlite = _Sqlite.TestCase
TestSqlite.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


class _Merging(_Sqlite):  # type: ignore[misc, valid-type]
    """Most marks of the seen-set are in its large table, as in a long crawl."""

    def __init__(self) -> None:
        self._small = mock.patch.multiple(seen, RECENT=1, SLICE=1)
        self._small.start()
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        self._small.stop()


TestSqliteMerging = _Merging.TestCase
TestSqliteMerging.settings = TestSqlite.settings
