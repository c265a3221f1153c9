"""Sessions: a cookie jar, a proxy and headers that belong together, under a name.

The first request that names a session begins it. It ends after a number of requests, at an age, when its host refuses
it, or when its proxy fails. The next request of that name begins another one, with an empty jar and another proxy if
there is one. Sessions never share a jar, neither with each other nor with requests without a session.

`Sessions` are those that this process knows. `engine/sessions.py` reads them from the store, and writes them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from shoal.admit.identity import origin
from shoal.fetch.cookies import LastingJar
from shoal.fetch.proxy.proxy import Proxy
from shoal.settings import Settings
from shoal.text import SECRET_HEADERS

T = TypeVar("T")

_KEPT = 1_000  # sessions at once; beyond, the least recently used is dropped
_NONE: Mapping[str, str] = MappingProxyType({})


class Session:
    __slots__ = ("_headers", "began", "counted", "generation", "jar", "name", "origin", "proxy", "requests")

    def __init__(
        self,
        name: str,
        proxy: Proxy | None,
        began: float,
        origin: str,
        headers: Mapping[str, str],
        generation: int,
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.began = began
        self.requests = 0
        self.counted = 0  # of these, in the store
        self.jar = LastingJar()
        self.generation = generation
        self.origin = origin
        self._headers = headers

    def __repr__(self) -> str:
        via = self.proxy.name if self.proxy is not None else "direct"
        return f"<Session {self.name!r}: {self.requests} requests, {via}>"

    def add_headers(self, headers: Mapping[str, str]) -> None:
        if headers:
            self._headers = {**self._headers, **headers}

    def headers_for(self, url: str) -> Mapping[str, str]:
        """Its headers; credentials only for the origin where the session began."""
        if not self._headers or origin(url) == self.origin:
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
        self._ended: dict[str, int] = {}  # name -> the latest generation that was ended here
        self.logging_in: set[str] = set()  # names of those that nobody else may use yet
        self._generations: dict[str, int] = {}  # name -> the latest that is known

    def current(self, name: str, now: float) -> Session | None:
        session = self._live.pop(name, None)
        if session is None:
            return None
        worn_out = self._most and session.requests >= self._most
        if worn_out or (self._oldest and now - session.began >= self._oldest):
            self._end(session)
            return None
        self._live[name] = session  # last in line
        return session

    def begin(self, name: str, proxy: Proxy | None, now: float, url: str) -> Session:
        return self._add(name, proxy, now, origin(url), self.generation(name) + 1)

    def adopt(
        self,
        name: str,
        proxy: Proxy | None,
        began: float,
        origin: str,
        generation: int,
        headers: Mapping[str, str] = _NONE,
    ) -> Session:
        """The session as another process has begun it, or the next one through the same proxy."""
        session = self._add(name, proxy, began, origin, generation)
        session.add_headers(headers)
        return session

    def _add(self, name: str, proxy: Proxy | None, began: float, origin: str, generation: int) -> Session:
        if len(self._live) >= _KEPT:
            del self._live[next(iter(self._live))]
        session = Session(name, proxy, began, origin, self._headers.get(name, _NONE), generation)
        self._live[name] = session
        self.learn(name, generation)
        return session

    def live(self, name: str) -> Session | None:
        """The session as it stands, also if its time is over."""
        return self._live.get(name)

    def generation(self, name: str) -> int:
        return self._generations.get(name, 0)

    def learn(self, name: str, generation: int, left: str = "") -> None:
        """The next session of this name is a later one than this."""
        _remember(self._generations, name, max(generation, self.generation(name)))
        if left:
            _remember(self._left, name, left)

    def drop(self, name: str) -> None:
        self._live.pop(name, None)

    def retire(self, session: Session) -> None:
        if self._live.get(session.name) is session:
            del self._live[session.name]
            self._end(session)
            if session.proxy is not None:
                _remember(self._left, session.name, session.proxy.name)

    def _end(self, session: Session) -> None:
        _remember(self._ended, session.name, session.generation)

    def ended(self, name: str) -> int:
        """The latest generation of this name that has ended in this process."""
        return self._ended.get(name, 0)

    def left(self, name: str) -> str | None:
        """The proxy that the session of this name was last retired from."""
        return self._left.get(name)


def _remember(memory: dict[str, T], name: str, value: T) -> None:
    memory.pop(name, None)
    if len(memory) >= _KEPT:
        del memory[next(iter(memory))]
    memory[name] = value
