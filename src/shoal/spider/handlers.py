"""Runs a handler on a page and collects what it yields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import is_dataclass
from inspect import isawaitable
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from shoal.errors import SpiderError
from shoal.limits import YIELDED
from shoal.model.request import PageLinks, Request
from shoal.spider import debugging
from shoal.spider.attached import is_attached
from shoal.spider.inner import Unawaited
from shoal.spider.spider import place_of_users

if TYPE_CHECKING:
    from shoal.spider.page import Page
    from shoal.spider.spider import Handler

T = TypeVar("T")

LATE = "it did not finish in its time (setting handler_timeout)"
_AGAIN = 3  # times that a handler gets its time again, if the event loop was blocked
_STALLED = 0.25  # a timer that is later, in seconds, means that the event loop was blocked
_CLOSE = 0.001  # seconds by which two clocks may differ


class Retry(Exception):
    """Raise it in a handler: this is not the page that was asked for, so it is fetched again, `after` seconds from now.

    Without `after`, the delay is that of a failed fetch. It counts as an attempt, so a page is not tried for ever.
    """

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        super().__init__(reason)
        try:
            is_time = after is None or 0 <= after < inf
        except TypeError:
            is_time = False
        if not is_time:
            raise SpiderError(f"Retry: after is {after!r}; give seconds, as a number")
        self.after = after


class Drop(Exception):
    """Raise it in a handler: nothing of this page is wanted. The page is done, and counted under the reason."""

    def __init__(self, reason: str = "no reason given") -> None:
        super().__init__(reason)


class JunkError(Exception):
    """A handler yielded something that is neither an item nor a request, or an item that cannot be written.

    `where`: the line that yielded it, such as "books.py:12", if it is known.
    """

    def __init__(self, said: str, where: str = "") -> None:
        super().__init__(said)
        self.where = where


class HandlerTimeout(Exception):
    """A handler did not finish in its time."""


class Yielded(Struct):
    """What a handler yielded for one page."""

    items: list[object] = field(default_factory=list)
    requests: list[Request] | PageLinks = field(default_factory=list[Request])

    def add_request(self, request: Request) -> None:
        if isinstance(self.requests, PageLinks):
            self.requests = list(self.requests)
        self.requests.append(request)

    def add_links(self, links: PageLinks) -> None:
        """They stay what they are if nothing else is to be followed."""
        self.requests = [*self.requests, *links] if self.requests or links.with_users else links


async def collect(
    handler: Handler, page: Page, *, deadline: float, monotonic: Callable[[], float]
) -> Yielded:
    """Everything that the handler yields for the page. It may be a function or a generator, async or not.

    An async handler is interrupted at `deadline`; a plain generator is stopped at its next yield. Errors of the handler
    are raised.
    """
    paused = debugging.paused()
    produced = handler.function(page)
    is_plain = type(produced) is list or type(produced) is dict  # as most are
    if not is_plain and (isawaitable(produced) or isinstance(produced, AsyncIterable)):
        return await _collect_async(handler.name, produced, deadline, monotonic)
    return _collect_plain(handler.name, produced, deadline, monotonic, paused)


class HandlerTimer:
    """The deadline of an async handler. While another handler blocks the event loop, this one cannot run. So a handler
    that is far too late gets its time again, a few times; otherwise one that blocks, or a machine that gives this
    process no time, would bury every page beside it."""

    def __init__(self, deadline: float, monotonic: Callable[[], float]) -> None:
        self.deadline = deadline
        self._monotonic = monotonic
        self._seconds = deadline - monotonic()
        self._again = _AGAIN
        self._timer: asyncio.TimerHandle | None = None
        self._limit: asyncio.Timeout | None = None
        self._waits = 0  # requests inside the handler that are under way
        self._waits_since = 0.0
        self._paused = debugging.paused()

    def leave_out_pauses(self) -> None:
        """Moves the deadline by the time that was spent in a debugger. One that was attached from the start does not
        say for how long it stops a handler."""
        paused = debugging.paused()
        self.deadline += paused - self._paused
        self._paused = paused
        if debugging.is_active() and is_attached():
            self.deadline = max(self.deadline, self._monotonic() + self._seconds)

    def stand_still(self) -> None:
        """Until `go_on`, no time passes."""
        self._waits += 1
        if self._waits == 1:
            self._waits_since = self._monotonic()

    def go_on(self) -> None:
        self._waits -= 1
        if not self._waits:
            self.deadline += self._monotonic() - self._waits_since
            if (limit := self._limit) is not None:
                self.stop()
                self.interrupt(limit)

    def is_over(self) -> bool:
        if self._waits:
            return False
        self.leave_out_pauses()
        late = self._monotonic() - self.deadline
        if late > _STALLED and self._again:
            self._again -= 1
            self.deadline += late + self._seconds
            return False
        return late > 0

    def interrupt(self, limit: asyncio.Timeout) -> None:
        """Lets `limit` end what runs in it, at the deadline."""
        self._limit = limit
        if self._waits:
            return  # `go_on` calls this again
        loop = asyncio.get_running_loop()
        is_over, left = self.is_over(), self.deadline - self._monotonic()
        if is_over or left < _CLOSE:
            limit.reschedule(loop.time())
        else:
            self._timer = loop.call_later(left, self.interrupt, limit)

    def stop(self) -> None:
        self._limit = None
        if self._timer is not None:
            self._timer.cancel()


_running: ContextVar[HandlerTimer | None] = ContextVar("shoal_handler_timer", default=None)


@contextmanager
def handler_waits() -> Iterator[None]:
    """Around a request inside a handler: its time does not count as the handler's."""
    timer = _running.get()
    if timer is None:
        yield
        return
    timer.stand_still()
    try:
        yield
    finally:
        timer.go_on()


async def wait_until(awaited: Awaitable[T], timer: HandlerTimer) -> T:
    """Awaits it. When its time is over it is interrupted, and a HandlerTimeout is raised."""
    running = _running.set(timer)
    try:
        async with asyncio.timeout(None) as limit:
            timer.interrupt(limit)
            return await awaited
    except TimeoutError:
        if limit.expired():
            raise HandlerTimeout(LATE) from None
        raise
    finally:
        timer.stop()
        _running.reset(running)


async def _collect_async(
    name: str,
    produced: Awaitable[object] | AsyncIterable[object],
    deadline: float,
    monotonic: Callable[[], float],
) -> Yielded:
    timer = HandlerTimer(deadline, monotonic)
    running = _running.set(timer)
    try:
        async with asyncio.timeout(None) as limit:
            timer.interrupt(limit)
            result = await produced if isawaitable(produced) else produced
            if isinstance(result, AsyncIterable):
                return await _drain(name, result, timer)
    except TimeoutError:
        if limit.expired():
            raise _timeout(name) from None
        raise
    finally:
        timer.stop()
        _running.reset(running)
    timer.leave_out_pauses()
    return _collect_plain(name, result, timer.deadline, monotonic, debugging.paused())


async def _drain(name: str, produced: AsyncIterable[object], timer: HandlerTimer) -> Yielded:
    into = Yielded()
    count = 0
    iterator = aiter(produced)
    try:
        async for value in iterator:
            count += 1
            _sort(name, value, into, iterator)
            if count > YIELDED or timer.is_over():
                raise _endless(name, count)
    finally:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()
    return into


def _collect_plain(
    name: str, produced: object, deadline: float, monotonic: Callable[[], float], paused: float
) -> Yielded:
    """`paused`: the seconds in debuggers when the deadline was set."""
    requests: list[Request] = []
    into = Yielded(requests=requests)
    if produced is None:
        return into
    if type(produced) is list:
        values: Iterable[Any] = produced
    elif is_item(produced) or not isinstance(produced, Iterable) or isinstance(produced, str | bytes):
        _sort(name, produced, into, None)
        return into
    else:
        values = produced
    add_item: Callable[[object], None] = into.items.append
    add_request: Callable[[Request], None] = requests.append
    runs = type(produced) is not list  # else the handler has ended, and one look at the clock is enough
    for count, value in enumerate(values, 1):
        kind = type(value)
        if kind is Request:
            add_request(value)
        elif kind is dict:
            add_item(value)
        else:
            _sort(name, value, into, produced)
            add_request = into.add_request
        if count > YIELDED or ((runs or count == 1) and _is_late(deadline, monotonic, paused)):
            raise _endless(name, count)
    return into


def _is_late(deadline: float, monotonic: Callable[[], float], paused: float) -> bool:
    return monotonic() > deadline and monotonic() > deadline + _pauses(paused)


def _pauses(before: float) -> float:
    """Seconds in debuggers since then. Only they know, if one is attached: no handler is too late."""
    attached = debugging.is_active() and is_attached()
    return inf if attached else debugging.paused() - before


def is_item(value: object) -> bool:
    """Whether it is an item: a dict or another mapping, a msgspec Struct, a dataclass, an attrs class, or a pydantic
    model. The last two are told by what they have: neither need be installed."""
    if isinstance(value, Mapping | Struct):
        return True
    kind = type(value)
    return is_dataclass(kind) or hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__pydantic_serializer__")


def _sort(name: str, value: object, into: Yielded, produced: object) -> None:
    """`produced`: what the handler returned, such as a generator, which stands at the line that yielded the value."""
    if isinstance(value, Request):
        into.add_request(value)
    elif isinstance(value, PageLinks):
        into.add_links(value)
    elif is_item(value):
        into.items.append(value)
    elif isinstance(value, Unawaited):
        raise value.error()
    else:
        raise JunkError(
            f"handler {name!r} yielded a {type(value).__name__}; "
            "yield a dict, a dataclass, an attrs class, a msgspec Struct, a pydantic model or page.follow(...)"
            + _hint(value),
            place_of_users(produced),
        )


def _hint(value: object) -> str:
    if value is None:
        return "; where there is nothing to yield, yield nothing"
    if isinstance(value, list | tuple | set | frozenset | Iterator):
        return "; yield from gives several values one by one"
    return ""


def _endless(name: str, count: int) -> Exception:
    if count > YIELDED:
        return JunkError(f"handler {name!r} yielded more than {YIELDED:,} values for one page")
    return _timeout(name)


def _timeout(name: str) -> HandlerTimeout:
    return HandlerTimeout(f"handler {name!r} did not finish in its time (setting handler_timeout)")
