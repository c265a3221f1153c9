"""Tracebacks begin with the user's own code where people read them; dead letters keep the whole."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest

import shoal.testing
from shoal import Page, Spider
from shoal.limits import TRACEBACK
from shoal.model import DeadLetter
from shoal.spider.spider import place_of_error
from shoal.telemetry.logging import JsonFormatter, TextFormatter
from shoal.terminal.tracebacks import user_frames, users_first

URL = "https://shop.example/"


def price(text: str) -> object:
    return json.loads(text)


@pytest.fixture
def spider() -> Spider:
    spider = Spider("shop", start=[URL, f"{URL}2", f"{URL}3"])

    @spider.handler
    def product(page: Page) -> Iterator[object]:
        if page.url.endswith("3"):
            raise LookupError("another line")
        yield {"price": price("{")}

    return spider


def crawl(spider: Spider) -> str:
    """Answers the traceback of the dead letter of the first page."""
    letters: dict[str, DeadLetter] = {}
    spider.on_dead_letter(lambda letter: letters.update({letter.task.url: letter}))
    shoal.testing.run(spider, {f"{URL}{end}": "<p>" for end in ("", "2", "3")}, check=False)
    assert len(letters) == 3
    snapshot = letters[URL].snapshot
    assert snapshot is not None
    return snapshot.traceback


def test_the_log_has_the_users_part_once_for_each_line(
    spider: Spider, caplog: pytest.LogCaptureFixture
) -> None:
    crawl(spider)
    records = [one for one in caplog.records if getattr(one, "event", "") == "handler_failed"]
    texts = sorted(TextFormatter("%(message)s").format(one) for one in records)
    first, second = (text for text in texts if "JSONDecodeError" in text)
    [other] = (text for text in texts if "another line" in text)
    told, alone = sorted((first, second), key=len, reverse=True)
    line, header, frame, *_ = told.splitlines()
    assert line.startswith(f"handler 'product' failed on {URL}")
    assert "test_tracebacks.py:" in line
    assert header == "Traceback (most recent call last):"
    assert frame.endswith("in product")
    assert "in raw_decode" in told, "what the user's code called comes after it"
    assert "\n" not in alone
    assert "Traceback" in other


def test_a_dead_letter_has_the_whole_and_is_shown_from_the_users_code_on(spider: Spider) -> None:
    whole = crawl(spider)
    assert "handlers.py" in whole.partition("in product")[0]
    shown = users_first(whole)
    _, left_out, frame, *_ = shown.splitlines()
    assert left_out.endswith("of Shoal; --json has all")
    assert frame.endswith("in product")
    assert whole.endswith(shown.partition(left_out)[2].lstrip("\n"))
    assert user_frames(whole).splitlines()[0] == frame


@pytest.mark.parametrize("file", ["<ipython-input-3-0a1b>", "<stdin>"])
def test_what_is_typed_at_a_prompt_is_the_users_own(file: str) -> None:
    typed: dict[str, Callable[[], None]] = {}
    exec(compile("def product():\n    raise KeyError('sku')", file, "exec"), typed)
    with pytest.raises(KeyError) as caught:
        typed["product"]()
    assert place_of_error(caught.value, "?").endswith(f"{file}:2")


def test_every_part_of_a_chain_and_nothing_else_is_shortened() -> None:
    try:
        try:
            price("{")
        except ValueError as error:
            raise LookupError("no price") from error
    except LookupError:
        whole = traceback.format_exc()
    assert users_first(whole) == whole, "it begins with the user's code"
    own = f'  File "{shoal.__path__[0]}/engine/x.py", line 1, in x\n    x()\n'
    header = "Traceback (most recent call last):\n"
    longer = whole.replace(header, header + own)
    assert users_first(longer).count("  … 1 frame of Shoal") == 2
    only = f"{header}{own}KeyError: 1"
    assert users_first(only) == only
    assert users_first("") == ""
    assert users_first("Current thread 0x1 (most recent call first):") == (
        "Current thread 0x1 (most recent call first):"
    )


@pytest.mark.parametrize("formatter", [TextFormatter("%(message)s"), JsonFormatter()])
def test_a_message_of_a_megabyte_is_cut(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("shoal", logging.WARNING, "", 0, "failed", None, info)
    assert TRACEBACK < len(formatter.format(record)) < TRACEBACK + 1_000


def test_a_traceback_of_a_hook_has_no_part_of_shoals_own() -> None:
    spider = Spider("shop", start=URL)
    letters: list[DeadLetter] = []
    spider.on_dead_letter(letters.append)

    @spider.handler
    def product(page: Page) -> object:
        return {"price": 1}

    @spider.on_item
    def clean(item: dict[str, object], page: Page) -> None:
        raise KeyError("oops")

    shoal.testing.run(spider, {URL: "<p>"}, check=False)
    assert letters[0].snapshot is not None
    whole = letters[0].snapshot.traceback
    assert "HookFailed" in whole
    shown = users_first(whole.rstrip())
    assert "in clean" in shown
    assert shown.endswith("KeyError: 'oops'\n")
    assert "HookFailed" not in shown
