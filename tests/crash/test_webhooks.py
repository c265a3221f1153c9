"""A crawl that is killed while it delivers: the delivery comes again, and is the same."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal
from shoal.frontier import open_frontier
from shoal.testing.changing_site import ChangingSite, Content
from shoal.testing.servers import ValkeyServer
from webhook_receiver import WebhookReceiver

DEADLINE = 60.0
SPIDER = """
from shoal import Spider

spider = Spider("shop", start="{url}/lamp", robots=False, rate=0, lease=2, total_timeout=2, retry_base=0.2)


@spider.handler(key="name", revisit="1s")
def product(page):
    yield {{"name": page.text("h1"), "price": page.text(".price")}}
"""


async def crawl(folder: Path, store: str, receiver: WebhookReceiver) -> Process:
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(shoal.__file__).parents[1]),
        "SHOAL_GUARDIAN": "off",
        "SHOAL_WEBHOOK": receiver.url,
    }
    words = ("crawl", "shop.py", "--store", store, "-q", "-o", "rows.jsonl")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shoal", *words, cwd=folder, env=environ
    )


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "s.db"
    server: ValkeyServer = request.getfixturevalue("valkey")
    return f"{server.url}?prefix=webhooks"


async def test_a_delivery_outlives_its_process(tmp_path: Path, store: str) -> None:
    pages = {"/lamp": Content("10")}
    async with ChangingSite(pages).serving() as site, WebhookReceiver() as receiver:
        await asyncio.to_thread((tmp_path / "shop.py").write_text, SPIDER.format(url=site.url))
        receiver.hold = asyncio.Event()
        process = await crawl(tmp_path, store, receiver)
        await until(lambda: len(site.requests) >= 2)
        site.set("/lamp", "11")
        await until(lambda: len(receiver.received) == 1)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        receiver.hold.set()
        seen = len(site.requests)
        process = await crawl(tmp_path, store, receiver)
        await until(lambda: len(receiver.received) >= 2 and len(site.requests) >= seen + 3)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert len(receiver.received) == 2, "three more visits have found nothing"
    first, second = (json.loads(one.body) for one in receiver.received)
    assert first == second
    assert first["id"] == receiver.received[1].headers["X-Shoal-Delivery"]
    [change] = first["changes"]
    assert (change["old"], change["new"]) == ("10", "11")
    async with open_frontier(store if "://" in store else str(tmp_path / store)) as frontier:
        job = await frontier.job("shop")
    assert job is not None
    assert (job.counts["webhooks: sent"], job.counters.done, job.counters.dead) == (1, 0, 0)
    assert job.counters.open == job.counters.waiting == 1
