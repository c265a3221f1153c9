"""What requests through pools cost, by job and by host: exact, committed with the pages, and shown."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import signal
import statistics
import sys
from pathlib import Path

import pytest
from rich.console import Console

import shoal
from integration.raw_server import always, page, serve
from shoal import Page, Spider
from shoal.clock import SystemClock
from shoal.config import load
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.routes import Routes
from shoal.frontier import open_frontier
from shoal.inspect.lookup import look_at_uses
from shoal.model import Response, counts
from shoal.policy.load import Traffic
from shoal.policy.proxy_use import OTHER, USES, HostUse, bounded, time_bucket
from shoal.terminal.summary import render
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.gateway_server import GatewayServer
from shoal.testing.proxy_server import ProxyServer

PRICE = 0.002


def crawler(start: list[str] | str) -> Spider:
    spider = Spider("costly", start=start, rate=0, pool="res")

    @spider.handler
    def found(page: Page):  # type: ignore[no-untyped-def]
        yield {"url": page.url}
        yield from page.follow_all("a")

    return spider


async def test_every_request_is_paid_for_and_shown(tmp_path: Path) -> None:
    store = str(tmp_path / "shoal.db")
    async with ChaoticWeb({"shop": HostProfile("fast", pages=20)}) as web, ProxyServer() as proxy:
        pools = {"res": {"urls": [proxy.url], "cost": PRICE, "cost_per_gb": 1.0}}
        results = await shoal.crawl(crawler(web.start_urls), store=store, proxies=pools)
        [host] = {url.split("/")[2] for url in web.start_urls}
    requests = len(proxy.heads)
    assert requests == 21, "the pages, and robots.txt"
    cost = counts.costs(results.view.job.counts)["res"]
    size = cost - requests * PRICE  # of which the bytes are a small part
    assert 0 < size < 21 * 5_000 / 1e9
    async with open_frontier(store) as frontier:
        [use] = await look_at_uses(frontier)
    assert (use.pool, use.host, use.requests, use.success, use.refused) == ("res", host, requests, 1.0, 0)
    assert use.cost == pytest.approx(cost, abs=2e-6)
    assert use.median is not None
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(render(results.view, output="rows"))
    assert f"cost      {cost:.6g} (res {cost:.6g}), {cost / 20:.3g} a page" in console.export_text()


async def test_a_gateway_says_what_it_charges_and_charges_nothing_for_its_errors() -> None:
    async with serve(always(page())) as server, GatewayServer(credits=2) as gateway:
        pool = {
            "gateway": gateway.template,
            "status_header": "X-Status",
            "cost": PRICE,
            "cost_header": "X-Cost",
            "cooldown": 60,
        }
        spider = Spider("gateway", start=[server.url(f"/{n}") for n in range(2)], robots=False, rate=0)

        @spider.handler
        def found(page: Page) -> None: ...

        results = await shoal.crawl(spider, proxies={"api": pool}, pool="api")
    assert counts.costs(results.view.job.counts) == {"api": pytest.approx(2 * 5 * PRICE)}


def routes() -> Routes:
    settings = load(None, {"proxies": {"res": {"urls": ["h:1"], "cost": 1e-7}}, "pool": "res"}, {}, {})
    return Routes(
        NoTransport(),
        settings,
        LocalPools(),
        traffic=Traffic(),
        clock=SystemClock(),
        rng=random.Random(0),
        now=lambda: 0.0,
    )


class NoTransport:
    async def fetch(self, request: object) -> Response:
        return Response("http://a.example/", 200, {}, b"")

    async def close(self) -> None: ...


async def test_small_costs_add_up_and_what_was_not_committed_comes_back() -> None:
    from shoal.fetch.transport import FetchRequest

    ways, counted = routes(), 0
    for _ in range(1_000):
        await ways.fetch(FetchRequest("http://a.example/"))
        counted += sum(number for _, number in ways.take_costs())
    assert counted in (99, 100), "1,000 times a tenth of a millionth"
    ways.return_costs([("cost: res", 100), ("variants", 7)])
    assert dict(ways.take_costs())["cost: res"] in (100, 101)
    assert ways.take_costs() == ()


CODE = """
from shoal import Spider

spider = Spider("costly", {start!r}, rate=0, per_host=8, concurrency=8, pool="res", robots=False,
                proxies={{"res": {{"urls": [{proxy!r}], "cost": 1.0}}}})

@spider.handler
def found(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a")
"""


async def test_a_kill_loses_what_was_in_flight_and_no_more(tmp_path: Path) -> None:
    async with ChaoticWeb({"shop": HostProfile("fast", pages=150)}) as web, ProxyServer() as proxy:
        script = CODE.format(start=web.start_urls[0], proxy=proxy.url)
        await asyncio.to_thread((tmp_path / "costly.py").write_text, script)
        command = (
            sys.executable,
            "-m",
            "shoal",
            "crawl",
            "costly.py",
            "-o",
            "rows.jsonl",
            "--store",
            "shoal.db",
        )
        env = {**os.environ, "SHOAL_GUARDIAN": "off"}
        first = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=env)
        async with asyncio.timeout(60):
            while len(proxy.heads) < 60 and first.returncode is None:  # noqa: ASYNC110 (the proxy tells nobody)
                await asyncio.sleep(0.005)
        first.send_signal(signal.SIGKILL)
        await first.wait()
        again = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=env)
        assert await again.wait() == 0
    async with open_frontier(str(tmp_path / "shoal.db")) as frontier:
        job = await frontier.job("costly")
        assert job is not None
        assert job.counters.done == 150
        paid = counts.costs(job.counts)["res"]
        [use] = await look_at_uses(frontier)
    assert len(proxy.heads) - 64 <= paid <= len(proxy.heads)
    assert paid >= 150, "every page that is done was paid for"
    assert use.requests <= len(proxy.heads)


# -- by host


def test_the_median_is_near_the_true_one() -> None:
    rng = random.Random(1)
    for _ in range(20):
        took = [rng.lognormvariate(-1, 1) for _ in range(301)]
        use = HostUse()
        for seconds in took:
            use += HostUse(1, 1, times=time_bucket(seconds))
        assert use.median == pytest.approx(statistics.median(took), rel=0.26)


def test_many_hosts_are_taken_together_and_nothing_is_lost() -> None:
    uses = {f"h{number}": HostUse(number, number, cost=1.0) for number in range(USES + 100)}
    kept = bounded(bounded(uses))
    assert len(kept) == USES
    assert kept[f"h{USES + 99}"].requests == USES + 99
    assert sum(use.requests for use in kept.values()) == sum(use.requests for use in uses.values())
    assert kept[OTHER].cost == 101


def test_the_command_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def crawl() -> None:
        async with serve(always(page())) as server, ProxyServer() as proxy:
            spider = crawler(server.url("/"))
            pools = {"res": {"urls": [proxy.url], "cost": PRICE}}
            await shoal.crawl(spider, store=str(tmp_path / "shoal.db"), proxies=pools, robots=False)

    asyncio.run(crawl())
    from shoal.cli import run

    store = str(tmp_path / "shoal.db")
    assert run(["proxies", "hosts", "--store", store, "--json"]) == 0
    [use] = json.loads(capsys.readouterr().out)
    assert (use["pool"], use["requests"], use["cost"]) == ("res", 1, PRICE)
    assert run(["proxies", "--store", store]) == 0
    assert "median" in capsys.readouterr().out
    assert run(["status", "costly", "--store", store]) == 0
    assert "cost  0.002 (res 0.002), 0.002 a page" in capsys.readouterr().out
