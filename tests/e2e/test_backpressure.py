"""Every rule of backpressure, brought about for real: it takes hold, is named in the log, does what it says, lets go.

Nearly all the times that rules and signals go by are a fiftieth of the usual ones.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from itertools import count
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

import shoal
from shoal import Page, Request, Spider
from shoal.engine import feeder
from shoal.engine.vitals import Machine
from shoal.model import Row
from shoal.policy import backpressure
from shoal.sink.jsonl import MemoryJournal
from shoal.testing import ChaoticWeb, Hit, HostProfile
from shoal.testing.proxy_server import ProxyServer

SCALE = 50
DEADLINE = 60
DISCOVERY = 50_000  # pages from this number on are asked for in the discovery lane
SINK_LAG = 0.1
PERSISTENT: dict[str, Any] = {"max_attempts": 1000, "retry_budget": 100, "retry_cap": 0.02}
NORMAL: dict[str, Any] = {"robots": False, "rate": 0, "retry_base": 0.01, "policies": ["timeout"]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicker = tuple(replace(rule, pace=rule.pace / SCALE) for rule in backpressure.RULES)
    monkeypatch.setattr(backpressure, "RULES", quicker)
    for name in (
        "shoal.engine.pressure._EVERY",
        "shoal.engine.event_loop._TICK",
        "shoal.engine.event_loop._WINDOW",
        "shoal.policy.backpressure._IDLE",
        "shoal.policy.backpressure._OPEN",
        "shoal.policy.load._MEMORY",
        "shoal.policy.load._FLOW",
        "shoal.policy.load._DOUBT",  # in so short a memory there are few fetches
    ):
        module, _, constant = name.rpartition(".")
        value = getattr(__import__(module, fromlist=[constant]), constant)
        monkeypatch.setattr(name, value / SCALE)
    # In so short a memory a busy machine has few fetches, too.
    monkeypatch.setattr(backpressure, "_ENOUGH", 5.0)


class Log(logging.Handler):
    """When each rule took hold and let go, with its sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[float, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage().split(" ", 2)
        if words[0] == "backpressure":
            self.changes.append((time.monotonic(), f"{words[1]} {words[2].split(':')[0]}", words[2]))

    def has(self, change: str) -> bool:
        return any(name == change for _, name, _ in self.changes)

    def last(self, rule: str) -> str:
        """What it did last."""
        return next((name for _, name, _ in reversed(self.changes) if name.startswith(f"{rule} ")), "")

    def held(self, rule: str) -> tuple[float, float]:
        """When it first took hold and then let go."""
        on = next(at for at, name, _ in self.changes if name == f"{rule} on")
        return on, next(at for at, name, _ in self.changes if name == f"{rule} off" and at > on)

    def spans(self, rule: str) -> list[tuple[float, float]]:
        """All the times that it held; the last may go on. If this process pauses, its traffic fades, and a rule may let
        go before its time."""
        found: list[tuple[float, float]] = []
        for at, name, _ in self.changes:
            if name == f"{rule} on":
                found.append((at, inf))
            elif name == f"{rule} off":
                found[-1] = (found[-1][0], at)
        return found

    def sentences(self, rule: str) -> list[str]:
        return [sentence for _, name, sentence in self.changes if name.startswith(f"{rule} ")]


@pytest.fixture
def log() -> Iterator[Log]:
    handler = Log()
    logger = logging.getLogger("shoal")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (what is waited for does not know of us)
        await asyncio.sleep(0.005)


async def crawl(spider: Spider, events: Coroutine[Any, Any, None] | None = None) -> shoal.Results:
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as tasks:
        crawling = tasks.create_task(shoal.crawl(spider))
        if events is not None:
            tasks.create_task(events)
    return crawling.result()


def slow(latency: float = 0.02) -> HostProfile:
    return HostProfile("slow", latency=latency, pages=2 * DISCOVERY, links=1, body_bytes=500)


def lane_of(hit: Hit) -> str:
    return "discovery" if int(hit.path.removeprefix("/p/")) >= DISCOVERY else "normal"


def endless(web: ChaoticWeb, enough: Callable[[], object], **settings: object) -> Spider:
    """Every page leads to another one, half of them in the normal lane and half in discovery, until it is enough."""
    number = {"normal": count(1000), "discovery": count(DISCOVERY + 1000)}

    def another(page: Page) -> Iterator[Request]:
        if not enough():
            lane = page.task.lane
            yield page.follow(f"/p/{next(number[lane])}", lane=lane)

    start = [Request(web.url(host, f"/p/{n}")) for host in web.spec.hosts for n in range(8)]
    start += [
        Request(web.url(host, f"/p/{DISCOVERY + n}"), lane="discovery")
        for host in web.spec.hosts
        for n in range(8)
    ]
    spider = Spider("pressure", start, **{"per_host": 20, "concurrency": 20, **NORMAL, **settings})
    spider.add_handler(another)
    return spider


def within(hits: Sequence[Hit], *held: tuple[float, float]) -> list[Hit]:
    """The pages that were asked for meanwhile."""
    return [hit for hit in hits if any(on < hit.started < off for on, off in held)]


def lanes_during(hits: Sequence[Hit], *held: tuple[float, float]) -> list[str]:
    """Of the pages that were asked for meanwhile. As many as there are slots may have been claimed before, and on a
    busy machine some of those are asked for late."""
    return [lane_of(hit) for hit in within(hits, *held)]


# -- gates


async def test_a_flood_of_links_pauses_discovery(log: Log) -> None:
    async with ChaoticWeb({"host": slow()}) as web:
        spider = Spider("flood", web.url("host", "/p/0"), high_water=100, per_host=4, concurrency=4, **NORMAL)

        @spider.handler
        def first(page: Page) -> Iterator[Request]:
            if page.url == web.url("host", "/p/0"):
                yield from (page.follow(f"/p/{n + 1}") for n in range(120))
                yield from (page.follow(f"/p/{n + DISCOVERY}", lane="discovery") for n in range(30))

        results = await crawl(spider)
        held = log.held("queue_full")
        hits = web.hits()
    assert results.view.job.counters.done == 151
    during = lanes_during(hits, held)
    assert len(during) > 20
    # Those that were in flight, and as many that a claim brought which was under way.
    assert during.count("discovery") <= 2 * 4, "not claimed, while normal ones are"
    assert lanes_during(hits, (held[1], hits[-1].ended)).count("discovery") > 10
    on, off = log.sentences("queue_full")[:2]
    assert on.endswith("(high water 100): discovery paused until 50")
    assert off.endswith("discovery goes on")


async def test_a_queue_of_nothing_but_discovery_is_not_stuck(log: Log) -> None:
    async with ChaoticWeb({"host": slow(0.01)}) as web:
        spider = Spider("flood", web.url("host"), high_water=10, per_host=2, concurrency=2, **NORMAL)
        spider.add_handler(
            lambda page: [page.follow(f"/p/{n}", lane="discovery") for n in range(60)], name="page"
        )
        results = await crawl(spider)
    assert log.has("queue_full on")
    assert results.view.job.counters.done == 60


async def test_a_list_by_host_does_not_leave_the_other_hosts_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first host would keep the queue full for a minute: it gets a page a second. The last of its pages are read
    beside those of the others."""
    monkeypatch.setattr(feeder, "_HEARD", 0.5)
    others = ["b", "c", "d"]
    hosts = {"first": HostProfile(pages=60), **{name: HostProfile(pages=5) for name in others}}
    async with ChaoticWeb(hosts) as web:
        start = [web.url(host, f"/p/{n}") for host, one in hosts.items() for n in range(one.pages)]
        spider = Spider("sorted", start, trust_start=True, high_water=20, **{**NORMAL, "rate": 1.0})
        spider.add_handler(lambda page: None, name="page")
        crawling = asyncio.create_task(crawl(spider))
        try:
            async with asyncio.timeout(DEADLINE / 2):
                await until(lambda: all(web.hits_of(host) for host in others) or crawling.done())
            assert len(web.hits_of("first")) < 30
        finally:
            crawling.cancel()
            await asyncio.wait([crawling])


async def test_a_queue_that_grows_by_links_makes_the_start_wait(log: Log) -> None:
    """Each of the first pages leads to six more. The rest of the start is asked for when these are done."""
    starts, links, stride = 90, 6, 30

    async def start() -> AsyncIterator[str]:
        for number in range(starts):
            if number == stride // 2:
                await until(lambda: log.has("queue_growth on"))
            yield web.url("host", f"/p/{number}")

    async with ChaoticWeb({"host": slow(0.03)}) as web:
        spider = Spider("growing", start, trust_start=True, high_water=stride, per_host=4, concurrency=4,
                        backpressure=["queue_growth"], **NORMAL)  # fmt: skip

        @spider.handler
        def page(page: Page) -> Iterator[Request]:
            if (number := int(page.url.rpartition("/")[2])) < stride // 2:
                yield from (page.follow(f"/p/{1_000 + links * number + n}") for n in range(links))

        results = await crawl(spider)
        hits = web.hits()
    assert results.view.job.counters.done == starts + links * (stride // 2)
    on, off = log.held("queue_growth")
    during = [int(hit.path.removeprefix("/p/")) for hit in hits if on < hit.started < off]
    assert max(number for number in during if number < 1_000) < stride, "no more of the start than was taken"
    assert len([number for number in during if number >= 1_000]) > 20, "while links are followed"
    said = log.sentences("queue_growth")
    assert "new URLs, and" in said[0]
    assert said[0].endswith("(max_growth 2): feeding paused until it is below 1, or 3 wait")
    assert said[1].endswith("feeding goes on")


async def test_a_retry_storm_pauses_discovery(log: Log) -> None:
    async with ChaoticWeb({"well": slow(), "ill": slow(), "worse": slow()}) as web:
        over = asyncio.Event()

        async def storm() -> None:
            await until(lambda: len(web.hits()) > 60)
            for host in ("ill", "worse"):
                web.become(host, HostProfile("failing"))
            await until(lambda: len(within(web.hits_of("well"), *log.spans("retries"))) > 8 * 8)
            for host in ("ill", "worse"):
                web.become(host, slow())
            over.set()

        spider = endless(
            web, lambda: over.is_set() and log.last("retries") == "retries off", per_host=8, **PERSISTENT
        )
        await crawl(spider, storm())
        held, hits = log.spans("retries"), web.hits_of("well")
    on, off = log.sentences("retries")[:2]
    assert "must be repeated (max_retry_share 50%): discovery and feeding paused until below 25%" in on
    assert off.endswith("discovery and feeding go on")
    during = lanes_during(hits, *held)
    assert len(during) > 50
    assert during.count("discovery") <= 8 * len(held)


# -- throttles


def busiest(hits: Sequence[Hit]) -> int:
    return max(hit.concurrent for hit in hits)


async def test_a_slow_sink_takes_slots_away(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowJournal(MemoryJournal):
        def append(self, committed: int, rows: Sequence[Row]) -> int:
            if not log.has("sink on"):
                time.sleep(3 * SINK_LAG)  # in the store's thread
            return super().append(committed, rows)

    monkeypatch.setattr("shoal.runtime.crawl.MemoryJournal", SlowJournal)
    async with ChaoticWeb({"host": slow()}) as web:
        spider = endless(web, lambda: log.has("sink off"), max_sink_lag=SINK_LAG)
        spider.add_handler(lambda page: {"url": page.url}, name="row")
        rows = [Request(web.url("host", f"/p/{n}"), "row") for n in range(900, 940)]
        spider.start = [*spider.start, *rows]  # type: ignore[misc]
        await crawl(spider)
    on, off = log.sentences("sink")[:2]
    assert re.search(r"finished pages wait \d+\.\d s", on)
    assert "of the slots in use until it is below" in on
    assert off.endswith("all slots in use")


async def test_a_latency_step_takes_slots_away(log: Log) -> None:
    """A busy machine may make it seem so before, and after a while again as usual."""
    async with ChaoticWeb({"host": slow()}) as web:
        again = asyncio.Event()

        async def step() -> None:
            await until(lambda: len(web.hits()) > 200)
            web.become("host", slow(0.25))
            await until(lambda: log.last("latency") == "latency on")
            before = busiest(web.hits())
            await until(lambda: busiest(web.hits()[-4:]) <= before / 2)
            web.become("host", slow())
            again.set()

        await crawl(endless(web, lambda: again.is_set() and log.last("latency") == "latency off"), step())
    assert "times what the same hosts usually take" in log.sentences("latency")[0]
    assert log.sentences("latency")[1].endswith("all slots in use")


async def test_memory_takes_slots_away(log: Log) -> None:
    ballast: list[bytearray] = []
    # As much again as whatever ran in this process before: the rule's hysteresis is a share of all.
    size = Machine().read().memory
    limit = size * 3 // 2
    async with ChaoticWeb({"host": slow()}) as web:

        async def allocate_and_free() -> None:
            await until(lambda: len(web.hits()) > 50)
            ballast.append(bytearray(b"x") * size)
            await until(lambda: log.has("machine on"))
            before = busiest(web.hits())
            await until(lambda: busiest(web.hits()[-4:]) < before)
            ballast.clear()

        # The allocation itself stops the loop.
        spider = endless(web, lambda: log.has("machine off"), memory_limit=limit, max_loop_lag=60.0)
        await crawl(spider, allocate_and_free())
    assert f"(limit {limit >> 20:,} MB)" in log.sentences("machine")[0]
    assert log.sentences("machine")[1].endswith("all slots in use")


# -- that only tells


async def test_a_host_that_answers_429_is_named(log: Log) -> None:
    async with ChaoticWeb({"host": slow(0.05), "limited": slow()}) as web:
        over = asyncio.Event()

        async def too_many() -> None:
            await until(lambda: len(web.hits()) > 60)
            web.become("limited", HostProfile("limited", rate=1, retry_after=0.01))
            await until(lambda: len(within(web.hits_of("host"), *log.spans("host_429"))) > 4 * 8)
            web.become("limited", slow())
            over.set()

        spider = endless(
            web, lambda: over.is_set() and log.last("host_429") == "host_429 off", per_host=8, **PERSISTENT
        )
        await crawl(spider, too_many())
        during = within(web.hits_of("host"), *log.spans("host_429"))
        assert max(hit.concurrent for hit in during) == 8, "nobody else is slowed down"
    told, taken_back = log.sentences("host_429")[:2]
    assert "were answered 429 (max_429_share 5%): the hosts concerned get fewer requests" in told
    assert taken_back.endswith("hosts get their usual requests")


async def test_failing_proxies_lower_the_number_of_slots(log: Log) -> None:
    async with ChaoticWeb({"host": slow()}) as web, ProxyServer() as good, ProxyServer() as other:
        again = asyncio.Event()

        async def failing() -> None:
            await until(lambda: len(web.hits()) > 60)
            for proxy in (good, other):
                await proxy.stop()
            await until(lambda: log.has("proxies on"))
            for proxy in (good, other):
                await proxy.start()
            again.set()

        routes: dict[str, Any] = {
            "proxies": {"dc": [good.url, other.url]},
            "pool": "dc",
            "pool_cooldown": 0.1,
        }
        spider = endless(
            web, lambda: again.is_set() and log.last("proxies") == "proxies off", **routes, **PERSISTENT
        )
        results = await crawl(spider, failing())
    on, off = log.sentences("proxies")[:2]
    assert "of the slots in use until below 15%" in on
    assert off.endswith("all slots in use")
    assert results.view.job.counters.dead == 0
