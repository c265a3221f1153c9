"""kill -9, at any moment: exactly one row a page, no URL lost, no host hit faster than its limit."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest

from crash.harness import FAST, ROWS, Desk, Process, add_up, alive, children_of, parse_rows, until
from shoal.testing import HostProfile, WebProcess

PAGES, PATIENT, LIMITED = 1_500, 500, 4
ROW_BYTES = 300  # about
SPIDER = """
from shoal import Spider

spider = Spider("counting", {url!r}, rate=0, per_host=50)


@spider.handler
def page(page):
    page.count("rows")
    yield {{"url": page.url, "filler": "x" * 220}}
    page.count("links", len(page.links("a")))
    yield from page.follow_all("a")
"""


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {
        "site": HostProfile("fast", pages=PAGES, links=8, body_bytes=600),
        "patient": HostProfile("slow", pages=PATIENT, links=8, body_bytes=600, latency=0.02),
        "limited": HostProfile("fast", pages=LIMITED),
    }
    with WebProcess(hosts) as web:
        yield web


def check_what_is_left(desk: Desk) -> None:
    """After a crash the committed rows are whole, single and as many as the store says, and its counters add up."""
    if not desk.store.exists():
        return  # killed before anything was kept
    jobs = desk.ask(lambda frontier: frontier.jobs())
    if not jobs:
        return
    urls = [row["url"] for row in parse_rows(desk.committed())]
    counters = jobs[0].counters
    assert len(urls) == len(set(urls)) == counters.items == counters.done
    assert add_up(msgspec.to_builtins(counters))
    if jobs[0].spec.name == "counting":
        assert jobs[0].counts.get("rows", 0) == len(urls)


def check_the_end(desk: Desk, web: WebProcess, host: str = "site") -> None:
    pages = sorted(web.pages_of(host))
    assert desk.urls() == pages
    status = desk.status()
    assert add_up(status)
    ended = (status["state"], status["done"], status["items"], status["dead"])
    assert ended == ("finished", len(pages), len(pages), 0)


def grown(desk: Desk, process: Process, size: int) -> None:
    """Waits until the result file has a size, or the crawl has ended before."""
    until(lambda: desk.size() >= size or not process.running, f"{size} bytes of rows: {process.err}")


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments(desk: Desk, web: WebProcess, seed: int) -> None:
    spider = desk.file("counting.py", SPIDER.format(url=web.url("site")))
    command = ("crawl", spider, "-o", ROWS, *FAST)
    rng = random.Random(seed)
    for _ in range(4):
        process = desk.start(*command)
        grown(desk, process, desk.size() + rng.randrange(1, PAGES // 5 * ROW_BYTES))
        process.kill()
        check_what_is_left(desk)
    desk.finish(*command)
    check_the_end(desk, web)
    assert set(desk.status()["counts"]) == {"rows", "links"}
    check_what_is_left(desk)


def test_killed_while_it_starts(desk: Desk, web: WebProcess) -> None:
    """At fixed moments of its first second: importing, making the store, the first pages."""
    command = ("crawl", web.url("site"), "-o", ROWS, *FAST, "--max-pages", "50")
    for moment in (0.1, 0.25, 0.4, 0.55):
        started = time.monotonic()
        process = desk.start(*command, fresh=True)
        until(lambda: time.monotonic() - started >= moment or not process.running, "the moment to kill")  # noqa: B023
        process.kill()
        check_what_is_left(desk)
    desk.finish(*command)
    urls = desk.urls()
    assert len(urls) == len(set(urls)) == 50


# At a few pages at once the patient host takes seconds, time enough to see its crawl in the middle.
PATIENTLY = ("--rate", "0", "--per-host", "3", "--processes", "2")


def test_a_killed_child_is_replaced(desk: Desk, web: WebProcess) -> None:
    spider = desk.file("counting.py", SPIDER.format(url=web.url("patient")))
    process = desk.start("crawl", spider, "-o", ROWS, *PATIENTLY)
    rng = random.Random(3)
    for share in (0.2, 0.5):
        grown(desk, process, int(share * PATIENT * ROW_BYTES))
        os.kill(rng.choice(process.children()), signal.SIGKILL)
    assert process.code() == 0, process.err
    assert process.err.count("died (exit -9), starting it again") == 2
    check_the_end(desk, web, "patient")
    assert desk.status()["counts"]["rows"] == PATIENT


def test_a_killed_fork_server_takes_the_children_along(desk: Desk, web: WebProcess) -> None:
    """Those that replace them are executed."""
    process = desk.start("crawl", web.url("patient"), "-o", ROWS, *PATIENTLY)
    grown(desk, process, PATIENT // 5 * ROW_BYTES)
    [server] = children_of(process.worker)
    orphans = process.children()
    assert len(orphans) == 2
    os.kill(server, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in orphans), "the end of the orphans")
    assert process.code() == 0, process.err
    assert process.err.count("died (exit -9), starting it again") == 2
    check_the_end(desk, web, "patient")


def test_a_killed_parent_takes_its_children_along(desk: Desk, web: WebProcess) -> None:
    """The same command at once, while the orphans still finish what they hold."""
    command = ("crawl", web.url("patient"), "-o", ROWS)
    for _ in range(2):
        process = desk.start(*command, *PATIENTLY)
        grown(desk, process, desk.size() + PATIENT // 10 * ROW_BYTES)  # by this one, so it has children
        orphans = process.children()
        assert len(orphans) == 2
        process.kill()
        again = desk.start(*command, *PATIENTLY)
        until(lambda: not any(alive(pid) for pid in orphans), "the end of the orphans")  # noqa: B023
        again.kill()
        check_what_is_left(desk)
    desk.finish(*command, *FAST)
    check_the_end(desk, web, "patient")


def test_a_host_is_not_hit_faster_for_all_the_killing(desk: Desk, web: WebProcess) -> None:
    """An interval longer than a crawl takes to start: one that did not know of the last request would be too early by
    most of it, which is more than a busy machine delays a request."""
    interval = 4.0
    command = ("crawl", web.url("limited"), "-o", ROWS, "--rate", str(1 / interval), "--per-host", "4")
    for count in (1, 2, 3):
        process = desk.start(*command)
        until(lambda: len(web.hits_of("limited")) >= count or not process.running, "a hit")  # noqa: B023
        process.kill()
    desk.finish(*command)
    assert desk.urls() == sorted(web.pages_of("limited"))
    arrivals = [hit.started for hit in web.hits_of("limited")]
    assert len(arrivals) > LIMITED
    assert min(later - earlier for earlier, later in pairwise(arrivals)) > interval / 4
