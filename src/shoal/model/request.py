"""What a handler or a start list asks for, before admission: a URL and how it is fetched."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, TypeAlias, overload
from urllib.parse import unquote, urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, force_setattr, replace

from shoal.errors import SpiderError
from shoal.limits import REQUEST_NUMBER
from shoal.model.pace import read_pace
from shoal.model.proxy_address import HOW, check_asked

HANDLER_NAME = "shoal_handler"  # the attribute of a function with the name that it is registered under
HANDLER_CODE = "shoal_code"  # the attribute of a function with what it was made from, if that is no Python

Pairs: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]  # of a form or a query


def name_of_handler(handler: object) -> str:
    """The name that a function is registered under."""
    name = getattr(handler, HANDLER_NAME, None)
    if isinstance(name, str):
        return name
    shown = getattr(handler, "__name__", repr(handler))
    raise SpiderError(
        f"{shown} is not a handler: put @spider.handler above it, or give the name of a handler"
    )


class Request(Struct, frozen=True, omit_defaults=True):
    """What a handler or a start list asks for, before admission. `url` may be relative to `base`.

    `params`, `form`, `json`, `auth`, `cookies` and a user in the URL are other ways to write the URL, body and headers:
    they are written there at once, and are None from then on.
    """

    url: str
    handler: Any = ""  # the name of a handler, or its function; "": the spider's first handler
    base: str | None = None
    lane: str | None = None  # None: the handler's lane
    priority: int | None = None  # None: the handler's priority
    depth: int | None = None  # None: one more than the page that asks
    max_attempts: int = 0
    method: str = "GET"  # with a form or JSON, "GET" becomes "POST"
    headers: dict[str, str] | None = None
    body: bytes | None = None
    pool: str | None = None
    meta: dict[str, Any] | None = None
    dedupe: bool = True  # False: fetch even if this URL was asked for before
    anywhere: bool = False  # True: exempt from the host, pattern and depth limits of the crawl's scope
    params: Pairs | None = None  # added to the query of the URL
    form: Pairs | None = None  # the body, as a form sends it
    json: Any = None  # the body, as JSON
    auth: tuple[str, str] | None = None  # user and password (HTTP Basic)
    cookies: dict[str, str] | None = None  # sent with this request, beside those of its session
    session: str | None = None  # whose cookies, proxy and headers it is sent with
    timeout: float | None = None  # seconds in all; None: total_timeout, or what the host needs
    max_body: int | None = None  # bytes; None: the setting
    wait_for: str | None = None  # in a browser: when it is complete; None: as its handler says
    proxy: str | None = None  # the proxy it goes through: an address, or a name of the setting proxies
    country: str | None = None  # that its proxy is to be in; None: as its handler says
    revisit: str | None = None  # when it is visited again: "1h", "auto", "never"; None: as its handler says
    changed_at: float | None = None  # when a sitemap or a feed says that the page has changed (epoch)

    def __post_init__(self) -> None:
        """A value of another type is told here, where the line that gave it is known, and not by the store."""
        handler = self.handler
        if type(handler) is not str and callable(handler):
            handler = name_of_handler(handler)
            force_setattr(self, "handler", handler)
        url, base = self.url, self.base
        if (
            type(url) is str is type(handler)
            and (base is None or type(base) is str)
            and astuple(self)[3:] == _PLAIN
            and "@" not in url
        ):
            return  # a link, as nearly all are
        for name, (kind, wanted) in _REQUEST_TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise SpiderError(f"Request: its {name} is {_shown(value)}; give {wanted}")
            if kind in (int, _NUMBER) and not is_storable(value):
                raise SpiderError(f"Request: its {name} is beyond {REQUEST_NUMBER:,}")
        for name in ("headers", "cookies"):
            for key, value in (getattr(self, name) or {}).items():
                if not isinstance(key, str) or not isinstance(value, str):
                    raise SpiderError(
                        f"Request: its {name} have {_shown(key)}: {_shown(value)}; give texts (str)"
                    )
        for key in self.meta or ():
            if not isinstance(key, str):  # inner tables may have other keys
                raise SpiderError(f"Request: its meta has the key {_shown(key)}; give texts (str)")
        for name in ("timeout", "max_body"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise SpiderError(f"Request: its {name} is {value}; give a number above 0")
        if self.country is not None and not _COUNTRY.fullmatch(self.country):
            raise SpiderError(
                "Request: its country is not one: give two letters, or what your provider calls it"
            )
        if self.revisit is not None:
            try:
                read_pace(self.revisit, 1.0, 1.0)
            except ValueError as error:
                raise SpiderError(f"Request: its revisit cannot be used: {error}") from None
        if self.proxy is not None:
            try:
                check_asked(self.proxy)
            except ValueError as error:
                raise SpiderError(f"Request: its proxy cannot be used: {error}; {HOW}") from None
        self._write()

    def _write(self) -> None:
        """The short forms, as what they stand for."""
        method, headers = self.method, dict(self.headers or {})
        given = {name.lower() for name in headers}

        def add(name: str, value: str) -> None:
            if name.lower() not in given:
                headers[name] = value

        def write(field: str, value: object, instead: str) -> None:
            force_setattr(self, field, value)
            force_setattr(self, instead, None)

        if sum(getattr(self, name) is not None for name in ("body", "form", "json")) > 1:
            raise SpiderError("Request: give one of body, form and json")
        if self.params is not None:
            write("url", _with_query(self.url, urlencode(_pairs("params", self.params))), "params")
        if self.form is not None:
            add("Content-Type", "application/x-www-form-urlencoded")
            write("body", urlencode(_pairs("form", self.form)).encode(), "form")
            method = "POST" if method == "GET" else method
        if self.json is not None:
            add("Content-Type", "application/json")
            write("body", _encoded(self.json), "json")
            method = "POST" if method == "GET" else method
        if self.auth is not None and not (
            len(self.auth) == 2 and all(isinstance(one, str) for one in self.auth)
        ):
            raise SpiderError("Request: its auth is not a pair of texts; give (user, password)")
        user = _USER.match(self.url) if "@" in self.url else None
        if user is not None:
            force_setattr(self, "url", user[1] + self.url[user.end() :])
        auth = self.auth or (tuple(map(unquote, user.group(2, 3))) if user is not None else None)
        if auth is not None:
            add("Authorization", "Basic " + b64encode(":".join(auth).encode()).decode())
            force_setattr(self, "auth", None)
        if self.cookies is not None:
            add("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
            force_setattr(self, "cookies", None)
        force_setattr(self, "method", method)
        force_setattr(self, "headers", headers or None)


_PLAIN = Request.__struct_defaults__[2:]  # without url, handler and base


def links_to(urls: Iterable[str], handler: str, base: str | None) -> list[Request]:
    """`Request(url, handler, base)` for each of them. They are copies of one that was checked: a page has many."""
    plain, found = Request("", handler, base), []
    copied = plain.__copy__  # type: ignore[attr-defined]  # a third of what copy.copy takes
    for url in urls:
        if type(url) is str and "@" not in url:
            link = copied()
            force_setattr(link, "url", url)
        else:
            link = Request(url, handler, base)
        found.append(link)
    return found


class PageLinks(Sequence[Request]):
    """`Request(url, handler, base)` for each link of a page, made when it is looked at: nearly all links are known to
    be admitted, and never are."""

    __slots__ = ("_like", "urls")

    def __init__(self, urls: Sequence[str], handler: str, base: str | None) -> None:
        self.urls = urls
        self._like = Request("", handler, base)

    def __repr__(self) -> str:
        return f"<PageLinks: {len(self.urls)} to {self.handler!r}>"

    @property
    def handler(self) -> str:
        return str(self._like.handler)

    @property
    def base(self) -> str | None:
        return self._like.base

    @property
    def with_users(self) -> bool:
        """Whether there is a user in any of the URLs, which becomes a header of its request."""
        return "@" in "".join(self.urls) and any(map(_USER.match, self.urls))

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[Request]:
        return iter(links_to(self.urls, self.handler, self.base))

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> PageLinks: ...
    def __getitem__(self, place: int | slice) -> Request | PageLinks:
        if isinstance(place, slice):
            return PageLinks(self.urls[place], self.handler, self.base)
        return self.to(self.urls[place])

    def to(self, url: str) -> Request:
        """As theirs, for another URL."""
        return replace(self._like, url=url)


_COUNTRY = re.compile(r"[A-Za-z0-9_-]{1,40}")
_USER = re.compile(r"(https?:[/\\]{2})([^/?#\\@:]*):?([^/?#\\@]*)@", re.IGNORECASE)


def _pairs(name: str, given: Pairs) -> list[tuple[str, str]]:
    """A list as a value stands for several ones; None leaves a name out."""
    pairs = given.items() if isinstance(given, Mapping) else given
    written: list[tuple[str, str]] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise SpiderError(
                f"Request: its {name} has {_shown(pair)}; give a dict, or pairs of name and value"
            )
        key, value = pair
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, bool) or not isinstance(one, str | int | float | NoneType):
                raise SpiderError(f"Request: its {name} has {key!r}: {_shown(one)}; give a text or a number")
            if one is not None:
                written.append((key, str(one)))
    return written


def _with_query(url: str, query: str) -> str:
    head, hash_, fragment = url.partition("#")
    mark = "" if not query or head.endswith(("?", "&")) else "&" if "?" in head else "?"
    return f"{head}{mark}{query}{hash_}{fragment}"


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SpiderError(f"Request: its json cannot be written: {error}") from None


def is_storable(number: int | None) -> bool:
    """Whether every store can keep it: a larger one would end the crawl when it is written."""
    return number is None or abs(number) <= REQUEST_NUMBER


_NUMBER = (int, NoneType)
_PAIRS = (Mapping, list, tuple, NoneType)
_REQUEST_TYPES: dict[str, tuple[Any, str]] = {
    "url": (str, "a text (str)"),
    "handler": (str, "the name of a handler, or a function with @spider.handler above it"),
    "base": ((str, NoneType), "a text (str)"),
    "lane": ((str, NoneType), "a text (str)"),
    "priority": (_NUMBER, "a whole number"),
    "depth": (_NUMBER, "a whole number"),
    "max_attempts": (int, "a whole number"),
    "method": (str, "a text (str)"),
    "headers": ((dict, NoneType), "a dict of texts"),
    "body": ((bytes, NoneType), "bytes, as in text.encode()"),
    "pool": ((str, NoneType), "a text (str)"),
    "meta": ((dict, NoneType), "a dict"),
    "dedupe": (bool, "True or False"),
    "anywhere": (bool, "True or False"),
    "params": (_PAIRS, "a dict, or pairs of name and value"),
    "form": (_PAIRS, "a dict, or pairs of name and value"),
    "auth": ((tuple, NoneType), "a pair of user and password"),
    "cookies": ((dict, NoneType), "a dict of texts"),
    "session": ((str, NoneType), "a text (str)"),
    "timeout": ((int, float, NoneType), "seconds"),
    "max_body": (_NUMBER, "a whole number"),
    "wait_for": ((str, NoneType), "a text (str)"),
    "proxy": ((str, NoneType), "an address such as http://host:port, or a name"),
    "country": ((str, NoneType), "a text (str)"),
    "revisit": ((str, NoneType), "a time such as 1h, auto, or never"),
    "changed_at": ((int, float, NoneType), "seconds since the epoch"),
}


def _shown(value: object) -> str:
    """Its type, and of short and plain values what they are; never a header's value."""
    return (
        f"{value!r} ({type(value).__name__})"
        if isinstance(value, int | float)
        else f"a {type(value).__name__}"
    )
