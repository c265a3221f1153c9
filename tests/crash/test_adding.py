"""URLs added from several shells at once, parts killed: each exactly once. `benchmarks.adding` is the long version."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.adding import STATES, Case, run, store_of

from crash.harness import fork


@pytest.mark.parametrize(("kind", "states"), [("sqlite", STATES), ("cluster", ["running"])])
def test_every_url_that_was_added_is_crawled_once(tmp_path: Path, kind: str, states: list[str]) -> None:
    with store_of(kind, str(tmp_path)) as store:
        assert run(tmp_path, store, Case(adds=2, urls=10, starts=60), states, fork)
