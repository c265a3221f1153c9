"""What makes a page `junk` is told: once in the log for each fault, and by `shoal dead show`."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import shoal.testing
from shoal import Page, Spider
from shoal.engine import handling
from shoal.model import DeadLetter, Failure, Task
from shoal.spider.handlers import Retry
from shoal.telemetry.logging import TextFormatter
from shoal.terminal import tables

URL = "https://shop.example/"
URLS = [f"{URL}{number}" for number in range(4)]


def crawl(function: Callable[..., Any], **options: Any) -> list[DeadLetter]:
    spider = Spider("shop", start=URLS)
    spider.add_handler(function, name="listing", **options)
    letters: list[DeadLetter] = []
    spider.on_dead_letter(letters.append)
    shoal.testing.run(spider, dict.fromkeys(URLS, "<form id=q></form><a href=/x>x</a>"), check=False)
    return letters


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if getattr(one, "event", "") == "handler_failed"]


def nothing(page: Page) -> Iterator[object]:
    yield {"a": 1}
    yield {"b": 2} if page.url.endswith("0") else None


async def later(page: Page) -> AsyncIterator[object]:
    yield {"a": 1}
    yield None


def links_without_from(page: Page) -> Iterator[object]:
    yield {"a": 1}
    yield page.follow_all("a")


def a_set(page: Page) -> Iterator[object]:
    yield {"a": 1}
    yield {1, 2}


def number(page: Page) -> Iterator[object]:
    yield {"a": 1}
    yield 7


def no_form(page: Page) -> Iterator[object]:
    yield {"a": 1}
    yield page.submit_form("form#gone", {})


def half(page: Page) -> Iterator[object]:
    yield {"a": 1}
    page.count("x", 1.5)  # type: ignore[arg-type]


async def outside(page: Page) -> AsyncIterator[object]:
    yield {"a": 1}
    await page.download("/x", to="../x")


def late(page: Page) -> Iterator[object]:
    yield {"a": 1}
    raise Retry("later", after="5")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "says", "pages"),
    [
        (nothing, "it yielded a NoneType; .*; where there is nothing to yield, yield nothing; ", 3),
        (later, "it yielded a NoneType; .*; where there is nothing to yield, yield nothing; ", 4),
        (links_without_from, "it yielded a list; .*; yield from gives several values one by one; ", 4),
        (a_set, "it yielded a set; .*; yield from gives several values one by one; ", 4),
        (number, r"it yielded a int; .*page.follow\(\.\.\.\); ", 4),
        (no_form, r"page.submit_form\('form#gone'\) on .*nothing matches", 4),
        (half, "page.count: 'x' by 1.5; give a whole number", 4),
        (outside, r"page.download\(to='../x'\): it is outside", 4),
        (late, "Retry: after is '5'; give seconds, as a number", 4),
    ],
)
def test_it_is_told_once_with_its_line(
    function: Callable[..., Any], says: str, pages: int, caplog: pytest.LogCaptureFixture
) -> None:
    letters = crawl(function)
    place = f"test_junk.py:{function.__code__.co_firstlineno + 2}"
    assert [letter.kind for letter in letters] == ["junk"] * pages
    assert all(place in letter.task.history[-1].detail for letter in letters)
    [record] = told(caplog)
    assert record.levelno == logging.WARNING
    text = TextFormatter("%(message)s").format(record)
    line, *trace = text.splitlines()
    assert line.startswith(f"handler 'listing' failed on {URL}")
    assert line.endswith("; further pages that die of this are not told")
    assert re.search(rf"{place}\): {says}", line), line
    is_raised = "yielded" not in says
    assert bool(trace) == is_raised, "what the handler has raised itself has a traceback"
    snapshot = letters[0].snapshot
    assert snapshot is not None
    assert ("SpiderError" in snapshot.traceback) == is_raised


def unknown_handler(page: Page) -> Iterator[object]:
    yield page.follow("/x", "nobody")


def no_url(page: Page) -> Iterator[object]:
    yield {"file": 5}


@pytest.mark.parametrize(
    ("function", "says", "options"),
    [
        (unknown_handler, "it yielded a request: spider 'shop' has no handler named 'nobody'", {}),
        (no_url, "it yielded an item whose 'file' is not a URL but a int", {"files": "file"}),
    ],
)
def test_what_is_looked_at_after_the_handler_is_told_with_the_handlers_line(
    function: Callable[..., Any], says: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert len(crawl(function, **options)) == 4
    [record] = told(caplog)
    assert f"test_junk.py:{function.__code__.co_firstlineno}): {says}" in record.message


def test_faults_are_told_apart_and_not_without_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk: dict[str, object] = dict(zip(URLS, [None, 7, "text", None], strict=True))

    def listing(page: Page) -> object:
        yield junk[page.url]

    crawl(listing)
    assert len(told(caplog)) == 3
    caplog.clear()
    monkeypatch.setattr(handling, "_TOLD", 2)
    assert len(crawl(listing)) == 4
    assert len(told(caplog)) == 2


def test_a_request_inside_a_handler_that_cannot_be_sent_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def listing(page: Page) -> object:
        raise shoal.FetchFailed(f"{page.url}/x", "invalid_request", "'X' is not a valid header")

    letters = crawl(listing)
    assert [letter.kind for letter in letters] == ["invalid_request"] * 4
    [record] = told(caplog)
    assert "'X' is not a valid header" in record.message


async def stops(page: Page) -> object:
    return next(node for node in page.css("nope"))


def generator_stops(page: Page) -> Iterator[object]:
    yield next(node for node in page.css("nope"))


@pytest.mark.parametrize("function", [stops, generator_stops, lambda page: next(iter(page.css("nope")))])
def test_a_stop_iteration_has_the_line_of_the_handler(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    letters = crawl(function)
    assert [letter.kind for letter in letters] == ["handler"] * 4
    first, *others = told(caplog)
    line = function.__code__.co_firstlineno + (function.__name__ != "<lambda>")
    assert f"raised StopIteration (test_junk.py:{line})" in first.message.replace("tests/unit/", "")
    trace = TextFormatter("%(message)s").format(first).splitlines()[1:]
    assert trace[0] == "Traceback (most recent call last):"
    assert "test_junk.py" in trace[1]
    assert trace[-1] == "StopIteration"
    assert [len(TextFormatter("%(message)s").format(one).splitlines()) for one in others] == [1, 1, 1]


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (
            Failure("junk", "m.py:6: page.submit_form('form#gone'): nothing matches"),
            "junk: m.py:6: page.submit",
        ),
        (Failure("handler", "KeyError: 'sku'"), "handler: the handler raised an exception"),
        (Failure("http_404", "HTTP 404"), "http_404: "),
    ],
)
def test_the_head_of_a_dead_letter_says_what_it_died_of(
    failure: Failure, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    task = Task(URL, history=(failure,))
    tables.print_letter(DeadLetter(task, failure.kind, 0.0))
    head = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("died of"))
    assert head.partition("died of")[2].strip().startswith(says)
