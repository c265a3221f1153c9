"""A standing crawl that is killed: its pages are visited on, and every change is told once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from itertools import pairwise
from pathlib import Path
from typing import Any

import shoal
from shoal.frontier import open_frontier
from shoal.testing.changing_site import ChangingSite, Content

DEADLINE = 60.0
KILLS = 2
SPIDER = """
from shoal import Spider

spider = Spider("shop", start=["{url}/lamp", "{url}/chair"], robots=False, rate=0, retry_base=0.2)


@spider.handler(key="name", revisit="1s")
def product(page):
    yield {{"name": page.text("h1"), "price": int(page.text(".price"))}}
"""


async def crawl(folder: Path) -> Process:
    environ = {**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1]), "SHOAL_GUARDIAN": "off"}
    words = ("crawl", "shop.py", "--store", "s.db", "-q", "-o", "rows.jsonl", "-o", "changes=changes.jsonl")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shoal", *words, cwd=folder, env=environ
    )


async def more_visits(site: ChangingSite, count: int) -> None:
    """Until that many more requests have come. Prices change all the time."""
    wanted, number = site.served + count, 0
    async with asyncio.timeout(DEADLINE):
        while site.served < wanted:
            await asyncio.sleep(0.03)
            number += 1
            for path in site.pages if number % 5 == 0 else ():
                site.set(path, str(int(site.pages[path].price) + 1))


async def test_every_change_is_told_once_however_often_the_crawl_is_killed(tmp_path: Path) -> None:
    pages = {"/lamp": Content("1"), "/chair": Content("1000")}
    async with ChangingSite(pages).serving() as site:
        (tmp_path / "shop.py").write_text(SPIDER.format(url=site.url))
        for _ in range(KILLS):
            process = await crawl(tmp_path)
            await more_visits(site, 6)
            process.kill()
            await process.wait()
        process = await crawl(tmp_path)
        await more_visits(site, 6)
        process.send_signal(signal.SIGTERM)
        await process.wait()
    rows, changes = lines(tmp_path / "rows.jsonl"), lines(tmp_path / "changes.jsonl")
    for name in pages:
        prices = [row["price"] for row in rows if row["name"] == name]
        told = [(change["old"], change["new"]) for change in changes if change["key"] == name]
        assert told == list(pairwise(prices)), "each goes on from the one before"
        assert len(told) >= KILLS
        assert prices == sorted(set(prices))
    async with open_frontier(str(tmp_path / "s.db")) as frontier:
        job = await frontier.job("shop")
    assert job is not None
    assert (job.counters.admitted, job.counters.waiting, job.counters.open) == (2, 2, 2), "none is lost"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
