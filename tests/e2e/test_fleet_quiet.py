"""Real workers that wait on one Valkey: they ask seldom, take turns, and wait for none that is frozen or dead."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from benchmarks.fleet.processes import Members, until
from benchmarks.fleet.shoal_fleet import ShoalFleet

from lateness import Lateness
from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import JobSpec
from shoal.jobs.note import write_note
from shoal.model import Task
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer
from shoal.valve import Valve

WORKERS = 3
PAGES = 60  # more than are needed, each on a host of its own


class Fleet:
    """Three workers, and a job to which pages are added one by one."""

    def __init__(self, server: ValkeyServer, store: str, web: WebProcess) -> None:
        self.server, self._store, self._web = server, store, web
        self._hosts = iter(web.spec.hosts)

    def one_page(self) -> tuple[int, float]:
        """Which process took it, and after how many seconds. It is answered once that is known."""
        return asyncio.run(self._one_page())

    async def _one_page(self) -> tuple[int, float]:
        host = next(self._hosts)
        url = self._web.url(host)
        task = Task(url, handler="page", host=host_key(url), fingerprint=fingerprint(url))
        async with RedisFrontier(self._store) as frontier, asyncio.timeout(60):
            began = time.time()  # the server's clock
            await frontier.add("quiet", [task])
            while not (flights := await frontier.flights(1)):  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.02)
            self._web.hurry(host)
            while await _in_flight(frontier):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return int(flights[0].worker.partition("-")[0]), flights[0].since - began

    def calls(self, seconds: float) -> float:
        """Of scripts, in a second."""
        before = self._calls()
        time.sleep(seconds)
        return (self._calls() - before) / seconds

    def _calls(self) -> int:
        stats = self.server.command("INFO", "commandstats")
        return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("eval", "evalsha"))


async def _in_flight(frontier: Frontier) -> int:
    job = await frontier.job("quiet")
    assert job is not None
    return job.counters.leased


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer) -> Iterator[Fleet]:
    store = f"{valkey_server.url}?prefix=quiet-{uuid4().hex}"
    hosts = {
        f"slow-{n}": HostProfile("slow", pages=1, latency=60) for n in range(PAGES)
    }  # until told to hurry
    with WebProcess(hosts) as web, Members(tmp_path_factory.mktemp("quiet")) as members:
        processes = ShoalFleet(members, store, [])
        workers = [processes.worker(number) for number in range(WORKERS)]
        until(lambda: processes.ask(_count_workers) == WORKERS, "three workers", *workers)
        processes.ask(_open_job)
        fleet = Fleet(valkey_server, store, web)
        took: set[int] = set()
        until(
            lambda: took.add(fleet.one_page()[0]) or len(took) == WORKERS, "all of them to have met the job"
        )
        yield fleet


async def _count_workers(frontier: Frontier) -> int:
    return len(await frontier.workers())


async def _open_job(frontier: Frontier) -> None:
    limits = Settings(rate=50, domain_rate=0, per_domain=0, robots=False, allow_network=["127.0.0.0/8"])
    note = write_note(b"", limits, "submit")
    await frontier.open_job(JobSpec("quiet", spider="fleet", settings=note, valve=Valve(0.02, cap=2)))


def test_who_waits_asks_seldom(fleet: Fleet) -> None:
    """Every worker by itself made more than six calls a second before. Now they make about eight together, in some
    seconds twelve: not every call is made every second."""
    # What was at work says so for some seconds.
    until(lambda: fleet.calls(4) < 5 * WORKERS, "the fleet to be quiet")


def test_they_take_turns_and_nobody_waits_for_a_frozen_or_dead_one(fleet: Fleet) -> None:
    with Lateness() as late:
        check_turns(fleet, late)


def waits_longest(turns: list[tuple[int, float]]) -> int:
    """The process whose last turn is the longest ago."""
    latest_first = [pid for pid, _ in reversed(turns)]
    return max(set(latest_first), key=latest_first.index)


def check_turns(fleet: Fleet, late: Lateness) -> None:
    """The bounds are for busy machines. A worker that nobody calls looks by itself after half a minute."""
    # A watcher that is late loses its turn, so some have two while others have one.
    turns = [fleet.one_page() for _ in range(2 * WORKERS)]
    assert len({pid for pid, _ in turns}) == WORKERS, turns
    assert max(took for _, took in turns) < 5.0 + late.stalled, turns

    watcher = waits_longest(turns)  # so it is told of the next page
    os.kill(watcher, signal.SIGSTOP)
    try:
        pid, took = fleet.one_page()
        assert pid != watcher
        assert took < 8.0 + late.stalled
        assert fleet.one_page()[1] < 0.5 + late.stalled  # it is passed over from then on
    finally:
        os.kill(watcher, signal.SIGCONT)
    turns = [fleet.one_page() for _ in range(2 * WORKERS)]
    assert len({pid for pid, _ in turns}) == WORKERS, turns

    watcher = waits_longest(turns)
    os.kill(watcher, signal.SIGKILL)
    pid, took = fleet.one_page()
    assert pid != watcher
    assert took < 5.0 + late.stalled
