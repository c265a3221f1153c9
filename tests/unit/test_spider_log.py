"""What spiders log and print: told at its level, with its page, in text and in JSON, and from child processes."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shoal.limits import LOG_MESSAGE
from shoal.model import Response, Row, Task
from shoal.sink.jsonl import StdoutJournal
from shoal.spider.page import Page
from shoal.telemetry.logging import JsonFormatter, level, set_up
from shoal.telemetry.printing import give_stdout_back, take_stdout
from shoal.telemetry.relaying import lines_of, relay

URL = "https://me:secret@shop.example/lamp"
PAGE = Page(Task(URL, job="shop"), Response(URL, 200, {}, b""), "product")
Said = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda: capsys.readouterr().err


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_text_has_the_name_of_the_logger_or_the_page(said: Said) -> None:
    set_up("info", "text")
    logging.getLogger("any.name").info("a %s", "word")
    logging.getLogger("any.name").debug("hidden")
    PAGE.log.warning("sold out")
    logging.getLogger("shoal").warning("ours")
    assert [line[9:] for line in said().splitlines()] == [
        "INFO any.name: a word",
        "WARNING shop.product: sold out (https://shop.example/lamp)",
        "WARNING ours",
    ]


def test_json_has_the_page_and_what_was_given_as_extra(said: Said) -> None:
    set_up("info", "json")
    PAGE.log.info("sold out", extra={"sku": 7, "event": "mine", "tags": {("a",): {1}}})
    logging.getLogger("any.name").error("two\nlines")
    first, second = parsed(said())
    assert (first["level"], first["event"], first["message"]) == ("info", "log", "sold out")
    page = {"job": "shop", "url": "https://shop.example/lamp", "handler": "product"}
    assert first["fields"] == {"logger": "spider", **page, "sku": 7, "event": "mine", "tags": "{('a',): {1}}"}
    assert second["message"] == "two\nlines"
    assert second["fields"] == {"logger": "any.name"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_exception_comes_with_its_traceback(said: Said, form: str) -> None:
    set_up("info", form)
    try:
        raise ValueError("too high")
    except ValueError:
        PAGE.log.exception("no price")
    assert "ValueError: too high" in said()


def test_libraries_are_quiet_unless_somebody_asks(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    library = logging.getLogger("redis")
    monkeypatch.setattr(library, "level", logging.NOTSET)
    set_up("debug", "text")
    logging.getLogger("redis.client").info("noise")
    logging.getLogger("redis.client").warning("trouble")
    assert said().count("redis.client: ") == 1
    library.setLevel("INFO")
    set_up("debug", "text")
    logging.getLogger("redis.client").info("noise")
    assert said().endswith("INFO redis.client: noise\n")
    library.setLevel(logging.NOTSET)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_whole_page_is_cut(said: Said, form: str) -> None:
    set_up("info", form)
    PAGE.log.info("x" * 1_000_000)
    told = said()
    assert len(told) < LOG_MESSAGE + 500
    assert "… (1,000,000 characters)" in told


# -- from child processes


def of_child(logger: str, message: str, level: int = logging.INFO, **extra: object) -> str:
    """A line as a child writes it."""
    record = logging.LogRecord(logger, level, "", 0, message, None, None)
    vars(record).update(extra)
    return JsonFormatter().format(record)


def test_a_child_is_told_at_its_own_level(said: Said) -> None:
    set_up("info", "text")
    page = {"job": "shop", "url": "https://shop.example/", "handler": "product"}
    relay(of_child("any.name", "a word"), 1)
    relay(of_child("spider", "sold out", logging.ERROR, **page), 2)
    relay(of_child("shoal", "ours", logging.WARNING), 1)
    relay(of_child("print", "printed"), 1)
    relay("Segmentation fault", 2)
    assert [line if line == "printed" else line[9:] for line in said().splitlines()] == [
        "INFO worker 1: any.name: a word",
        "ERROR worker 2: shop.product: sold out (https://shop.example/)",
        "WARNING worker 1: ours",
        "printed",
        "WARNING worker 2: Segmentation fault",
    ]


def test_a_child_in_json_keeps_its_fields_and_its_time(said: Said) -> None:
    set_up("error", "json")
    line = of_child("spider", "sold out", sku=7, job="shop", created=1_000_000_000.5)
    relay(line, 1)
    [told] = parsed(said())
    assert told == {**json.loads(line), "fields": {**json.loads(line)["fields"], "worker": 1}}
    assert told["time"] == "2001-09-09T01:46:40.500Z"


def test_the_level_that_children_get() -> None:
    set_up("debug")
    assert level() == "debug"


async def test_lines_of_a_child_may_have_any_length() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"one\n" + b"x" * 3_000_000 + b"\ntwo\n\nend \xff")
    stream.feed_eof()
    lines = [line async for line in lines_of(stream)]
    assert [lines[0], *lines[2:]] == ["one", "two", "", "end \ufffd"]
    assert lines[1] == "x" * (1 << 20)


# -- what is printed


@contextmanager
def printing() -> Iterator[io.BytesIO]:
    """Gives what is written to the real standard output. No fixture: pytest changes sys.stdout before a test."""
    before, real = sys.stdout, io.BytesIO()
    sys.stdout = stream = io.TextIOWrapper(real)
    take_stdout()
    try:
        yield real
    finally:
        give_stdout_back()
        assert sys.stdout is stream
        sys.stdout = before
        stream.detach()  # else `real` would be closed with it


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_printed_is_seen_and_never_among_the_rows(said: Said, form: str) -> None:
    set_up("error", form)
    with printing() as real:
        print("a", 1)  # noqa: T201
        print("half", end="")  # noqa: T201
        StdoutJournal().append(0, [Row(b"row\n")])
        print(" a line")  # noqa: T201
        print("no end", end="", flush=True)  # noqa: T201
    assert real.getvalue() == b"row\n"
    told = said()
    if form == "text":
        assert told == "a 1\nhalf a line\nno end"
    else:
        assert [line["message"] for line in parsed(told)] == ["a 1", "half a line", "no end"]
        assert {line["fields"]["logger"] for line in parsed(told)} == {"print"}
