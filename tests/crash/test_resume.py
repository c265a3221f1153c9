"""A crawl that goes on with other settings, another spider or another version: it works, or says why not."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest

from crash.harness import ROWS, STORE, Desk
from shoal.testing import HostProfile, WebProcess

PAGES = 30
SPIDER = """
from shoal import Spider
spider = Spider("books", start={start!r}, rate=0)
@spider.handler
def listing(page):
    yield from page.follow_all("a", {name})
@spider.handler
def {name}(page):
    yield {{"url": page.url}}
"""


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=PAGES)}) as web:
        yield web


def test_other_limits_take_effect(desk: Desk, web: WebProcess) -> None:
    """At the first rate the whole site would take a quarter of an hour."""
    command = ("crawl", web.url("site"), "-o", ROWS)
    desk.finish(*command, "--rate", "1000", "--per-host", "3", "--max-pages", "4")
    assert (len(desk.rows()), valve(desk)) == (4, (0.001, 3))
    desk.finish(*command, "--rate", "2", "--per-host", "5", "--max-pages", "6")
    assert (len(desk.rows()), valve(desk)) == (6, (0.5, 5))
    desk.finish(*command, "--rate", "0", "--per-host", "20")
    assert desk.urls() == sorted(web.pages_of("site"))
    interval, cap = valve(desk)
    assert interval == 0.0
    assert 10 <= cap <= 20  # it is halved when answers become slow, as they do on a busy machine


def valve(desk: Desk) -> tuple[float, int]:
    """The only host's seconds between requests, and how many may be in flight."""

    async def look(frontier: object) -> tuple[float, int]:
        (record,) = [record async for record in frontier.hosts()]  # type: ignore[attr-defined]
        return record.valve.interval, record.valve.cap

    found: tuple[float, int] = desk.ask(look)
    return found


@pytest.mark.parametrize(("version", "age"), [(99, "a newer"), (0, "an older")])
def test_a_store_of_another_version(desk: Desk, web: WebProcess, version: int, age: str) -> None:
    command = ("crawl", web.url("site"), "-o", ROWS, "--rate", "0", "--max-pages", "3")
    desk.finish(*command)
    db = apsw.Connection(str(desk.store))
    db.pragma("user_version", version)
    db.close()
    before = desk.rows_path.read_bytes()
    for again in (command, ("status",), ("dead", "list")):
        process = desk.run(*again)
        assert process.code() == 3
        (line,) = process.err.splitlines()
        assert line.startswith(f"shoal: {STORE} was written by {age} version of Shoal (schema {version}")
    assert desk.rows_path.read_bytes() == before


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_handler_that_was_renamed(desk: Desk, web: WebProcess, processes: str) -> None:
    """Its pages are not fetched and not buried: they wait until it is there again."""
    name = desk.file("books.py", SPIDER.format(start=web.url("site"), name="book"))
    desk.finish("crawl", name, "-o", ROWS, "--max-pages", "1")
    waiting = desk.job().counters.pending
    assert waiting > 0
    desk.file("books.py", SPIDER.format(start=web.url("site"), name="volume"))
    for _ in range(2):  # trying again changes nothing
        process = desk.run("crawl", name, "-o", ROWS, "-q", "--processes", processes)
        assert process.code() == 2
        assert process.err.splitlines() == [
            "shoal: job books is paused: pages wait for handler 'book', which spider 'books' does not have (it has"
            f" listing, volume): give it that name again, or cancel the job; of all handlers together"
            f" {waiting} pages are left, and none of them is lost; run the same command again to go on"
        ]
    job = desk.job()
    assert (job.state, job.counters.pending, job.counters.dead) == ("paused", waiting, 0)

    desk.file("books.py", SPIDER.format(start=web.url("site"), name="book"))
    desk.finish("crawl", name, "-o", ROWS)
    assert len(desk.rows()) == waiting
