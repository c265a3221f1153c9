"""A request as it is sent over HTTP/1.1: whom it goes to, and its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from shoal.admit.sending import without_route
from shoal.errors import SettingsError
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.failures import InvalidUrlError
from shoal.fetch.transport import FetchRequest
from shoal.settings import Settings

_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_ACCEPT_ENCODING = "gzip, deflate, br, zstd"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOT_IN_VALUE = re.compile(r"[\r\n\0]")
_NOT_IN_URL = re.compile(r"[\0-\x20\x7f]")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_FRAMING = frozenset({"content-length", "transfer-encoding"})  # which follow from the body


class Origin(Struct, frozen=True):
    """Whom a request goes to."""

    text: str  # as it stands in the URL
    scheme: str
    host: str
    port: int
    authority: str  # the value of Host


@lru_cache(4096)
def _origin(text: str) -> Origin:
    try:
        url = URL(f"{text}/", encoded=True)
        if (
            url.scheme in ("http", "https") and url.raw_host and url.port
        ):  # the port is only parsed when asked for
            authority = url.host_port_subcomponent or ""
            return Origin(text, url.scheme, url.raw_host, url.port, authority)
    except ValueError:
        pass
    raise InvalidUrlError(text)


def split_url(url: str) -> tuple[Origin, str]:
    """The origin of a URL, and its path and query as they stand there."""
    plain = without_route(url)
    if _NOT_IN_URL.search(plain):
        raise InvalidUrlError(url)
    start = plain.find("/", 8)  # behind https://
    before = plain if start < 0 else plain[:start]
    query = before.find("?")
    if query >= 0:  # in a URL without a path
        return _origin(plain[:query]), f"/{plain[query:]}"
    target = "/" if start < 0 else plain[start:]
    return _origin(before), target


def parse_url(text: str) -> URL:
    """The URL as cookie jars take it."""
    try:
        url = URL(text, encoded=True)
        if url.raw_host and url.port:
            return url
    except ValueError:
        pass
    raise InvalidUrlError(text)


def default_headers(settings: Settings) -> CIMultiDict[str]:
    headers = CIMultiDict(
        {"User-Agent": settings.user_agent, "Accept": _ACCEPT, "Accept-Encoding": _ACCEPT_ENCODING}
    )
    headers.update(settings.headers)
    return headers


class RequestWriter:
    """Writes the requests of one job."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError if a header of the settings is not valid."""
        headers = default_headers(settings)
        try:
            self._defaults = {
                name.lower(): _line(name, value)
                for name, value in headers.items()
                if name.lower() not in _FRAMING
            }
        except ValueError as error:  # of a job that an earlier version has noted: it was not checked
            raise SettingsError(f"headers, user_agent: {error}") from None
        self._plain = "".join(self._defaults.values())
        self._cookie = headers.get("Cookie", "")

    def write(
        self,
        request: FetchRequest,
        target: str,
        authority: str,
        jar: CookieJar,
        extra: Iterable[tuple[str, str]] = (),
    ) -> bytes:
        """The bytes of a request. Raises ValueError if a header is not valid."""
        headers, body = request.headers, request.body
        if not _TOKEN.fullmatch(request.method):
            raise ValueError(f"{request.method!r} is not a method")
        lines = [f"{request.method} {target} HTTP/1.1\r\n"]
        given = {name.lower(): (name, value) for name, value in headers.items()} if headers else {}
        if jar:
            given |= self._cookies(given.get("cookie", ("", self._cookie))[1], jar, request.url)
        if "host" not in given and "host" not in self._defaults:
            lines.append(f"Host: {authority}\r\n")
        if given:
            lines += [line for name, line in self._defaults.items() if name not in given]
            lines += [_line(*header) for name, header in given.items() if name not in _FRAMING]
        else:
            lines.append(self._plain)
        lines += [_line(name, value) for name, value in extra]
        if body:
            if "content-type" not in given and "content-type" not in self._defaults:
                lines.append("Content-Type: application/octet-stream\r\n")
            lines.append(f"Content-Length: {len(body)}\r\n")
        elif request.method in _WITH_BODY:
            lines.append("Content-Length: 0\r\n")
        lines.append("\r\n")
        head = "".join(lines).encode("utf-8", "surrogateescape")
        return head + body if body else head

    def _cookies(self, own: str, jar: CookieJar, url: str) -> dict[str, tuple[str, str]]:
        """Those of the jar, and those of the request itself."""
        value = cookie_header(own, jar, parse_url(url))
        return {"cookie": ("Cookie", value)} if value else {}


def cookie_header(own: str, jar: CookieJar, url: URL) -> str:
    """The value of Cookie: `own` cookies, and those that the jar has for the URL."""
    of_jar = jar.cookies_for(url)
    named = {cookie.name for cookie in of_jar}
    pairs = [pair for part in own.split(";") if (pair := part.strip(" \t"))]
    sent = [pair for pair in pairs if pair.partition("=")[0].rstrip(" \t") not in named]
    return "; ".join([*sent, *(f"{cookie.name}={cookie.value}" for cookie in of_jar)])


def _line(name: str, value: str) -> str:
    if not _TOKEN.fullmatch(name) or _NOT_IN_VALUE.search(value):
        raise ValueError(f"{name!r} is not a valid header")
    value = value.strip(" \t")  # no other blanks: a cookie may end with them
    return f"{name}: {value}\r\n"
