"""A day in virtual time: the same hosts and proxies, the real engine, policies and SQLite store, no sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from benchmarks.small_machine.account import read_account
from benchmarks.small_machine.day_store import InlineFrontier, InlineLoop
from benchmarks.small_machine.day_web import DistantWeb, ProxiedTransport, proxy_addresses, url_of
from benchmarks.small_machine.measure import own_memory, read_rows
from benchmarks.small_machine.run import Run, Visit, summarize
from benchmarks.small_machine.spider import make_spider
from benchmarks.small_machine.world import ProxyPlan, crawl_settings, names_of, urls_of
from shoal.frontier.protocol import Frontier
from shoal.runtime.job_plan import JobPlan
from shoal.runtime.submit import submit
from shoal.sink.jsonl import JsonLines
from shoal.testing import HostProfile
from shoal.testing.simulation.virtual import Process
from shoal.testing.simulation.workers import CrawlWorker, make_feeder
from shoal.testing.web.site import site_of

JOB = "day"
_LOOKS = 240  # at the memory, in all


def play(
    hosts: dict[str, HostProfile],
    plans: tuple[ProxyPlan, ...],
    pace: float,
    seed: int,
    *,
    folder: Path,
    seconds: float,
) -> Run:
    """Ends when everything is crawled, or after so many virtual seconds. Run it in a process of its own: it measures
    the memory of this one."""
    with (
        DistantWeb(hosts, seed) as web,
        asyncio.Runner(loop_factory=InlineLoop) as runner,
        _quiet_log(),
    ):
        return runner.run(_day(web, hosts, plans, pace, seed, folder=folder, seconds=seconds))


async def _day(
    web: DistantWeb,
    hosts: dict[str, HostProfile],
    plans: tuple[ProxyPlan, ...],
    pace: float,
    seed: int,
    *,
    folder: Path,
    seconds: float,
) -> Run:
    addresses = proxy_addresses(plans)
    settings = crawl_settings(pace, urls_of(plans, addresses))
    process = Process(JOB, Random(seed))
    visits = VisitLog(folder / "visits.jsonl")
    transport = ProxiedTransport(web, hosts, plans, settings, visits.add)
    plan = JobPlan(make_spider([url_of(host, "/p/0") for host in hosts]), settings, JOB)
    memory: list[tuple[float, int]] = []
    watching = asyncio.create_task(_watch(memory, seconds / _LOOKS))
    store, rows, cpu = folder / "shoal.db", folder / "rows.jsonl", time.process_time()
    async with InlineFrontier(store, process) as frontier:
        await _crawl(plan, process, frontier, transport, rows, seconds)
        elapsed, cpu = asyncio.get_running_loop().time(), time.process_time() - cpu
        watching.cancel()
        account = await read_account(frontier, names_of(plans, addresses))
    return summarize(
        seconds=elapsed,
        visits=visits.read(),
        rows=read_rows(rows),
        expected={host: _pages(host, profile) for host, profile in hosts.items()},
        memory=memory,
        cut_short=elapsed >= seconds,
        killed=False,
        cpu=cpu,
        account=account,
        store=store.stat().st_size,
    )


async def _crawl(
    plan: JobPlan,
    process: Process,
    frontier: Frontier,
    transport: ProxiedTransport,
    rows: Path,
    seconds: float,
) -> None:
    await submit(plan, frontier)
    await make_feeder(plan, frontier).feed()
    worker = CrawlWorker(plan, process, frontier, transport, JsonLines(rows))
    ending = asyncio.get_running_loop().call_later(seconds, worker.engine.stop)
    await worker.run()
    ending.cancel()


def _pages(host: str, profile: HostProfile) -> set[str]:
    """Obtainable ones."""
    if not profile.reachable:
        return set()
    return {url_of(host, path) for path in site_of(profile, 0).paths()}


class VisitLog:
    """Requests as hosts see them, on disk: they are not the crawl's memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")

    def add(self, visit: Visit) -> None:
        self._file.write(msgspec.json.encode(visit) + b"\n")

    def read(self) -> list[Visit]:
        """Nothing can be added afterwards."""
        self._file.close()
        decode = msgspec.json.Decoder(Visit).decode
        return [decode(line) for line in self._path.read_bytes().splitlines()]


async def _watch(memory: list[tuple[float, int]], every: float) -> None:
    while True:
        memory.append((asyncio.get_running_loop().time(), own_memory(os.getpid())))
        await asyncio.sleep(every)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """The log tells of every host that cools down; there are many, and all are meant."""
    log = logging.getLogger("shoal")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
