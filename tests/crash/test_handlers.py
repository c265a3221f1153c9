"""Handlers that raise, yield junk, block or never return: their page dies with an explanation, the crawl goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import shoal
from crash.harness import ROWS, Desk
from shoal.testing import HostProfile, WebProcess

# Longer than a busy machine is held up: then the blocked loop is seen, and nothing else is out of its time.
SPIDER = """
import asyncio, time
from shoal import Spider

spider = Spider("faulty", start={start!r}, rate=0, per_host=8, handler_warn=0.2, handler_timeout=7)

@spider.handler
def first(page):
    for number, handler in enumerate((raising, junk, blocking, endless, waiting, good), 1):
        yield page.follow(f"/p/{{number}}", handler)
    yield {{"handler": "first"}}

@spider.handler
def raising(page):
    yield {{"handler": "raising"}}
    raise ValueError("the price is missing")

@spider.handler
def junk(page):
    yield 42

@spider.handler
def blocking(page):
    time.sleep(4)
    yield {{"handler": "blocking"}}

@spider.handler
def endless(page):
    while True:
        pass

@spider.handler
async def waiting(page):
    await asyncio.Event().wait()

@spider.handler
def good(page):
    yield {{"handler": "good"}}
"""


class Crawl(NamedTuple):
    err: str
    letters: dict[str, dict[str, Any]]  # by handler
    rows: list[str]
    shown: str  # what `shoal dead show` says of the handler that raised


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    folder: Path = tmp_path_factory.mktemp("handlers")
    with WebProcess({"site": HostProfile("fast", pages=8)}) as web, Desk(folder) as desk:
        name = desk.file("faulty.py", SPIDER.format(start=web.url("site")))
        process = desk.finish("crawl", name, "-o", ROWS)
        letters = {letter["handler"]: letter for letter in desk.dead()}
        shown = desk.finish("dead", "show", str(letters["raising"]["id"])).out
        yield Crawl(process.err, letters, sorted(row["handler"] for row in desk.rows()), shown)


def last_words(crawl: Crawl, handler: str) -> tuple[str, str]:
    letter = crawl.letters[handler]
    return letter["kind"], letter["attempts"][-1]["detail"]


def test_the_other_pages_are_done(crawl: Crawl) -> None:
    """A page that dies leaves no rows, not even those it had yielded before."""
    assert crawl.rows == ["blocking", "first", "good"]
    assert set(crawl.letters) == {"raising", "junk", "endless", "waiting"}


def test_an_exception_is_kept_with_its_traceback(crawl: Crawl) -> None:
    assert last_words(crawl, "raising") == ("handler", "ValueError: the price is missing")
    assert 'raise ValueError("the price is missing")' in crawl.shown
    assert "faulty.py" in crawl.shown
    assert "Traceback" in crawl.shown
    assert crawl.err.count("Traceback") == 1, "in the log: the first time, and only the user's own code"
    assert str(Path(shoal.__file__).parent) not in crawl.err


def test_junk_names_its_handler(crawl: Crawl) -> None:
    kind, detail = last_words(crawl, "junk")
    assert kind == "junk"
    assert detail.startswith("handler 'junk' yielded a int")


def test_a_blocked_loop_is_reported_with_its_line(crawl: Crawl) -> None:
    line = SPIDER.format(start="").splitlines().index("    time.sleep(4)") + 1
    (warning,) = [line for line in crawl.err.splitlines() if "handler blocking" in line]
    assert f"faulty.py:{line})" in warning
    assert "blocks the event loop" in warning


@pytest.mark.parametrize("handler", ["endless", "waiting"])
def test_a_handler_that_never_returns_is_ended(crawl: Crawl, handler: str) -> None:
    assert last_words(crawl, handler)[0] == "handler_timeout"
