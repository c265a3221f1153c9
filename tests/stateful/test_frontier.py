"""Every home under random use."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.testing.stateful import machine

_folder = tempfile.TemporaryDirectory(prefix="shoal-stateful-")
_number = itertools.count()

TestMemory = machine(MemoryFrontier).TestCase
TestMemory.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

TestSqlite = machine(lambda clock: SqliteFrontier(Path(_folder.name) / f"{next(_number)}.db", clock)).TestCase
TestSqlite.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
