"""What spiders log and print in whole crawls: one process, several, and a worker of a fleet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.fleet import Fleet
from crash.harness import Desk
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

PAGES = 12
SPIDER = """
import logging
from shoal import Spider

log = logging.getLogger("my.shop")
# Without backpressure: a busy machine is late, and Shoal would warn of that.
spider = Spider("shop", start=[{url!r}], rate=0, robots=False, trust_start=True, backpressure=[])


@spider.handler
def page(page):
    print("printed")
    log.info("own words")
    log.debug("too much")
    logging.getLogger("redis.client").info("noise")
    page.log.info("seen", extra={{"sku": 7}})
    yield {{"url": page.url}}
    yield from page.follow_all("a")
"""


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=PAGES)}) as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path, web: WebProcess) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        desk.file("shop.py", SPIDER.format(url=web.url("site")))
        yield desk


def test_rows_alone_are_on_stdout(desk: Desk) -> None:
    ran = desk.finish("crawl", "shop.py", "-o", "-", "--log-level", "info")
    assert len([json.loads(line)["url"] for line in ran.out.splitlines()]) == PAGES
    said = Counter(
        line if line == "printed" else line[9:].partition(" (")[0] for line in ran.err.splitlines()
    )
    assert said["printed"] == said["INFO my.shop: own words"] == said["INFO shop.page: seen"] == PAGES
    assert "noise" not in ran.err
    assert "too much" not in ran.err


@pytest.mark.parametrize("log_level", ["info", None])
def test_children_log_at_the_level_of_their_parent(desk: Desk, log_level: str | None) -> None:
    options = () if log_level is None else ("--log-level", log_level)
    ran = desk.finish("crawl", "shop.py", "-o", "rows.jsonl", "--processes", "2", *options)
    words = [line.partition(": ")[2] for line in ran.err.splitlines() if " INFO worker " in line]
    many = PAGES if log_level else 0
    assert words.count("my.shop: own words") == many
    assert len([one for one in words if one.startswith("shop.page: seen (http")]) == many
    assert ran.err.splitlines().count("printed") == PAGES, "at any level"
    assert "WARNING" not in ran.err


@pytest.mark.parametrize("processes", ["1", "2"])
def test_in_json_all_of_it_is_json(desk: Desk, processes: str) -> None:
    ran = desk.finish("crawl", "shop.py", "-o", "r.jsonl", "--log-format", "json", "--processes", processes)
    check_json(ran.err)


def test_a_worker_of_a_fleet_logs_as_much(desk: Desk, valkey: ValkeyServer) -> None:
    fleet = Fleet(desk, str(valkey.url))
    desk.finish("submit", "shop.py", "--store", fleet.store, "-o", "rows.jsonl")
    ran = desk.finish("worker", "shop.py", "--store", fleet.store, "--until-done", "--log-format", "json")
    check_json(ran.err)
    assert ran.out == ""


def check_json(text: str) -> None:
    lines = [json.loads(line) for line in text.splitlines()]
    of_spider = [line for line in lines if "logger" in line["fields"]]
    told = Counter((line["fields"]["logger"], line["message"], line["level"]) for line in of_spider)
    assert told == {
        ("print", "printed", "info"): PAGES,
        ("my.shop", "own words", "info"): PAGES,
        ("spider", "seen", "info"): PAGES,
    }
    [fields] = {
        (fields["job"], fields["handler"], fields["sku"])
        for line in of_spider
        if (fields := line["fields"])["logger"] == "spider"
    }
    assert fields == ("shop", "page", 7)
