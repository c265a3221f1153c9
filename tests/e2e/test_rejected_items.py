"""Items that do not validate: kept with the reason, counted, shown, and replayed when the schema is mended."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crash.harness import Desk, until
from shoal.frontier import open_frontier
from shoal.frontier.values import Counters
from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

PAGES, EACH, BAD = (
    20,
    20,
    12,
)  # 400 items, of which 12 do not validate: the proportion is that of 300 in 10,000

SITE = """
import asyncio, json, sys
from aiohttp import web

each, bad = int(sys.argv[1]), int(sys.argv[2])

async def answer(request):
    if request.path == "/robots.txt":
        return web.Response(status=404)
    first = int(request.path.strip("/")) * each
    numbers = range(first, first + each)
    return web.json_response([{"sku": f"s{n}", "price": "12 EUR" if n < bad else str(n / 4)} for n in numbers])

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

SPIDER = """
from dataclasses import dataclass
from shoal import Spider

@dataclass
class Product:
    sku: str
    price: {price}

spider = Spider("shop", start=[f"{site}/{{n}}" for n in range({pages})], rate=0, robots=False)

@spider.handler(item=Product, key="sku")
def page(page):
    yield from page.json()
"""


SLOW = """
    def __post_init__(self):
        import time; time.sleep(0.02)  # so that it can be killed in between
"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    command = [sys.executable, "-c", SITE, str(EACH), str(BAD)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


def write_spider(folder: Path, site: str, price: str) -> None:
    text = SPIDER.format(site=site, price=price, pages=PAGES)
    (folder / "shop.py").write_text(textwrap.dedent(text))


def counters(store: str) -> Counters:
    async def read() -> Counters:
        async with open_frontier(store) as frontier:
            job = await frontier.job("shop")
            assert job is not None
            return job.counters

    return asyncio.run(read())


def whole_lines(folder: Path) -> int:
    """While a crawl writes, the last line may be there in part."""
    return (folder / "rows.jsonl").read_bytes().count(b"\n")


def skus(folder: Path) -> list[str]:
    return [json.loads(line)["sku"] for line in (folder / "rows.jsonl").read_text().splitlines()]


def as_json(cli: Cli, *argv: str) -> Any:
    code, out, err = cli(*argv, "--json")
    assert code == 0, err
    return json.loads(out)


ALL = {f"s{n}" for n in range(PAGES * EACH)}


@pytest.mark.parametrize("home", ["sqlite", "valkey"])
def test_rejected_items_are_kept_and_replayed(
    cli: Cli, tmp_path: Path, site: str, home: str, request: pytest.FixtureRequest
) -> None:
    store = "store.db"
    if home == "valkey":
        store = f"{request.getfixturevalue('valkey')}?prefix=rejected&shards=3"
    crawl = ("crawl", "shop.py", "-o", "rows.jsonl", "--store", store)
    write_spider(tmp_path, site, "float")
    code, _, err = cli(*crawl)
    assert code == 0, err
    assert "rejected" in err
    assert "shoal rejected list shop" in err
    assert sorted(skus(tmp_path)) == sorted(ALL - {f"s{n}" for n in range(BAD)})
    before = counters(store)
    assert (before.done, before.dead, before.rejected, before.admitted) == (PAGES, 0, BAD, PAGES)

    found = as_json(cli, "rejected", "list", "shop", "--store", store, "--limit", "3")
    reason = "Expected `float`, got `str` (field price)"
    assert found["reasons"] == [{"text": reason, "handler": "page", "table": "product", "count": BAD}]
    assert len(found["items"]) == 3
    item = found["items"][0]
    assert item["item"]["price"] == "12 EUR"
    assert (item["reason"], item["job"], item["url"]) == (reason, "shop", f"{site}/0")
    assert cli("dead", "list", "--store", store)[1] == "no dead letters\n"
    shown = cli("rejected", "show", str(item["id"]), "--store", store)[1]
    assert '"price": "12 EUR"' in shown
    assert reason in shown

    # Replayed with the old schema, they are rejected again: nothing is lost, and nothing counted twice.
    assert "12 items queued again" in cli("rejected", "replay", "shop", "--store", store)[2]
    assert counters(store).pending == BAD
    assert cli(*crawl)[0] == 0
    assert counters(store) == before
    assert as_json(cli, "rejected", "list", "--store", store)["items"][0]["times"] == 2

    write_spider(tmp_path, site, "float | str")
    cli("rejected", "replay", "shop", "--store", store)
    code, _, err = cli(*crawl)
    assert code == 0, err
    assert sorted(skus(tmp_path)) == sorted(ALL)
    after = counters(store)
    assert (after.rejected, after.items, after.done, after.admitted) == (0, len(ALL), PAGES, PAGES)
    assert cli("rejected", "list", "--store", store)[1] == "no rejected items\n"


def test_killed_while_it_replays(cli: Cli, tmp_path: Path, site: str) -> None:
    """Each item becomes one row, however often the process is killed. What it has in hand twice when it dies comes back
    half a second apart: so that is little."""
    crawl = ("crawl", "shop.py", "-o", "rows.jsonl", "--store", "store.db", "-q", "-s", "concurrency=6")
    write_spider(tmp_path, site, "bool")
    assert cli(*crawl)[0] == 0
    assert counters("store.db").rejected == len(ALL)
    write_spider(tmp_path, site, f"str\n{SLOW}")
    cli("rejected", "replay", "--all", "--store", "store.db")
    with Desk(tmp_path) as desk:
        for share in (5, 3, 2):
            process = desk.start(*crawl)
            until(lambda: whole_lines(tmp_path) >= len(ALL) // share or not process.running, "rows")  # noqa: B023
            assert process.running, "it ended before it was killed"
            process.kill()
    write_spider(tmp_path, site, "str")
    assert cli(*crawl)[0] == 0
    assert sorted(skus(tmp_path)) == sorted(ALL)
    after = counters("store.db")
    assert (after.rejected, after.items, after.admitted, after.done) == (0, len(ALL), PAGES, PAGES)
