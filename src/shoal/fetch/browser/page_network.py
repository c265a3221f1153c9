"""What Chromium reports about a page's network traffic: headers, errors, sizes, and when it is quiet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from multidict import CIMultiDict, CIMultiDictProxy

from shoal.html.media import is_html

if TYPE_CHECKING:
    from playwright.async_api import CDPSession


REDIRECTS = frozenset({301, 302, 303, 307, 308})

_BODILESS = frozenset({204, 205, 304})
_UNTOLD = frozenset({"", "application/octet-stream", "unknown/unknown", "application/unknown"})
_ENCODED = ("Content-Encoding", "Content-Length", "Transfer-Encoding")

# How Chromium's name of an error begins, our kind, and its meaning; the first that fits.
_ERRORS = (
    ("CERT_", "tls", "no trustworthy TLS connection"),
    ("SSL_", "tls", "no trustworthy TLS connection"),
    ("BAD_SSL_", "tls", "no trustworthy TLS connection"),
    ("NAME_NOT_RESOLVED", "dns", "the host name cannot be resolved"),
    ("CONNECTION_REFUSED", "connect", "no connection"),
    ("ADDRESS_", "connect", "no connection"),
    ("TUNNEL_CONNECTION_FAILED", "connect", "no connection"),
    ("PROXY_", "connect", "no connection"),
    ("CONNECTION_TIMED_OUT", "connect_timeout", "no connection in time"),
    ("TIMED_OUT", "connect_timeout", "no connection in time"),
    ("CONTENT_LENGTH_MISMATCH", "truncated", "the body is incomplete"),
    ("INCOMPLETE_CHUNKED_ENCODING", "truncated", "the body is incomplete"),
    ("INVALID_CHUNKED_ENCODING", "truncated", "the body's framing is broken"),
    ("CONTENT_DECODING_", "encoding", "the body could not be decompressed"),
    ("CONNECTION_", "reset", "the connection was lost"),
    ("EMPTY_RESPONSE", "reset", "the server closed the connection without an answer"),
    ("SOCKET_", "reset", "the connection was lost"),
    ("NETWORK_", "reset", "the connection was lost"),
    ("INVALID_HTTP_RESPONSE", "protocol", "not a valid HTTP answer"),
    ("RESPONSE_HEADERS_", "protocol", "not a valid HTTP answer"),
    ("INVALID_RESPONSE", "protocol", "not a valid HTTP answer"),
    ("HTTP2_", "protocol", "not a valid HTTP/2 answer"),
    ("HTTP_", "protocol", "not a valid HTTP answer"),
    ("UNSAFE_", "invalid_url", "a port that browsers do not open"),
    ("INVALID_URL", "invalid_url", "not a URL that can be opened"),
    ("BLOCKED_BY_RESPONSE", "protocol", "the answer's own policy forbids page it"),
)

Headers = CIMultiDictProxy[str]
Nature = Literal["page", "file", "unknown"]


def headers_of(pairs: Iterable[Mapping[str, str]]) -> Headers:
    return CIMultiDictProxy(CIMultiDict((pair["name"], pair["value"]) for pair in pairs))


def decoded(headers: Headers) -> Headers:
    """The headers without those that describe the encoded body."""
    return CIMultiDictProxy(
        CIMultiDict((name, value) for name, value in headers.items() if name.title() not in _ENCODED)
    )


def rendered(headers: Headers) -> Headers:
    """The headers for a document that was serialised by the browser."""
    kept = CIMultiDict(decoded(headers))
    kept["Content-Type"] = "text/html; charset=utf-8"
    return CIMultiDictProxy(kept)


def nature_of(status: int, headers: Headers) -> Nature:
    """Whether a browser would show a page or download a file; "unknown": that depends on the body."""
    if status in _BODILESS or headers.get("Content-Disposition", "").lower().lstrip().startswith(
        "attachment"
    ):
        return "file"
    media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type in _UNTOLD:
        return "unknown"
    return "page" if is_html(media_type, b"") else "file"


def looks_like_a_page(body: bytes) -> bool:
    return is_html("", body)


def failure_for(error: str) -> tuple[str, str]:
    """The kind of a failure and a line for a person, from "net::ERR_…"."""
    name = error.partition("net::ERR_")[2].split(" ")[0]
    for start, kind, meaning in _ERRORS:
        if name.startswith(start):
            return kind, f"{meaning} ({name})"
    return "unexpected", f"the page could not be opened ({name or 'no reason given'})"


# -- how much a page receives, and when it is quiet


_SILENCE = 0.5  # seconds
_NEVER_ENDING = frozenset({"EventSource", "WebSocket", "Ping"})


class PageTraffic:
    """Follows the network events of one page. `on_full` is called once, when it has more than `cap` decoded bytes."""

    def __init__(self, session: CDPSession, cap: int, on_full: Callable[[], None]) -> None:
        self.received = 0  # bytes as they came
        self.unfolded = 0  # … and after decompression
        self._cap = cap
        self._on_full = on_full
        self._open: set[str] = set()  # requests under way
        self._last = asyncio.get_running_loop().time()
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.dataReceived", self._data)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.loadingFailed", self._ended)

    async def silence(self) -> None:
        """Waits until no request has been under way for half a second."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        while True:
            rest = self._last + _SILENCE - loop.time()
            if rest > 0:
                await asyncio.sleep(rest)
            elif self._open:
                await asyncio.sleep(_SILENCE / 5)
            else:
                return

    def lift(self) -> None:
        """Removes the cap."""
        self._cap = 1 << 62

    def _sent(self, event: dict[str, Any]) -> None:
        self._touch()
        if event.get("type") not in _NEVER_ENDING:
            self._open.add(event["requestId"])

    def _data(self, event: dict[str, Any]) -> None:
        self._touch()
        self.unfolded += event["dataLength"]
        if self.unfolded > self._cap:
            self.lift()
            self._on_full()

    def _finished(self, event: dict[str, Any]) -> None:
        self.received += int(event.get("encodedDataLength", 0))
        self._ended(event)

    def _ended(self, event: dict[str, Any]) -> None:
        self._touch()
        self._open.discard(event["requestId"])

    def _touch(self) -> None:
        self._last = asyncio.get_running_loop().time()
