"""Death at the worst places: around the write of the rows and the commit that vouches for them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from crash.harness import FAST, FAULTS, ROWS, Desk, until
from shoal.testing import HostProfile, WebProcess

PAGES = 60


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {"site": HostProfile("fast", pages=PAGES), "slow": HostProfile("slow", pages=20, latency=0.15)}
    with WebProcess(hosts) as web:
        yield web


@pytest.mark.parametrize(
    "fault", ["kill_before_write", "kill_in_write", "kill_after_write", "kill_after_commit"]
)
def test_one_row_a_page(desk: Desk, web: WebProcess, fault: str) -> None:
    command = ("crawl", web.url("site"), "-o", ROWS, *FAST)
    for number in ("1", "2"):
        assert desk.run(fault, number, *command, program=FAULTS).code() == -signal.SIGKILL
    desk.finish(*command)
    assert desk.urls() == sorted(web.pages_of("site"))


def test_what_a_crash_left_behind_is_cut_even_if_no_row_follows(desk: Desk, web: WebProcess) -> None:
    """The pages that wrote it give nothing the second time."""
    spider = """
from pathlib import Path
from shoal import Spider
spider = Spider("once", start={url!r}, rate=0)
@spider.handler
def page(page):
    if not Path("visited").exists():
        Path("visited").touch()
        yield {{"url": page.url}}
"""
    name = desk.file("once.py", spider.format(url=web.url("site")))
    desk.run("kill_after_write", "1", "crawl", name, "-o", ROWS, program=FAULTS)
    assert desk.size() > 0
    desk.finish("crawl", name, "-o", ROWS)
    assert desk.rows() == []


def test_starting_beside_a_running_crawl_costs_it_no_row(desk: Desk, web: WebProcess) -> None:
    """A second process looks at the result file while the first goes on writing it."""
    command = ("crawl", web.url("slow"), "-o", ROWS, "--rate", "0", "--per-host", "2")
    first = desk.start(*command)
    until(lambda: desk.size() > 0, "the first row")
    second = desk.start("start_slowly", "1", *command, program=FAULTS)
    assert (first.code(), second.code()) == (0, 0), first.err + second.err
    assert desk.urls() == sorted(web.pages_of("slow"))
