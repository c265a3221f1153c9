"""Handlers of every kind, and what goes wrong in them (raises, yields junk, never returns)."""

from __future__ import annotations

import asyncio
import itertools
from collections import UserDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, TypedDict

import attrs
import msgspec
import pytest
from pydantic import BaseModel

from shoal.model import Response, Task
from shoal.model.request import PageLinks, Request
from shoal.sink.items import ItemRejected, encode_row
from shoal.spider import handlers
from shoal.spider.handlers import HandlerTimeout, JunkError, Yielded, collect
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.testing.simulation.virtual import VirtualLoop

PAGE = Page(Task(url="https://a.example/"), Response("https://a.example/", 200, {}, b""), "h")
ITEM = {"a": 1}
REQUEST = Request("/next")


@dataclass
class Book:
    title: str


class Price(msgspec.Struct):
    cents: int


async def run(
    function: Callable[..., Any], deadline: float = 1e9, now: Callable[[], float] = lambda: 0.0
) -> Yielded:
    return await collect(Handler("book", function), PAGE, deadline=deadline, monotonic=now)


def generator(page: Page) -> Iterator[object]:
    yield ITEM
    yield REQUEST


async def async_generator(page: Page) -> AsyncIterator[object]:
    yield ITEM
    await asyncio.sleep(0)
    yield REQUEST


async def coroutine(page: Page) -> list[object]:
    return [ITEM, REQUEST]


async def coroutine_to_generator(page: Page) -> Iterator[object]:
    return generator(page)


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, coroutine, coroutine_to_generator, lambda page: (ITEM, REQUEST)],
)
async def test_every_kind_of_handler(function: Callable[..., Any]) -> None:
    assert await run(function) == Yielded([ITEM], [REQUEST])


@attrs.define
class Offer:
    title: str


class Shop(BaseModel):
    title: str
    price: Decimal = Decimal("1.50")
    seen: date = date(2026, 1, 2)


class Named(TypedDict):
    title: str


ITEMS = [
    ITEM,
    Book("t"),
    Price(1),
    Offer("t"),
    Shop(title="t"),
    Named(title="t"),
    UserDict({"title": "t"}),
    {"shop": Shop(title="t"), "offers": [Offer("t")], "in": MappingProxyType({"a": 1})},
]


@pytest.mark.parametrize("item", ITEMS)
async def test_a_single_item_may_be_returned(item: object) -> None:
    assert await run(lambda page: item) == Yielded([item], [])
    assert await run(lambda page: [item]) == Yielded([item], [])


def test_items_of_every_kind_are_written() -> None:
    shop = {"title": "t", "price": "1.50", "seen": "2026-01-02"}
    nested = {"shop": shop, "offers": [{"title": "t"}], "in": {"a": 1}}
    titled = {"title": "t"}
    handler = Handler("book", len)
    rows = [msgspec.json.decode(encode_row(item, handler).data) for item in ITEMS]
    assert rows == [ITEM, titled, {"cents": 1}, titled, shop, titled, titled, nested]


def test_keys_and_faults_are_found_in_items_of_every_kind() -> None:
    keyed = Handler("book", len, ("title",))
    items = [Book("t"), Offer("t"), Shop(title="t"), UserDict(title="t"), {"title": "t"}]
    assert len({encode_row(item, keyed).key for item in items}) == 1
    for item in (Book(object()), Offer(object()), {"title": object()}):  # type: ignore[arg-type]
        with pytest.raises(ItemRejected, match="field 'title' is of type object"):
            encode_row(item, Handler("book", len))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("before", [[], [REQUEST]])
@pytest.mark.parametrize("after", [[], [REQUEST], [ITEM, REQUEST, REQUEST]])
async def test_links_are_collected_in_their_order_with_whatever_is_yielded_beside_them(
    before: list[object], after: list[object], is_async: bool
) -> None:
    links = PageLinks(["a", "b"], "x", "https://a.example/")
    values = [*before, links, *after]

    async def later(page: Page) -> AsyncIterator[object]:
        for value in values:
            yield value

    yielded = await run(later if is_async else lambda page: values)
    asked = [value for value in (*before, *links, *after) if isinstance(value, Request)]
    assert list(yielded.requests) == asked
    assert yielded.items == [value for value in after if value is ITEM]
    assert (yielded.requests is links) == (asked == list(links)), "alone they stay what they are"


async def test_of_links_with_users_each_is_a_request_with_its_header() -> None:
    urls = ["mailto:me@a.example", "https://me:secret@a.example/x"]
    yielded = await run(lambda page: [PageLinks(urls[:1], "x", None)])
    assert isinstance(yielded.requests, PageLinks), "that is an address, and no user"
    yielded = await run(lambda page: [PageLinks(urls, "x", None)])
    assert yielded.requests == [Request(url, "x") for url in urls]
    assert yielded.requests[1].headers is not None


async def test_nothing_and_a_single_request_may_be_returned() -> None:
    assert await run(lambda page: None) == Yielded([], [])
    assert await run(lambda page: REQUEST) == Yielded([], [REQUEST])


@pytest.mark.parametrize(
    ("junk", "kind"),
    [("text", "str"), (b"x", "bytes"), (7, "int"), ([1], "list"), (Book, "type"), (None, "NoneType")],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_junk_is_an_error_that_names_the_handler_and_the_type(
    junk: object, kind: str, is_async: bool
) -> None:
    def plain(page: Page) -> Iterator[object]:
        yield ITEM
        yield junk

    async def deferred(page: Page) -> AsyncIterator[object]:
        yield ITEM
        yield junk

    with pytest.raises(JunkError, match=rf"^handler 'book' yielded a {kind}; yield a dict, a dataclass"):
        await run(deferred if is_async else plain)


@pytest.mark.parametrize("junk", ["text", 7])
async def test_returned_junk_is_an_error_too(junk: object) -> None:
    with pytest.raises(JunkError, match="handler 'book'"):
        await run(lambda page: junk)


async def test_exceptions_of_the_handler_pass_unchanged() -> None:
    def raises(page: Page) -> Iterator[object]:
        yield ITEM
        raise ZeroDivisionError("mine")

    async def times_out(page: Page) -> None:
        raise TimeoutError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        await run(raises)
    with pytest.raises(TimeoutError, match="mine"):
        await run(times_out)


async def test_an_endless_generator_ends_at_the_deadline() -> None:
    ticks = itertools.count()

    def endless(page: Page) -> Iterator[object]:
        while True:
            yield ITEM

    with pytest.raises(HandlerTimeout, match=r"handler 'book' did not finish .*handler_timeout"):
        await run(endless, deadline=1_000, now=lambda: next(ticks))
    assert next(ticks) < 1_010

    async def endless_without_waiting(page: Page) -> AsyncIterator[object]:
        while True:
            yield ITEM

    with pytest.raises(HandlerTimeout):
        await run(endless_without_waiting, deadline=3_000, now=lambda: next(ticks))


async def test_a_list_that_comes_too_late_is_refused_and_its_values_are_not_timed() -> None:
    ticks = itertools.count()
    with pytest.raises(HandlerTimeout, match=r"handler 'book' did not finish"):
        await run(lambda page: [ITEM, REQUEST], deadline=1, now=lambda: 2.0)
    yielded = await run(lambda page: [ITEM] * 50, deadline=10, now=lambda: next(ticks))
    assert (len(yielded.items), next(ticks)) == (50, 1)


async def test_an_endless_generator_is_stopped_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "YIELDED", 100)
    with pytest.raises(JunkError, match="more than 100 values"):
        await run(lambda page: itertools.repeat(ITEM))


def virtually(test: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        runner.run(test(loop))


def test_a_handler_that_blocks_takes_no_time_from_those_beside_it() -> None:
    """As one that prints to a terminal where nobody reads on."""
    virtually(_blocks_beside_others)


async def _blocks_beside_others(loop: VirtualLoop) -> None:

    async def waits(page: Page) -> AsyncIterator[object]:
        await asyncio.sleep(0.01)
        yield ITEM
        await asyncio.sleep(0.01)
        yield ITEM

    async def blocks(page: Page) -> AsyncIterator[object]:
        await asyncio.sleep(0.005)
        loop.jump(0.6)
        yield ITEM

    deadline = loop.time() + 0.2
    beside = [run(one, deadline=deadline, now=loop.time) for one in (waits, blocks, waits)]
    assert [len(one.items) for one in await asyncio.gather(*beside)] == [2, 1, 2]


def test_a_handler_that_blocks_again_and_again_is_interrupted() -> None:
    virtually(_blocks_again_and_again)


async def _blocks_again_and_again(loop: VirtualLoop) -> None:
    times = 0

    async def blocks(page: Page) -> AsyncIterator[object]:
        nonlocal times
        while True:
            times += 1
            loop.jump(0.3)
            await asyncio.sleep(0)
            yield ITEM

    with pytest.raises(HandlerTimeout):
        await run(blocks, deadline=loop.time() + 0.01, now=loop.time)
    assert times == 4


@pytest.mark.parametrize("is_generator", [False, True])
def test_an_async_handler_that_waits_forever_is_interrupted(is_generator: bool) -> None:
    virtually(partial(_waits_forever, is_generator))


async def _waits_forever(is_generator: bool, loop: VirtualLoop) -> None:
    cleaned = []

    async def never(page: Page) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    async def never_yields(page: Page) -> AsyncIterator[object]:
        yield ITEM
        await never(page)

    with pytest.raises(HandlerTimeout, match="handler 'book'"):
        await run(never_yields if is_generator else never, deadline=loop.time() + 0.02, now=loop.time)
    assert cleaned == ["up"]
