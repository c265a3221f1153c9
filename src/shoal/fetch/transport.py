"""The transport protocol: one request in, one outcome out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from shoal.fetch.proxy.proxy import Proxy
from shoal.model import Outcome
from shoal.spider.rendering import Rendering

if TYPE_CHECKING:
    from shoal.fetch.cookie_jar import CookieJar


class BodySink(Protocol):
    """Takes the body of an answer in pieces, so that it is never in memory as a whole."""

    @property
    def cap(self) -> int:
        """How many bytes it takes."""
        ...

    @property
    def error(self) -> OSError | None:
        """Why it could not write."""
        ...

    def headers(self) -> dict[str, str]:
        """Headers of the next request."""
        ...

    def takes(self, status: int, headers: Mapping[str, str]) -> bool:
        """Called with the head of an answer: whether its body is for the sink, or for memory."""
        ...

    def write(self, data: bytes) -> None: ...

    def beginning(self, size: int) -> bytes:
        """What it has of the first bytes of the body."""
        ...

    def starts_anew(self) -> bool:
        """Called after an answer: whether the request must be sent again, for the whole body."""
        ...

    def missing(self) -> str:
        """Called after an answer: what is missing of the body; "": nothing."""
        ...


class FetchRequest(Struct, frozen=True):
    """One HTTP exchange. `url` is sent byte for byte, up to a fragment; redirects are not followed."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    cookies: tuple[str, ...] = ()  # Set-Cookie lines to put into the jar first …
    referrer_url: str | None = None  # … which this URL answered with
    total_timeout: float | None = None  # None: the setting
    read_timeout: float | None = None  # None: the setting
    max_body: int | None = None  # None: the setting
    sink: BodySink | None = None  # where the body of a good answer goes; None: into memory
    truncate: bool = False  # True: a longer body is cut at max_body instead of being a failure
    # -- the route that its task asks for; see proxy/routes.py
    pool: str | None = None  # None: the setting
    session: str | None = None  # the name of the session it belongs to
    country: str | None = None  # that its proxy is to be in
    asked_proxy: str | None = None  # the proxy that it names, by address or name; never shown
    avoid: tuple[str, ...] = ()  # names of proxies that were refused, or failed, before
    doubted: tuple[str, ...] = ()  # of these, proxies that failed by their own fault or the host's
    # -- the route that was chosen
    proxy: Proxy | None = None
    jar: CookieJar | None = None  # None: the one that all requests without a session share
    rendering: Rendering | None = None  # None: plain HTTP


class Transport(Protocol):
    """What fetches pages: one request in, one outcome out."""

    async def fetch(self, request: FetchRequest) -> Outcome:
        """The server's answer, or why there is none. Raises only CancelledError."""
        ...

    async def close(self) -> None:
        """Called once, at the end of the process."""
        ...
