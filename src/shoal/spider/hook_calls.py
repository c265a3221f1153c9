"""Runs hooks within their time. What they raise names the hook, its function and the line."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Sequence
from inspect import isawaitable
from types import CodeType

from msgspec import Struct

from shoal.errors import SinkError, StoreError
from shoal.limits import YIELDED
from shoal.model.request import Request
from shoal.spider.handlers import LATE, Drop, HandlerTimeout, HandlerTimer, Retry, is_item, wait_until
from shoal.spider.hooks import Hook, OutgoingRequest
from shoal.spider.inner import FetchFailed
from shoal.spider.login import Login, LoginSession
from shoal.spider.page import Page
from shoal.spider.rendering import TabLost
from shoal.spider.spider import place_of_code, place_of_error
from shoal.text import error_line

_SAID = (Retry, Drop, TabLost, FetchFailed)  # what a hook raises to say what is to become of its page

_STORE = (StoreError, SinkError)  # of `spider.state` or `page.fetch`: no fault of the hook


class HookFailed(Exception):
    """A hook raised an exception, returned something that it must not, or did not finish in its time."""

    def __init__(self, hook: Hook, said: str, where: str = "") -> None:
        where = where or place_of_code(hook.function)
        super().__init__(f"{hook}{f' ({where})' if where else ''}: {said}")


async def call(hook: Hook, *values: object, time: HandlerTimer) -> object:
    """What the hook answers. It may be async or not; if it is, it is interrupted when its time is over."""
    try:
        answer = hook.function(*values)
        if isawaitable(answer):
            answer = await wait_until(answer, time)
    except (*_SAID, *_STORE):
        raise
    except (Exception, SystemExit) as error:
        raise failed(hook, error) from error
    return answer


async def call_alone(hook: Hook, *values: object, time: HandlerTimer) -> None:
    """Runs a hook that is about no page, or a page that has ended: it has nothing to say about one."""
    try:
        answer = await call(hook, *values, time=time)
    except _SAID as error:
        raise failed(hook, error) from error
    if isinstance(answer, Generator | AsyncGenerator):
        raise HookFailed(hook, "it is a generator, so nothing of it has run: leave out yield")


def failed(hook: Hook, error: BaseException) -> HookFailed:
    """Names the line of the hook, and not of a library that it calls."""
    code = getattr(getattr(hook.function, "__func__", hook.function), "__code__", None)
    file = code.co_filename if isinstance(code, CodeType) else ""
    where = place_of_error(error, file)
    said = LATE if isinstance(error, HandlerTimeout) else error_line(error)
    return HookFailed(hook, said, where if where != file else "")


async def log_in(login: Login, session: LoginSession) -> object:
    """What the login function answers. It stands here so that the watchdog ends it if it computes for ever."""
    return await login.function(session)


async def looks_logged_out(sign: Callable[[Page], object], page: Page) -> bool:
    """What the function says that tells whether one is logged out."""
    said = sign(page)
    return bool(await said if isawaitable(said) else said)


async def before_request(hook: Hook, request: OutgoingRequest, time: HandlerTimer) -> None:
    answer = await call(hook, request, time=time)
    if answer is not None and answer is not request:
        raise HookFailed(
            hook, f"it returned a {type(answer).__name__}; change the request itself and return nothing"
        )


async def after_response(hooks: Sequence[Hook], page: Page, time: HandlerTimer) -> Page:
    for hook in hooks:
        answer = await call(hook, page, time=time)
        if isinstance(answer, Page):
            page = answer
        elif answer is not None:
            raise HookFailed(
                hook, f"it returned a {type(answer).__name__}; return page.replace(…), or nothing"
            )
    return page


class Hooked(Struct):
    """What hooks make of the items of a page."""

    items: Sequence[object]  # in their order
    origins: Sequence[int]  # for each, from which of the given ones it comes
    dropped: Sequence[str] = ()  # for each that was dropped, why


async def on_item(hooks: Sequence[Hook], items: Sequence[object], page: Page, time: HandlerTimer) -> Hooked:
    kept: list[object] = []
    origins: list[int] = []
    dropped: list[str] = []
    # Each with the place of the next hook, and its place among those that were given.
    left = [(items[number], 0, number) for number in reversed(range(len(items)))]
    while left:
        item, place, origin = left.pop()
        if time.is_over():
            raise HookFailed(
                hooks[min(place, len(hooks) - 1)], "the items of the page take longer than handler_timeout"
            )
        try:
            item, place = await _through(hooks, item, place, page, time)
        except Drop as reason:
            dropped.append(str(reason))
            continue
        if not isinstance(item, list):
            kept.append(item)
            origins.append(origin)
            continue
        if not item:
            dropped.append(f"{hooks[place].name} gave none")
        if len(left) + len(kept) + len(item) > YIELDED:
            raise HookFailed(hooks[place], f"the page has more than {YIELDED:,} items")
        left += [(one, place + 1, origin) for one in reversed(item)]
    return Hooked(kept, origins, dropped)


async def _through(
    hooks: Sequence[Hook], item: object, place: int, page: Page, time: HandlerTimer
) -> tuple[object, int]:
    """The item after the hooks from `place` on; or the list that one made of it, and the place of that one."""
    for at in range(place, len(hooks)):
        hook = hooks[at]
        try:
            answer = hook.function(item, page)
            if answer is None or answer is item:
                continue
            if type(answer) is not dict:
                answer = await _settled(hook, answer, time)
        except (*_SAID, *_STORE, HookFailed):
            raise
        except (Exception, SystemExit) as error:
            raise failed(hook, error) from error
        if isinstance(answer, list):
            return answer, at
        item = item if answer is None else answer
    return item, len(hooks)


async def _settled(hook: Hook, answer: object, time: HandlerTimer) -> object:
    """What an item hook answered: an item, a list of items, or None."""
    if isawaitable(answer):
        answer = await wait_until(answer, time)
    if isinstance(answer, Request):
        raise HookFailed(hook, "it returned a Request; return items, and yield requests in a handler")
    if answer is None or is_item(answer):
        return answer
    if isinstance(answer, AsyncIterable):
        answer = await wait_until(_listed(answer), time)
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise HookFailed(hook, f"it returned a {type(answer).__name__}; return an item, or a list of items")
    several: list[object] = []
    for one in answer:
        if not is_item(one) or isinstance(one, Request):
            raise HookFailed(hook, f"among its items is a {type(one).__name__}")
        several.append(one)
        if len(several) > YIELDED or time.is_over():
            raise HookFailed(hook, "it gives items without end, or took longer than handler_timeout")
    return several


async def _listed(items: AsyncIterable[object]) -> list[object]:
    listed: list[object] = []
    async for item in items:
        listed.append(item)
        if len(listed) > YIELDED:
            break
    return listed
