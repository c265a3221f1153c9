"""A crawl with a cache: `--offline`, `--cache-age`, `--refresh`, and rows that say where their page is from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from visited_site import VisitedSite, visited_site

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import FetchFailed, Spider

# Without backpressure: a busy machine is late, and Shoal would warn of that.
spider = Spider("shop", start=START, rate=0, row_meta=["url", "cached"], backpressure=[])

@spider.handler
async def page(page):
    try:
        inner = (await page.fetch("/inner")).cached
    except FetchFailed as failed:
        inner = failed.kind
    yield {"inner": inner}
    for request in page.follow_all("a", page.handler):
        yield request
"""


@pytest.fixture(scope="module")
def the_site() -> Iterator[VisitedSite]:
    with visited_site() as site:
        yield site


@pytest.fixture
def site(the_site: VisitedSite, cli: Cli) -> VisitedSite:
    the_site.pages = {
        "/": "<a href=/a/1>1</a><a href=/b/1>2</a>",
        "/a/1": "a",
        "/b/1": "b",
        "/c/1": "c",
        "/inner": "i",
    }
    Path("shop.py").write_text(SPIDER.replace("START", repr(f"{the_site.url}/")))
    assert cli("crawl", "shop.py", "--cache", "pages", "-q") == (0, "", "")
    assert set(the_site.visits()) == {"/", "/a/1", "/b/1", "/inner"}
    return the_site


def crawled(cli: Cli, site: VisitedSite, *options: str) -> dict[str, tuple[bool, object]]:
    """Which pages there are rows of, whether they are from the cache, and what came of the request inside."""
    code, _, err = cli("crawl", "shop.py", "--cache", "pages", "-q", "--fresh", "-o", "rows.jsonl", *options)
    assert code == 0, err
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    return {row["_url"].removeprefix(site.url): (row["_cached"], row["inner"]) for row in rows}


def test_offline(cli: Cli, site: VisitedSite) -> None:
    site.pages = {}
    rows = crawled(cli, site, "--offline")
    assert rows == dict.fromkeys(["/", "/a/1", "/b/1"], (True, True))
    assert site._visits == []  # robots.txt not either


def test_what_the_cache_does_not_have(cli: Cli, site: VisitedSite) -> None:
    """It is a dead letter, and is fetched later."""
    starts = repr([f"{site.url}/a/1", f"{site.url}/c/1"])
    Path("shop.py").write_text(SPIDER.replace("START", starts).replace("/inner", "/other"))
    rows = crawled(cli, site, "--offline", "--summary", "summary.json")
    assert rows == {"/a/1": (True, "not_archived")}
    assert site._visits == []
    summary = json.loads(Path("summary.json").read_text())
    assert (summary["cached"], summary["errors"]) == (1, {"not_archived": 1})
    assert cli("dead", "replay", "--job", "shop")[0] == 0
    site.pages["/other"] = "o"
    assert cli("crawl", "shop.py", "--cache", "pages", "-q", "-o", "rows.jsonl")[0] == 0
    assert site.visits() == ["/c/1", "/other"]
    assert len(Path("rows.jsonl").read_text().splitlines()) == 2


def test_fetched_again(cli: Cli, site: VisitedSite) -> None:
    cached = {"/": (True, True), "/a/1": (True, True), "/b/1": (True, True)}
    assert crawled(cli, site, "--cache-age", "1h") == cached
    assert crawled(cli, site, "--refresh", "*/nowhere/*") == cached
    assert site.visits() == []
    assert crawled(cli, site, "--refresh", "*/a/*") == {**cached, "/a/1": (False, True)}
    assert site.visits() == ["/a/1"]
    assert crawled(cli, site) == cached
    assert crawled(cli, site, "-s", "cache_age=1e-9") == {
        "/": (False, False),
        "/a/1": (False, False),
        "/b/1": (False, False),
    }


def test_mistakes(cli: Cli, site: VisitedSite) -> None:
    for words in (
        ["--offline"],
        ["--cache-age", "soon", "--cache", "pages"],
        ["-s", "offline=true"],
        ["--cache-age", "0s"],
    ):
        code, _, err = cli("crawl", "shop.py", "-q", "--fresh", *words)
        assert (code, err.count("\n")) == (2, 1), (words, err)
        assert "cache" in err
