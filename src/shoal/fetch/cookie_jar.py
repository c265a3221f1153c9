"""A cookie jar as browsers have it (RFC 6265bis): which cookies an answer may set, and which go with a request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from time import time

from msgspec import Struct
from yarl import URL

from shoal.admit.identity import is_public_suffix

CookieKey = tuple[str, bool, str, str]  # domain, whether it is for that host only, path, name

# RFC 6265bis, and what browsers have.
_PAIR = 4_096  # bytes of name and value
_ATTRIBUTE = 1_024  # bytes of the value of an attribute
_ATTRIBUTES = 50  # of a cookie; there are some ten in use
_LINES = 50  # cookies of one answer
_DOMAIN = 180  # cookies of a domain; then the oldest make room …
_DOMAIN_KEPT = 150  # … until so many are left
_JAR = 3_300
_JAR_KEPT = 3_000
_SENT = 8_000  # bytes of cookies in one request: servers refuse larger heads
_LONGEST = 400 * 86_400.0  # seconds that a cookie may last

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DATE_DELIMITER = re.compile(r"[\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\D.*)?$", re.ASCII | re.DOTALL)
_DAY = re.compile(r"(\d{1,2})(?:\D.*)?$", re.ASCII | re.DOTALL)
_YEAR = re.compile(r"(\d{2,4})(?:\D.*)?$", re.ASCII | re.DOTALL)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MAX_AGE = re.compile(r"-?\d+", re.ASCII)
_SAME_SITE = frozenset({"strict", "lax", "none"})


class Cookie(Struct, frozen=True, array_like=True):
    name: str
    value: str  # as it was received, with its quotes
    domain: str
    path: str
    host_only: bool = False  # not for subdomains
    secure: bool = False
    http_only: bool = False
    same_site: str = ""
    expires: float | None = None  # epoch seconds; None: with the session

    @property
    def key(self) -> CookieKey:
        return self.domain, self.host_only, self.path, self.name

    def is_for(self, host: str, path: str, *, is_secure: bool) -> bool:
        """Whether it goes with a request."""
        if self.secure and not is_secure:
            return False
        of_host = self.domain == host if self.host_only else _domain_matches(self.domain, host)
        return of_host and _path_matches(self.path, path)


class CookieJar:
    """Refuses cookies for other domains and for public suffixes such as .com or .co.uk."""

    def __init__(self) -> None:
        self._cookies: dict[CookieKey, Cookie] = {}  # the oldest first
        self._count_by_domain = Counter[str]()
        self._used: dict[CookieKey, int] = {}  # when each was last set or sent, by the count of such events
        self._events = 0

    def __len__(self) -> int:
        return len(self._cookies)

    def __iter__(self) -> Iterator[Cookie]:
        """Those that have not expired."""
        now = time()
        return iter([one for one in self._cookies.values() if one.expires is None or one.expires > now])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} cookies>"

    def set(self, lines: Iterable[str], url: URL) -> None:
        """Takes the Set-Cookie lines of an answer from `url`."""
        now = time()
        for line in [*lines][:_LINES]:
            cookie = parse_cookie(line, url, now)
            if cookie is not None and (_is_secure(url) or not self._hides_secure(cookie)):
                self.add(cookie, now)

    def add(self, cookie: Cookie, now: float | None = None) -> None:
        """One that has expired deletes the cookie of its name."""
        now = time() if now is None else now
        key = cookie.key
        if cookie.expires is not None and cookie.expires <= now:
            self.delete(key)
            return
        if not cookie.host_only and is_public_suffix(cookie.domain):
            return
        if key not in self._cookies:
            self._make_room(cookie.domain, now)
            self._count_by_domain[cookie.domain] += 1
        self._cookies[key] = cookie
        self._use(key)

    def delete(self, key: CookieKey) -> None:
        if self._cookies.pop(key, None) is not None:
            del self._used[key]
            self._count_by_domain[key[0]] -= 1
            if not self._count_by_domain[key[0]]:
                del self._count_by_domain[key[0]]

    def clear(self) -> None:
        self._cookies.clear()
        self._count_by_domain.clear()
        self._used.clear()

    def cookies_for(self, url: URL) -> list[Cookie]:
        """Those that go with a request: longer paths first, then the older ones."""
        if not self._cookies:
            return []
        host, path, is_secure = url.raw_host or "", url.raw_path or "/", _is_secure(url)
        found = [one for one in self if one.is_for(host, path, is_secure=is_secure)]
        found.sort(key=lambda one: -len(one.path))
        room, sent = _SENT, []
        for cookie in found:
            room -= len(cookie.name) + len(cookie.value.encode()) + 3
            if room < 0:
                break
            sent.append(cookie)
            self._use(cookie.key)
        return sent

    def _hides_secure(self, cookie: Cookie) -> bool:
        """Whether it would be sent in place of a secure one, or before it. Without TLS, anybody may have set it."""
        return any(
            one.secure
            and one.name == cookie.name
            and _path_matches(one.path, cookie.path)
            and (_domain_matches(one.domain, cookie.domain) or _domain_matches(cookie.domain, one.domain))
            for one in self._cookies.values()
        )

    def _use(self, key: CookieKey) -> None:
        self._events += 1
        self._used[key] = self._events

    def _make_room(self, domain: str, now: float) -> None:
        """Those used least lately leave when there are too many."""
        if self._count_by_domain[domain] < _DOMAIN and len(self._cookies) < _JAR:
            return
        for key in [
            key for key, one in self._cookies.items() if one.expires is not None and one.expires <= now
        ]:
            self.delete(key)
        if self._count_by_domain[domain] >= _DOMAIN:
            of_domain = [item for item in self._used.items() if item[0][0] == domain]
            self._drop_oldest(of_domain, len(of_domain) - _DOMAIN_KEPT)
        if len(self._cookies) >= _JAR:
            self._drop_oldest([*self._used.items()], len(self._cookies) - _JAR_KEPT)

    def _drop_oldest(self, used: list[tuple[CookieKey, int]], number: int) -> None:
        for key, _ in sorted(used, key=itemgetter(1))[:number]:
            self.delete(key)


class NoCookies(CookieJar):
    """A jar that stays empty."""

    def add(self, cookie: Cookie, now: float | None = None) -> None:
        pass


def parse_cookie(line: str, url: URL, now: float) -> Cookie | None:
    """The cookie of a Set-Cookie line from `url`; None if that may not be set. (RFC 6265bis, 5.6 and 5.7)"""
    if _CONTROL.search(line):
        return None
    pair, _, rest = line.partition(";")
    name, equals, value = (part.strip(" \t") for part in pair.partition("="))
    if not equals or not name or _size(name) + _size(value) > _PAIR:
        return None
    attributes = _attributes(rest)
    host = url.raw_host or ""
    domain = attributes.get("domain", "").lower().removeprefix(".")
    if domain and not _domain_matches(domain, host):
        return None
    host_only = not domain or (domain == host and (_is_address(host) or is_public_suffix(host)))
    path = attributes.get("path", "")
    cookie = Cookie(
        name,
        value,
        domain or host,
        path if path.startswith("/") else _default_path(url.raw_path),
        host_only,
        "secure" in attributes,
        "httponly" in attributes,
        attributes.get("samesite", ""),
        _expires(attributes, now),
    )
    if (cookie.secure and not _is_secure(url)) or not _is_as_promised(cookie, path):
        return None
    return cookie


def _attributes(text: str) -> dict[str, str]:
    """The attributes behind the value, by name; of several with one name the last counts."""
    found: dict[str, str] = {}
    for part in text.split(";", _ATTRIBUTES)[:_ATTRIBUTES]:
        name, _, value = (piece.strip(" \t") for piece in part.partition("="))
        if _size(value) > _ATTRIBUTE:
            continue
        name = name.lower()
        if name == "samesite" and value.lower() not in _SAME_SITE:
            value = ""
        if name == "max-age" and not _MAX_AGE.fullmatch(value):
            continue
        if name == "expires" and parse_date(value) is None:
            continue
        found[name] = value
    return found


def _is_as_promised(cookie: Cookie, path: str) -> bool:
    """Whether it has what its name promises. `path`: as its line says."""
    name = cookie.name.lower()
    if name.startswith("__host-"):
        return cookie.secure and cookie.host_only and path == "/"
    return cookie.secure or not name.startswith("__secure-")


def _expires(attributes: dict[str, str], now: float) -> float | None:
    if "max-age" in attributes:
        text = attributes["max-age"]
        seconds = -1.0 if text.startswith("-") else float(text[:20])  # with more digits it is no other time
        return int(now + min(seconds, _LONGEST)) if seconds > 0 else 0.0
    at = parse_date(attributes["expires"]) if "expires" in attributes else None
    return None if at is None else min(at, int(now + _LONGEST))


def parse_date(text: str) -> float | None:
    """Epoch seconds of a cookie's date, which servers write in many ways. (RFC 6265bis, 5.1.1)"""
    clock = day = month = year = None
    for token in _DATE_DELIMITER.split(text):
        if clock is None and (found := _TIME.match(token)):
            clock = int(found[1]), int(found[2]), int(found[3])
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
    if clock is None or day is None or month is None or year is None:
        return None
    year += 1900 if 70 <= year <= 99 else 2000 if year <= 69 else 0
    try:
        at = datetime(year, month, day, clock[0], clock[1], clock[2], tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp() if year >= 1601 else None


def _is_secure(url: URL) -> bool:
    return url.scheme in ("https", "wss")


def _size(text: str) -> int:
    """In bytes. What is not text is too large: it could not be stored."""
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return _PAIR + 1


def _domain_matches(domain: str, host: str) -> bool:
    return domain == host or (host.endswith(f".{domain}") and not _is_address(host))


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()


def _path_matches(path: str, asked: str) -> bool:
    return asked == path or (asked.startswith(path) and (path.endswith("/") or asked[len(path)] == "/"))


def _default_path(path: str) -> str:
    """Of a cookie without one: the folder of the page."""
    return path[: path.rfind("/")] or "/" if path.startswith("/") else "/"
