"""A handler that blocks the loop is named, and interrupted when its time is up."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from shoal.engine.watchdog import Watchdog
from shoal.model import Response, Task
from shoal.settings import Settings
from shoal.spider.handlers import HandlerTimeout, collect
from shoal.spider.page import Page
from shoal.spider.spider import Handler

DEADLINE = 10.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("shoal.engine.watchdog._PULSE", 0.02)
    caplog.set_level(logging.WARNING, "shoal")


@pytest.fixture
def watch() -> Iterator[list[Watchdog]]:
    started: list[Watchdog] = []
    yield started
    for dog in started:
        dog.stop()


def start(watch: list[Watchdog], warn: float = 0.05, timeout: float = 60.0) -> None:
    dog = Watchdog(Settings(handler_warn=warn, handler_timeout=timeout))
    dog.start()
    watch.append(dog)


async def handle(function: object, timeout: float = 60.0) -> object:
    page = Page(Task("http://a.test/"), Response("http://a.test/", 200, {}, b""), "page")
    handler = Handler("page", function)  # type: ignore[arg-type]
    return await collect(handler, page, deadline=time.monotonic() + timeout, monotonic=time.monotonic)


def spin(until: object) -> None:
    """Holds the loop's thread, as a computation does."""
    end = time.monotonic() + DEADLINE
    while not until() and time.monotonic() < end:  # type: ignore[operator]
        pass


async def test_a_blocking_handler_is_named_once_with_its_line(
    watch: list[Watchdog], caplog: pytest.LogCaptureFixture
) -> None:
    def computes(page: Page) -> None:
        spin(lambda: caplog.records)
        end = time.monotonic() + 0.15  # several looks later
        spin(lambda: time.monotonic() > end)

    start(watch)
    await handle(computes)
    [record] = caplog.records
    assert "handler computes (" in record.message
    assert "test_watchdog.py:" in record.message
    assert "blocks the event loop" in record.message


async def test_an_async_handler_that_blocks_is_named_too(
    watch: list[Watchdog], caplog: pytest.LogCaptureFixture
) -> None:
    async def forgets_to_await(page: Page) -> None:
        spin(lambda: caplog.records)

    start(watch)
    await handle(forgets_to_await)
    assert "forgets_to_await (" in caplog.text


async def test_a_handler_that_waits_properly_is_left_alone(
    watch: list[Watchdog], caplog: pytest.LogCaptureFixture
) -> None:
    async def patient(page: Page) -> None:
        await asyncio.sleep(0.2)

    start(watch)
    await handle(patient)
    assert caplog.records == []


async def test_only_handlers_are_blamed(watch: list[Watchdog], caplog: pytest.LogCaptureFixture) -> None:
    start(watch)
    end = time.monotonic() + 0.2
    spin(lambda: time.monotonic() > end)
    assert caplog.records == []


async def test_a_handler_that_never_returns_is_interrupted(
    watch: list[Watchdog], caplog: pytest.LogCaptureFixture
) -> None:
    def never(page: Page) -> None:
        spin(lambda: False)

    start(watch, timeout=0.1)
    with pytest.raises(HandlerTimeout):
        await handle(never)
    assert "interrupting handler" in caplog.text
    await asyncio.sleep(0)  # the loop is in order
    assert await asyncio.to_thread(lambda: 1) == 1


async def test_it_ends_with_the_crawl(watch: list[Watchdog]) -> None:
    start(watch)
    assert [thread for thread in threading.enumerate() if thread.name == "shoal-watchdog"]
    watch.pop().stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "shoal-watchdog"]
