"""The hooks on the path of a page: before its request, before its handler, and for its items."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from shoal.admit.identity import origin
from shoal.admit.sending import sent_url
from shoal.clock import Clock
from shoal.fetch.proxy.pools import DIRECT
from shoal.model import Task
from shoal.model.proxy_address import HOW, check_asked
from shoal.settings import Settings
from shoal.spider import hook_calls
from shoal.spider.handlers import HandlerTimer
from shoal.spider.hook_calls import Hooked, HookFailed
from shoal.spider.hooks import Hook, Hooks, OutgoingRequest
from shoal.spider.page import Page
from shoal.spider.spider import Spider
from shoal.text import shown_url


class PageHooks:
    def __init__(self, hooks: Hooks, spider: Spider, settings: Settings, clock: Clock) -> None:
        self._hooks = hooks
        self._spider = spider
        self._settings = settings
        self._clock = clock
        # Looked at for each page: without hooks, this is all they cost.
        self.before_request = bool(hooks.before_request)
        self.after_response = bool(hooks.after_response)
        self.on_item = bool(hooks.on_item)

    def _time(self) -> HandlerTimer:
        monotonic = self._clock.monotonic
        return HandlerTimer(monotonic() + self._settings.handler_timeout, monotonic)

    async def before(self, task: Task) -> Task:
        """The task as it is to be sent now."""
        handler = self._spider.handler_named(task.handler).name
        hooks = Hooks.for_handler(self._hooks.before_request, handler)
        request, time = OutgoingRequest(task), self._time()
        for hook in hooks:
            await hook_calls.before_request(hook, request, time)
            _check(hook, request, self._settings)
        return _as_task(request) if hooks else task

    async def after(self, page: Page) -> Page:
        hooks = Hooks.for_handler(self._hooks.after_response, page.handler)
        return await hook_calls.after_response(hooks, page, self._time())

    async def items(self, items: Sequence[object], page: Page) -> Hooked:
        """The items as the hooks leave them."""
        hooks = Hooks.for_handler(self._hooks.on_item, page.handler)
        if not hooks:
            return Hooked(items, range(len(items)))
        return await hook_calls.on_item(hooks, items, page, self._time())


_TYPES: dict[str, tuple[Any, str]] = {
    "url": (str, "a text (str)"),
    "method": (str, "a text (str)"),
    "headers": (dict, "a dict of texts"),
    "body": ((bytes, NoneType), "bytes, as in text.encode()"),
    "pool": ((str, NoneType), "a text (str)"),
    "proxy": ((str, NoneType), "an address such as http://host:port, or a name"),
    "session": ((str, NoneType), "a text (str)"),
}


def _check(hook: Hook, request: OutgoingRequest, settings: Settings) -> None:
    """A request that cannot be sent, or was not admitted, is told here, where the hook is known."""
    for name, (kind, wanted) in _TYPES.items():
        value = getattr(request, name)
        if not isinstance(value, kind):
            raise HookFailed(hook, f"it set {name} to a {type(value).__name__}; give {wanted}")
    for header, value in request.headers.items():
        if not isinstance(header, str) or not isinstance(value, str):
            raise HookFailed(
                hook, f"it set the header {header!r} to a {type(value).__name__}; give texts (str)"
            )
    task, url = request.task, request.url
    if url != task.url:
        to = sent_url(url)
        if to is None:
            raise HookFailed(hook, "it set url to something that is not a URL")
        if urlsplit(url).username is not None:
            raise HookFailed(hook, "it put a user into url; set the header Authorization instead")
        if origin(to) != origin(
            task.url
        ):  # scope, robots.txt and the turn of the host are those of its origin
            raise HookFailed(
                hook, f"it changed the origin to that of {shown_url(to)}; let a handler yield that request"
            )
    if request.pool not in (None, "", task.pool, DIRECT) and request.pool not in settings.proxies:
        raise HookFailed(hook, f"there is no pool {request.pool!r} in the setting proxies")
    if request.proxy is not None:
        try:
            check_asked(request.proxy)
        except ValueError as error:
            raise HookFailed(hook, f"its proxy cannot be used: {error}; {HOW}") from None


def _as_task(request: OutgoingRequest) -> Task:
    task = request.task
    options = task.options
    if request.session != options.session or request.proxy != options.proxy:
        options = replace(options, session=request.session, proxy=request.proxy)
    return replace(
        task,
        url=sent_url(request.url) or task.url,
        method=request.method,
        headers=_each_once(request.headers) or None,
        body=request.body,
        pool=request.pool or None,
        options=options,
    )


def _each_once(headers: dict[str, str]) -> dict[str, str]:
    """Names mean the same in upper and lower case: the one that was written last is sent."""
    last = {name.lower(): name for name in headers}
    return {name: headers[name] for name in last.values()}
