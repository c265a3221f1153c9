"""The debug line of a page: what is on it, and that it costs nothing unless somebody reads it."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from shoal.engine.page_line import PageLines
from shoal.model import Dead, Done, Failure, Lease, Moved, Retry, Row, Settlement, Task, Verdict


def task(path: str, host: str = "shop.example", **more: object) -> Task:
    return Task(f"https://{host}{path}", job="books", host=host, **more)  # type: ignore[arg-type]


def settled(one: Task, verdict: Verdict | None = None, **more: object) -> Settlement:
    return Settlement(Lease(1, one, 60.0, 0), verdict or Done(), **more)  # type: ignore[arg-type]


def row() -> Row:
    return Row(b"{}")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> PageLines:
    caplog.set_level(logging.DEBUG, "shoal")
    return PageLines("listing")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_page_that_was_handled(lines: PageLines, caplog: pytest.LogCaptureFixture) -> None:
    page = task("/p/17", handler="product")
    found = (task("/p/18"), task("/p/19"))
    lines.tell(
        settled(page, found=found, rows=(row(),), status=200, elapsed=0.012, size=3_200), 4, last=False
    )
    assert said(caplog) == ["200 GET /p/17 12 ms 3.2 kB → product: 1 item, 4 links (2 new)"]
    fields = caplog.records[0].fields  # type: ignore[attr-defined]
    assert (fields["url"], fields["handler"], fields["links"], fields["new"]) == (page.url, "product", 4, 2)


@pytest.mark.parametrize(
    ("settlement", "line"),
    [
        (settled(task("/")), "- GET / → listing: 0 items"),
        (
            settled(task("/"), rejected=(task("/"),), status=200, size=10, unsent=True),
            "200 GET / (cached) 10 B → listing: 0 items, 1 rejected",
        ),
        (
            settled(task("/old"), Moved(task("/new")), status=301, elapsed=0.002),
            "301 GET /old 2.0 ms → moved to https://shop.example/new",
        ),
        (
            settled(task("/p"), Retry(4.0, Failure("http_503", "busy", status=503, elapsed=0.5))),
            "503 GET /p 500 ms → again in 4.0 s: http_503, busy",
        ),
        (settled(task("/p"), Retry(1.0, Failure("timeout"))), "timeout GET /p → again in 1.0 s: timeout"),
        (
            settled(task("/p"), Dead(Failure("handler", "KeyError: 'sku'")), status=200, elapsed=0.1),
            "200 GET /p 100 ms → dead: handler, KeyError: 'sku'",
        ),
    ],
)
def test_every_ending(
    lines: PageLines, caplog: pytest.LogCaptureFixture, settlement: Settlement, line: str
) -> None:
    lines.tell(settlement, 0, last=False)
    assert said(caplog) == [line]


def test_the_last_attempt_is_dead(lines: PageLines, caplog: pytest.LogCaptureFixture) -> None:
    lines.tell(settled(task("/p"), Retry(1.0, Failure("timeout"))), 0, last=True)
    assert said(caplog) == ["timeout GET /p → dead: timeout"]


def test_the_host_is_named_as_soon_as_there_are_two(
    lines: PageLines, caplog: pytest.LogCaptureFixture
) -> None:
    for one in (task("/a"), task("/b", "other.example"), task("/c")):
        lines.tell(settled(one), 0, last=False)
    assert [line.split()[2] for line in said(caplog)] == ["/a", "other.example/b", "shop.example/c"]


def test_a_long_url_is_cut_and_shows_no_password(lines: PageLines, caplog: pytest.LogCaptureFixture) -> None:
    one = replace(task("/"), url="https://shop.example/?password=hunter2&x=" + "y" * 5_000)
    lines.tell(settled(one), 0, last=False)
    [line] = said(caplog)
    assert "hunter2" not in line
    assert len(line) < 300


def test_it_is_wanted_at_debug_alone(caplog: pytest.LogCaptureFixture) -> None:
    lines = PageLines("listing")
    caplog.set_level(logging.INFO, "shoal")
    assert not lines.wanted
    caplog.set_level(logging.DEBUG, "shoal")
    assert lines.wanted
