"""Every output, killed at random moments and read back by another program; `python -m benchmarks.outputs` does so at
length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.outputs.cases import CASES
from benchmarks.outputs.killing import Killing
from benchmarks.outputs.site import Site

from crash.harness import Desk, Process
from shoal.testing.servers import ValkeyServer

PAGES = 60
KILLS = 3
SECONDS = 0.5  # between two kills
LOCAL = (
    "csv",
    "parquet",
    "sqlite",
    "several",
)  # others are made like one of these
SHARED = ("csv", "s3 parquet")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(PAGES) as site:
        yield site


@pytest.mark.parametrize("name", LOCAL)
def test_two_processes_are_killed(desk: Desk, site: Site, name: str) -> None:
    case = CASES[name]
    with case.servers(desk.folder) as places:
        killing = Killing(site, desk.start, places.outputs, KILLS, seed=len(name), seconds=SECONDS)
        last = killing.crawl(2, *case.options)
        assert isinstance(last, Process)
        assert last.code() == 0, last.err
        assert killing.killed >= KILLS - 2  # one that is to be killed as it ends may have ended
        faults, _ = case.judge(places, site)
        assert faults == []


@pytest.mark.parametrize("name", SHARED)
def test_workers_of_a_fleet_are_killed(desk: Desk, site: Site, valkey: ValkeyServer, name: str) -> None:
    case = CASES[name]
    with case.servers(desk.folder) as places:
        killing = Killing(site, desk.start, places.outputs, KILLS, seed=len(name), seconds=SECONDS)
        killing.fleet(valkey.url, *case.options)
        faults, _ = case.judge(places, site)
        assert faults == []
