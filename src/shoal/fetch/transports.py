"""Transports made of others: one that chooses browser, HTTP/2 or HTTP/1.1, one with settings for each host, and one for
certain hosts only."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.clock import Clock
from shoal.fetch.browser.executable import available, why_not
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.proxy.gateway import Gateway
from shoal.fetch.resolver import Resolver
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Failure, Outcome, Task
from shoal.policy.host_table import NOTHING, merged
from shoal.settings import HostSettings, Settings

if TYPE_CHECKING:
    from shoal.fetch.http2 import Http2Transport


class Transports:
    """Fetches by a browser, HTTP/2 or HTTP/1.1, as the request asks. Browser and HTTP/2 are extras, made when they are
    first needed. Must be made inside a running loop, and closed in it."""

    def __init__(self, settings: Settings, guard: Guard, clock: Clock) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        if settings.http2:
            import shoal.fetch.http2  # noqa: F401 (raises before anything is open, if h2 is missing)
        self._resolver = Resolver(settings)
        self._http = HttpTransport(settings, guard, clock, self._resolver)
        self._http2 = self._make_http2() if settings.http2 else None
        self._browser: Transport | None = None

    # Not async: the plain case costs nothing.
    def fetch(self, request: FetchRequest) -> Coroutine[Any, Any, Outcome]:
        if isinstance(request.proxy, Gateway):
            return self._http.fetch(request)
        if request.rendering is not None:
            return self._render(request)
        if self._http2 is not None and self._http2.suits(request):
            return self._http2.fetch(request)
        return self._http.fetch(request)

    async def close(self) -> None:
        for transport in (self._browser, self._http2, self._http):
            if transport is not None:
                await transport.close()
        await self._resolver.close()

    def _make_http2(self) -> Http2Transport:
        from shoal.fetch.http2 import Http2Transport

        return Http2Transport(self._settings, self._guard, self._clock, self._http)

    async def _render(self, request: FetchRequest) -> Outcome:
        if self._browser is None:
            if not available(self._settings):
                return Failure("no_browser", why_not(self._settings))
            from shoal.fetch.browser.transport import BrowserTransport

            self._browser = BrowserTransport(self._settings, self._guard, self._clock, self._resolver)
        return await self._browser.fetch(request)


class HostTransport:
    """Adds the headers and the timeout that are set for the host of each URL. A redirect to another host takes nothing
    with it."""

    def __init__(self, transport: Transport, own: Callable[[str], HostSettings]) -> None:
        self._transport = transport
        self._own = own

    # Not async: the plain case costs nothing.
    def fetch(self, request: FetchRequest) -> Coroutine[Any, Any, Outcome]:
        own = self._own(host_key(request.url))
        if own is not NOTHING:
            request = with_host_settings(request, own)
        return self._transport.fetch(request)

    async def close(self) -> None:
        await self._transport.close()


def through_same_proxy(transport: Transport, task: Task) -> Transport:
    """The transport for a robots.txt: through the proxy that the page names, or the site would see who else asks."""
    return transport if task.options.proxy is None else _SameProxy(transport, task.options.proxy)


class _SameProxy:
    def __init__(self, transport: Transport, proxy: str) -> None:
        self._transport = transport
        self._proxy = proxy

    async def fetch(self, request: FetchRequest) -> Outcome:
        return await self._transport.fetch(replace(request, asked_proxy=self._proxy))

    async def close(self) -> None:
        await self._transport.close()


def with_host_settings(request: FetchRequest, own: HostSettings) -> FetchRequest:
    """The request with the settings of its host. What the request says itself wins."""
    if own.headers:
        request = replace(request, headers=merged(own.headers, request.headers))
    if own.timeout is not None:
        total = own.timeout if request.total_timeout is None else request.total_timeout
        request = replace(request, total_timeout=total, read_timeout=own.timeout)
    return request


class RestrictedTransport:
    """Sends requests to certain hosts only: others may not see this worker's headers."""

    def __init__(self, transport: Transport, may_reach: Callable[[str], bool]) -> None:
        self._transport = transport
        self._may_reach = may_reach

    def refuses(self, url: str) -> Failure | None:
        if self._may_reach(url):
            return None
        return Failure(
            "untrusted",
            f"this worker has headers that may be secret, and its own settings do not name {host_key(url)} in hosts",
        )

    async def fetch(self, request: FetchRequest) -> Outcome:
        return self.refuses(request.url) or await self._transport.fetch(request)

    async def close(self) -> None:
        await self._transport.close()
