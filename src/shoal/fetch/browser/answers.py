"""What Chromium says of a document, in the words of plain fetching: headers, failures, whether it is a page at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from multidict import CIMultiDict, CIMultiDictProxy

from shoal.html.media import is_html

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_BODILESS = frozenset({204, 205, 304})
_UNTOLD = frozenset({"", "application/octet-stream", "unknown/unknown", "application/unknown"})
_ENCODED = ("Content-Encoding", "Content-Length", "Transfer-Encoding")

# The beginning of Chromium's name for an error, and what it is to us; the first that fits.
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
    ("BLOCKED_BY_RESPONSE", "protocol", "the answer's own policy forbids showing it"),
)

Headers = CIMultiDictProxy[str]
Nature = Literal["page", "file", "unknown"]


def headers_of(pairs: Iterable[Mapping[str, str]]) -> Headers:
    return CIMultiDictProxy(CIMultiDict((pair["name"], pair["value"]) for pair in pairs))


def decoded(headers: Headers) -> Headers:
    """Without what is no longer true of a body that has been decoded."""
    return CIMultiDictProxy(
        CIMultiDict((name, value) for name, value in headers.items() if name.title() not in _ENCODED)
    )


def rendered(headers: Headers) -> Headers:
    """As they suit a document that was written down from the browser's memory."""
    kept = CIMultiDict(decoded(headers))
    kept["Content-Type"] = "text/html; charset=utf-8"
    return CIMultiDictProxy(kept)


def nature_of(status: int, headers: Headers) -> Nature:
    """Whether a browser would show a page, or hand on a file; unknown: that depends on the body."""
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
