"""A host that dies in the middle of a crawl: what it costs the others, how it is probed, and what becomes of its tasks.

The server's log is the witness, so the host mostly falls silent or fails rather than to refuse connections.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import shoal
from lateness import Lateness
from shoal import Page, Results, Spider
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.inspect.job import View
from shoal.testing import ChaoticWeb, Hit, HostProfile

Figure = Callable[[str, object], None]

COOLDOWN, FAILURES = 0.1, 3
QUICK: dict[str, Any] = {
    "robots": False,
    "breaker_cooldown": COOLDOWN,
    "breaker_failures": FAILURES,
    # Hosts answer, however busy the machine is. Those that fall silent have a timeout of their own.
    "min_timeout": 20.0,
    "first_timeout": 20.0,
    "retry_base": 0.02,
    "retry_cap": 0.04,
    "max_attempts": 20,
}
DEADLINE = 60
SILENT, FAILING = HostProfile("hanging"), HostProfile("failing")
HEALTHY = HostProfile("slow", latency=0.02)


def spider_of(web: ChaoticWeb, pages: int, **settings: object) -> Spider:
    """Every page of every host is a start URL, hosts in turn."""
    start = [web.url(host, f"/p/{n}") for n in range(pages) for host in web.spec.hosts]
    spider = Spider("breaker", start, **{**QUICK, **settings})
    spider.add_handler(url_of)
    return spider


def url_of(page: Page) -> dict[str, str]:
    return {"url": page.url}


def urls(results: Results) -> set[str]:
    return {row["url"] for row in results}


def failed(hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.status != 200]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 (the server does not know of us)
            await asyncio.sleep(0.005)


async def crawl_during(
    crawl: Coroutine[Any, Any, Results], events: Coroutine[Any, Any, None] | None = None
) -> Results:
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as tasks:
        crawling = tasks.create_task(crawl)
        if events is not None:
            tasks.create_task(events)
    return crawling.result()


# -- one of many

HOSTS, PAGES, RATE = 10, 30, 10.0  # a hundred pages a second: any machine has time for them


async def crawl_ten_hosts(outage: float) -> list[Hit]:
    """Each host needs a slot, and there are hardly more: were the dead one to keep its five, the others would feel
    it."""
    profile = HostProfile("slow", latency=0.07, pages=PAGES)
    async with ChaoticWeb({f"host-{n}": profile for n in range(HOSTS)}) as web:

        async def die_and_return() -> None:
            await until(lambda: len(web.hits()) > 0.2 * HOSTS * PAGES)
            web.become("host-0", SILENT)
            await asyncio.sleep(outage)
            web.become("host-0", profile)

        # The pages of the others are never cut off, for they are what is measured.
        silent = {web.addresses["host-0"]: {"timeout": 0.25}}
        spider = spider_of(web, PAGES, rate=RATE, burst=3, per_host=5, concurrency=10, host=silent)
        results = await crawl_during(shoal.crawl(spider), die_and_return() if outage else None)
        assert urls(results) == {url for host in web.spec.hosts for url in web.pages_of(host)}
        assert not outage or failed(web.hits_of("host-0"))
        return web.hits()


def rate_of_the_others(hits: list[Hit]) -> float:
    """Pages a second of a host that did not die, on average."""
    rates = []
    for number in range(1, HOSTS):
        starts = [hit.started for hit in hits if hit.host == f"host-{number}"]
        rates.append((len(starts) - 1) / (max(starts) - min(starts)))
    return statistics.mean(rates)


async def test_a_host_that_dies_costs_the_others_next_to_nothing(record_property: Figure) -> None:
    left = 0.0
    for _ in range(8):  # a busy machine may slow down either, though they run at the same time
        healthy, suffering = await asyncio.gather(crawl_ten_hosts(outage=0.0), crawl_ten_hosts(outage=0.8))
        left = max(left, rate_of_the_others(suffering) / rate_of_the_others(healthy))
        if left > 0.98:
            break
    record_property("cost of a death", f"{1 - left:.2%}")
    assert left > 0.98


# -- the host itself

AT_ONCE = 4


async def test_it_is_probed_by_one_request_a_cooldown_and_finishes_when_it_is_back(
    record_property: Figure,
) -> None:
    async with ChaoticWeb({"host": HEALTHY}) as web:

        async def die_and_return() -> None:
            await until(lambda: len(web.hits()) >= 8)
            web.become("host", SILENT)
            await until(lambda: len(failed(web.hits())) >= AT_ONCE + 3)
            web.become("host", HEALTHY)

        # Long enough that only its silence is cut off, and the same for every request.
        silent = {web.addresses["host"]: {"timeout": 2.0}}
        spider = spider_of(web, 20, rate=100, per_host=AT_ONCE, host=silent)
        with Lateness() as late:
            results = await crawl_during(shoal.crawl(spider), die_and_return())
        assert urls(results) == web.pages_of("host")
        hits = web.hits_of("host")
    *last_straws, first, second, third = failed(hits)
    assert len(last_straws) == AT_ONCE, "those that were under way when it died"
    opened = sorted(hit.ended for hit in last_straws)[FAILURES - 1]
    back = next(hit for hit in hits if hit.started > third.ended)
    assert [hit for hit in hits if opened < hit.started <= back.started] == [first, second, third, back]
    assert [hit.concurrent for hit in (first, second, third, back)] == [1, 1, 1, 1]
    waits = [
        first.started - opened,
        second.started - first.ended,
        third.started - second.ended,
        back.started - third.ended,
    ]
    record_property("seconds between probes", [round(wait, 3) for wait in waits])
    for number, wait in enumerate(waits):
        # The server may see an end late, and crawl and server a start.
        assert -0.02 - late.seconds <= wait - COOLDOWN * 2**number <= 0.15 + late.seconds + late.stalled


async def test_a_host_that_refuses_connections_finishes_when_it_listens_again() -> None:
    served: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        writer.close()

    async def stop_and_listen_again() -> None:
        await until(lambda: len(served) >= 5)
        listener.close()
        async with asyncio.timeout(DEADLINE):
            await refused.wait()
        again.append(await asyncio.start_server(answer, "127.0.0.1", port))

    refused, again = asyncio.Event(), list[asyncio.Server]()
    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    spider = Spider("breaker", [f"http://127.0.0.1:{port}/{n}" for n in range(15)], **QUICK, rate=100)
    spider.add_handler(url_of)

    def watch(view: View) -> None:
        if view.report.errors.get("connect", 0) > FAILURES:
            refused.set()

    results = await crawl_during(shoal.crawl(spider, watch=watch), stop_and_listen_again())
    again[0].close()
    assert len(urls(results)) == 15


# -- given up

GIVE_UP: dict[str, Any] = {"rate": 0, "per_host": 2, "breaker_probes": 2, "breaker_give_up": 0.5}


async def dead_kinds(frontier: Frontier, host: str) -> list[str]:
    return [letter.kind for letter in await frontier.dead(DeadFilter(host=host))]


async def test_a_host_that_was_given_up_is_probed_by_one_request_when_it_is_replayed(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with ChaoticWeb({"host": FAILING}) as web:
        spider = spider_of(web, 20, **GIVE_UP)
        ended = await crawl_during(shoal.crawl(spider, store=store))
        assert (ended.view.job.state, ended.view.job.counters.dead) == ("finished", 20)
        before = len(web.hits())
        assert FAILURES + 2 <= before < 12, "the others were buried unfetched"

        async def replayed() -> Results:
            given_up_at = time.monotonic()
            await until(lambda: time.monotonic() > given_up_at + GIVE_UP["breaker_give_up"])
            async with open_frontier(str(store)) as frontier:
                assert "host_down" in await dead_kinds(frontier, web.addresses["host"])
                await frontier.replay(DeadFilter())
            return await crawl_during(shoal.crawl(spider, store=store))

        began = time.monotonic()
        assert (await replayed()).view.job.counters.dead == 20
        # It may be asked again each time that it has been given up for so long, the wait before the replay included.
        times = int((time.monotonic() - began) / GIVE_UP["breaker_give_up"])
        assert before + 1 <= len(web.hits()) <= before + max(1, times)
        web.become("host", HEALTHY)
        assert (await replayed()).view.job.counters.done == 20


async def test_not_even_a_running_crawl_floods_it(tmp_path: Path) -> None:
    """The valve of a host that was given up lets everything through, to be buried. It must not do so when the tasks
    come back and the host may be probed again. By then the crawl has sent one of them ahead by itself."""
    async with ChaoticWeb({"host": FAILING, "other": HostProfile("slow", latency=0.05, pages=60)}) as web:
        host = web.addresses["host"]
        start = [web.url("host", f"/p/{n}") for n in range(20)]
        start += [web.url("other", f"/p/{n}") for n in range(60)]
        spider = Spider("breaker", start, **{**QUICK, **GIVE_UP})
        spider.add_handler(url_of)

        async def all_dead(frontier: Frontier) -> None:
            while len(await dead_kinds(frontier, host)) < 19:  # noqa: ASYNC110 (the store does not tell)
                await asyncio.sleep(0.005)

        async def replay_once() -> None:
            async with open_frontier(str(tmp_path / "store.db")) as frontier:
                await all_dead(frontier)
                given_up_at, before = time.monotonic(), len(web.hits_of("host"))
                await until(lambda: time.monotonic() > given_up_at + GIVE_UP["breaker_give_up"])
                assert await frontier.replay(DeadFilter(host=host)) >= 18
                await all_dead(frontier)
                assert before + 1 <= len(web.hits_of("host")) <= before + 2

        crawl = shoal.crawl(spider, store=tmp_path / "store.db")
        results = await crawl_during(crawl, replay_once())
        assert (results.view.job.counters.done, results.view.job.counters.dead) == (60, 20)


# -- stored and shared

LONG = {"breaker_cooldown": 60.0}


async def test_an_open_breaker_survives_a_restart(tmp_path: Path) -> None:
    async with ChaoticWeb({"host": FAILING, "other": HEALTHY}) as web:
        spider = spider_of(web, 20, rate=50, **LONG)

        def crawled() -> int:
            return len({hit.path for hit in web.hits_of("other")})

        for pages in (10, 20):
            crawling = asyncio.create_task(shoal.crawl(spider, store=tmp_path / "store.db"))
            await until(lambda: crawled() >= pages)  # noqa: B023
            crawling.cancel()
            await asyncio.gather(crawling, return_exceptions=True)
        assert len(web.hits_of("host")) in (FAILURES, FAILURES + 1), "nobody came again"


SPIDER = """
from shoal import Spider

spider = Spider("breaker", {start!r}, **{settings!r})

@spider.handler
def page(page):
    yield {{"url": page.url}}
"""


async def test_what_one_process_finds_out_stops_the_others(tmp_path: Path) -> None:
    async with ChaoticWeb({"host": SILENT, "other": HEALTHY}) as web:
        start = [web.url(host, f"/p/{n}") for n in range(20) for host in web.spec.hosts]
        # Long enough for its requests to arrive, however busy the machine is: the server counts them.
        silent = {web.addresses["host"]: {"timeout": 2.0}}
        settings = {**QUICK, **LONG, "rate": 20, "per_host": 4, "host": silent}
        (tmp_path / "spider.py").write_text(SPIDER.format(start=start, settings=settings))
        command = [sys.executable, "-c", "from shoal.cli import main; main()", "crawl", "spider.py"]
        crawl = await asyncio.create_subprocess_exec(
            *command, "--processes", "2", "-o", "rows.jsonl", cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await until(lambda: len(web.hits_of("host")) >= FAILURES)
            await until(lambda: len(web.hits_of("other")) == 20)
        finally:
            crawl.send_signal(signal.SIGTERM)
            await crawl.wait()
        hits = web.hits_of("host")
    opened = sorted(hit.ended for hit in hits)[FAILURES - 1]
    assert [hit for hit in hits if hit.started > opened + 0.1] == []
    assert len(hits) <= 4 + FAILURES


POLICY = """
from msgspec import Struct
from shoal.policy.protocol import Limits

class OneAtATime:
    name = "concurrency"

    class State(Struct, frozen=True):
        answers: int = 0

    def __init__(self, settings):
        pass

    def observe(self, state, seen):
        return self.State(state.answers + 1)

    def limits(self, state, now):
        return Limits(cap=1, why=f"one at a time, {state.answers} answers")
"""


async def test_a_policy_can_be_replaced_by_an_import_path(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "careful.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    policies = ["rate", "breaker", "timeout", "budget"]
    peaks = {}
    for own in ("concurrency", "careful:OneAtATime"):
        async with ChaoticWeb({"host": HEALTHY}) as web:
            spider = spider_of(web, 20, rate=0, per_host=4, policies=[*policies, own])
            assert len(await crawl_during(shoal.crawl(spider))) == 20
            hits = web.hits_of("host")
            peaks[own] = max(hit.concurrent for hit in hits[6:])
    assert peaks == {"concurrency": 4, "careful:OneAtATime": 1}
