"""Sessions: a cookie jar, a proxy and headers that belong together, under a name.

The first request that names a session begins it. It ends after a number of requests, at an age, when its host refuses
it, or when its proxy fails. The next request of that name begins another one, with an empty jar and another proxy if
there is one. Sessions never share a jar, neither with each other nor with requests without a session.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from shoal.admit.identity import origin
from shoal.fetch.aiohttp_private import SiteJar
from shoal.fetch.proxy.pools import Proxy
from shoal.settings import Settings
from shoal.text import SECRET_HEADERS

# It logs every cookie with an odd name, and without a handler to stderr: any server could write there.
logging.getLogger("aiohttp.internal").addHandler(logging.NullHandler())

_KEPT = 1_000  # sessions at once; beyond, the least recently used is dropped
_NONE: Mapping[str, str] = MappingProxyType({})


class Session:
    __slots__ = ("_headers", "_origin", "began", "jar", "name", "proxy", "requests")

    def __init__(
        self, name: str, proxy: Proxy | None, began: float, url: str, headers: Mapping[str, str]
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.began = began
        self.requests = 0
        self.jar = SiteJar()
        self._headers = headers
        self._origin = origin(url)

    def __repr__(self) -> str:
        via = self.proxy.name if self.proxy is not None else "direct"
        return f"<Session {self.name!r}: {self.requests} requests, {via}>"

    def headers_for(self, url: str) -> Mapping[str, str]:
        """Its headers; credentials only for the origin where the session began."""
        if not self._headers or origin(url) == self._origin:
            return self._headers
        return {name: value for name, value in self._headers.items() if name.lower() not in SECRET_HEADERS}


class Sessions:
    """The sessions of one job in one process."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.session_requests
        self._oldest = settings.session_age
        self._headers = settings.session_headers
        self._live: dict[str, Session] = {}
        self._left: dict[str, str] = {}  # name -> the proxy that its last one went through

    def current(self, name: str, now: float) -> Session | None:
        session = self._live.pop(name, None)
        if session is None:
            return None
        worn_out = self._most and session.requests >= self._most
        if worn_out or (self._oldest and now - session.began >= self._oldest):
            return None
        self._live[name] = session  # last in line
        return session

    def begin(self, name: str, proxy: Proxy | None, now: float, url: str) -> Session:
        if len(self._live) >= _KEPT:
            del self._live[next(iter(self._live))]
        session = Session(name, proxy, now, url, self._headers.get(name, _NONE))
        self._live[name] = session
        return session

    def retire(self, session: Session) -> None:
        if self._live.get(session.name) is session:
            del self._live[session.name]
            if session.proxy is not None:
                if len(self._left) >= _KEPT:
                    del self._left[next(iter(self._left))]
                self._left[session.name] = session.proxy.name

    def left(self, name: str) -> str | None:
        """The proxy that the session of this name was last retired from."""
        return self._left.get(name)
