"""The transport that suits a request: a browser, HTTP/2, or plain HTTP/1.1. The first two are extras, and made when
they are first needed."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from shoal.clock import Clock
from shoal.fetch.browser.executable import available, why_not
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.resolver import Resolver
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Failure, Outcome
from shoal.settings import Settings

if TYPE_CHECKING:
    from shoal.fetch.http2 import Http2Transport


class Transports:
    """Must be made inside a running loop, and closed in it."""

    def __init__(self, settings: Settings, guard: Guard, clock: Clock) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        if settings.http2:
            import shoal.fetch.http2  # noqa: F401 (that h2 is missing is told before anything is open)
        self._resolver = Resolver(settings)
        self._http = HttpTransport(settings, guard, clock, self._resolver)
        self._http2 = self._make_http2() if settings.http2 else None
        self._browser: Transport | None = None

    # Not async: the plain case costs nothing.
    def fetch(self, request: FetchRequest) -> Coroutine[Any, Any, Outcome]:
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
