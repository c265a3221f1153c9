"""Runs one fleet against a web of its own, and reads what the server, the store and the system saw.

scale    a web without end, and a window of time in the middle of the crawl; directly or through proxies
kill     a small web, crawled to its end, with one worker killed half-way and replaced
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from benchmarks.fleet.contenders import CONTENDERS, Contender, Limits
from benchmarks.fleet.manners import Manners, manners
from benchmarks.fleet.processes import Member, Members, until
from benchmarks.fleet.proxied import limited_host, make_plans, urls_of
from benchmarks.small_machine.proxies import ProxyProcess
from shoal.testing import Hit, HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

_QUIET = 5.0  # seconds without a request after which a fleet that cannot say so is through


class Terms(Struct, frozen=True):
    limits: Limits
    hosts: int
    latency: float
    warm_up: float  # seconds from the first request on
    window: float
    pages: int = 100_000  # on each host
    proxies: int = 0  # 0: directly


class Figures(Struct, frozen=True):
    contender: str
    workers: int
    pages: int  # in the window
    seconds: float
    cpu: float  # seconds, of all workers
    store_cpu: float
    memory: float  # bytes, of a worker, on average
    manners: Manners
    proxies: int = 0
    refused: int = 0  # answers 429, in the window
    given_up: int = 0  # pages that were tried in vain, since the beginning
    obtained: int = 0  # the others

    @property
    def success(self) -> float:
        """The share of the pages that were not given up."""
        return self.obtained / max(1, self.obtained + self.given_up)

    @property
    def pages_per_minute(self) -> float:
        return 60 * self.pages / self.seconds


class Loss(Struct, frozen=True):
    """What came of a crawl in which a worker was killed."""

    contender: str
    workers: int
    pages: int
    lost: int
    doubled: int
    fetched_again: int
    seconds: float
    ended: bool  # by itself
    manners: Manners


class _Scene:
    """A store, a web and a fleet, until the block ends."""

    def __init__(self, stack: ExitStack, name: str, terms: Terms) -> None:
        # Below the current directory: /tmp may be memory, where nothing costs a sync.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir="."))).absolute()
        proxies = (
            urls_of(stack.enter_context(ProxyProcess(make_plans(terms.proxies)))) if terms.proxies else ()
        )
        host = HostProfile("slow", pages=terms.pages, links=12, body_bytes=4_000, latency=terms.latency)
        if terms.proxies:
            host = limited_host(terms.pages, terms.latency, terms.limits.rate)
        self.store = stack.enter_context(ValkeyServer(folder / "valkey", appendonly=True))
        self.web = stack.enter_context(WebProcess({f"host-{number}": host for number in range(terms.hosts)}))
        members = stack.enter_context(Members(folder / "fleet"))
        members.folder.mkdir()
        self.fleet: Contender = CONTENDERS[name](
            members, self.store, self.web.start_urls, terms.limits, proxies
        )

    def begin(self, workers: int) -> list[Member]:
        crew = [self.fleet.worker(number) for number in range(workers)]
        for worker in crew:
            until(lambda: self.fleet.ready(worker), "a worker that is ready", worker)  # noqa: B023
        self.fleet.begin()
        until(self.web.hits, "the first request", *crew)
        return crew

    def store_cpu(self) -> float:
        info = self.store.command("INFO", "cpu")
        return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


def measure(name: str, workers: int, terms: Terms) -> Figures:
    with ExitStack() as stack:
        scene = _Scene(stack, name, terms)
        crew = scene.begin(workers)
        time.sleep(terms.warm_up)
        began, cpu, store_cpu = time.monotonic(), _cpu(crew), scene.store_cpu()
        time.sleep(terms.window)
        ended, cpu, store_cpu = time.monotonic(), _cpu(crew) - cpu, scene.store_cpu() - store_cpu
        memory = sum(worker.memory() for worker in crew) / workers
        hits = scene.web.hits()
        seen = [hit for hit in hits if began <= hit.ended < ended]
        return Figures(
            contender=name,
            workers=workers,
            pages=sum(hit.status == 200 for hit in seen),
            seconds=ended - began,
            cpu=cpu,
            store_cpu=store_cpu,
            memory=memory,
            manners=manners(hits, terms.limits.rate),
            proxies=terms.proxies,
            refused=sum(hit.status == 429 for hit in seen),
            given_up=scene.fleet.given_up(),
            obtained=len({(hit.host, hit.path) for hit in hits if hit.status == 200}),
        )


def _cpu(crew: Sequence[Member]) -> float:
    return sum(worker.cpu() for worker in crew)


def kill(name: str, workers: int, terms: Terms, patience: float) -> Loss:
    with ExitStack() as stack:
        scene = _Scene(stack, name, terms)
        pages = terms.hosts * terms.pages
        crew = scene.begin(workers)
        began = time.monotonic()
        until(lambda: len(scene.web.hits()) >= pages // 2, "half of the pages", *crew, seconds=patience)
        crew[0].kill()
        scene.fleet.worker(0)
        ended = _wait_for_end(scene, began + patience)
        hits = scene.web.hits()
        return _loss(name, workers, scene, hits, ended, max(hit.ended for hit in hits) - began, terms)


def _wait_for_end(scene: _Scene, deadline: float) -> bool:
    """Whether the fleet said so itself, or nothing happened any more."""
    while time.monotonic() < deadline:
        if scene.fleet.through() and time.monotonic() - max(hit.ended for hit in scene.web.hits()) > _QUIET:
            return True
        time.sleep(0.2)
    return False


def _loss(
    name: str, workers: int, scene: _Scene, hits: Sequence[Hit], ended: bool, seconds: float, terms: Terms
) -> Loss:
    rows = Counter(scene.fleet.rows())
    expected = {url for host in scene.web.spec.hosts for url in scene.web.pages_of(host)}
    answered = Counter((hit.host, hit.path) for hit in hits if hit.status == 200)
    return Loss(
        name,
        workers,
        len(expected),
        lost=len(expected - set(rows)),
        doubled=rows.total() - len(rows),
        fetched_again=answered.total() - len(answered),
        seconds=seconds,
        ended=ended,
        manners=manners(hits, terms.limits.rate),
    )
