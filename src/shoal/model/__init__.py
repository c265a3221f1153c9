"""The values that travel along the path of a URL.

    Task ──claim──▶ Lease ──fetch──▶ Outcome ──classify──▶ Verdict ──┐
                                                                     ├──▶ Settlement ──settle──▶ frontier
    handler ──▶ items, new Tasks ────────────────────────────────────┘

All of them are frozen; a change is a new value. Times are seconds since the epoch in the frontier's time, durations are
seconds. Worker clocks are never compared with the frontier's: a worker gives delays.
"""

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
from shoal.limits import HISTORY, REQUEST_NUMBER
from shoal.model.pace import read_pace
from shoal.model.page_record import PageRecord
from shoal.model.proxy_address import HOW, check_asked
from shoal.text import without_secrets

DEFAULT_LANE = "normal"
HANDLER_NAME = "shoal_handler"  # the attribute of a function with the name that it is registered under
HANDLER_CODE = "shoal_code"  # the attribute of a function with what it was made from, if that is no Python
COOKIE_MARK = "\x01"  # begins what a task keeps of a redirect's cookie that is in the store; no header has it
REJECTED = "rejected"  # the kind of a dead letter that is an item
DOUBT = "proxy_doubt"  # the kind of a failure that is the fault of a proxy or of the host

Pairs: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]  # of a form or a query


class Failure(Struct, frozen=True, omit_defaults=True):
    """One attempt that gave no page: what happened, when, and how long it took."""

    kind: str  # a key of policy/outcomes.py: "timeout", "connect", "http_503", "handler" …
    detail: str = ""  # one line for a person; never contains credentials
    at: float = 0.0
    status: int | None = None
    elapsed: float = 0.0
    attempt: int = 0  # 0: one that did not count
    via: str = ""  # the proxy it went through, as "pool/host:port"

    def __post_init__(self) -> None:
        # Here, for everyone who makes a Failure: a detail may quote a server, such as a Location with a password.
        if self.detail:
            force_setattr(self, "detail", without_secrets(self.detail))


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


class Refused(Struct, frozen=True):
    """A request that was not admitted, and why: "scheme", "scope", "depth", "trap: …", "not a URL" …"""

    url: str
    reason: str


class FetchOptions(Struct, frozen=True, omit_defaults=True):
    """How one request is fetched, where that is not as the settings say. See `Request`."""

    session: str | None = None
    timeout: float | None = None
    max_body: int | None = None
    wait_for: str | None = None
    revisit: str | None = None  # when the page is visited again
    proxy: str | None = None  # it may have a password
    referer: str | None = None  # the header, as `admit/referrer.py` stores it
    country: str | None = None
    cookies_at: float = 0.0  # cookies that are older than this (the frontier's time) must be read again

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        shown = [f"{name}={value!r}" for name, value in given.items() if value]
        return without_secrets(f"FetchOptions({', '.join(shown)})")


USUAL_FETCH = FetchOptions()

_ITEMS_OF = "items of "


def items_of(host: str) -> str:
    """The host key of tasks that are items of the host's pages. Nothing is sent for them, so they do not wait for the
    host. No host has such a name: it has blanks."""
    return _ITEMS_OF + host


def page_host(host: str) -> str:
    """The host of the pages, if the host key is that of items."""
    return host.removeprefix(_ITEMS_OF)


def is_items_host(host: str) -> bool:
    return host.startswith(_ITEMS_OF)


_WEBHOOK = "webhook "


def webhook_host(number: int) -> str:
    """The host key of what is delivered to that webhook, from 1. It is no host of the crawl, like those of items."""
    return items_of(f"{_WEBHOOK}{number}")


def is_webhook_host(host: str) -> bool:
    return host.startswith(_ITEMS_OF + _WEBHOOK)


class ItemNote(Struct, frozen=True, omit_defaults=True):
    """What is known about an item that was rejected, besides what the task has: page, handler, meta, reason."""

    table: str = ""  # the kind of item that it was to be
    at: float = 0.0  # when its page was asked for, in the frontier's time
    is_json: bool = True  # False: it cannot be read back, only looked at
    hooked: bool = False  # item hooks have seen it
    handler: str = ""  # the name of the handler that yielded it; the task's may be "", for the first one


class Task(Struct, frozen=True, omit_defaults=True):
    """One URL to fetch for one handler. `url` is sent as it stands, `host` is its politeness key."""

    url: str
    handler: str = ""
    id: int = 0  # given by the frontier
    job: str = ""
    host: str = ""
    lane: str = DEFAULT_LANE
    priority: int = 0  # higher first, within a lane and host
    depth: int = 0
    attempt: int = 0  # which attempt this is; counted at claim, so 1 while first leased
    max_attempts: int = 0  # 0: the job's default
    method: str = "GET"
    headers: dict[str, str] | None = None
    body: bytes | None = None
    pool: str | None = None  # proxy pool
    options: FetchOptions = USUAL_FETCH
    parent: int = 0  # id of the task whose page yielded this one
    created_at: float = 0.0
    meta: dict[str, Any] | None = None
    hops: tuple[str, ...] = ()  # the URLs that redirected here, first one first
    renewed: int = 0  # how many hops there were when a redirect last brought new cookies, or another method
    cookies: tuple[
        str, ...
    ] = ()  # Set-Cookie lines of the redirect that led here, or marks that stand for them
    fingerprint: int | None = None  # dedupe key (63 bits) of the canonical URL; None: never a duplicate
    trail: tuple[int, ...] = ()  # fingerprints of the hops
    variant: int | None = (
        None  # dedupe key of page, handler and meta, if the last two are unusual; not stored
    )
    history: tuple[Failure, ...] = ()  # earlier attempts that failed
    typed: bool = False  # a person wrote this URL: its host's address may be a private one
    item: ItemNote | None = None  # it is an item of that page, and `body` is the item: nothing is fetched
    record: PageRecord | None = None  # of earlier visits, if the page is visited again and again

    @property
    def session(self) -> str | None:
        return self.options.session

    @property
    def origin(self) -> str:
        """The URL of the request, before any redirect."""
        return self.hops[0] if self.hops else self.url

    @property
    def pages(self) -> tuple[int, ...]:
        """The fingerprints of all pages that the task has visited."""
        return self.trail if self.fingerprint is None else (*self.trail, self.fingerprint)

    @property
    def goes_round(self) -> bool:
        """Whether redirects led back to a URL that was fetched before, with the same cookies."""
        return self.url in self.hops[self.renewed :]

    def failed(self, failure: Failure) -> Task:
        """The task with one more failure in its history."""
        return replace(self, history=(*self.history, failure)[-HISTORY:])


class Lease(Struct, frozen=True):
    """A claimed task. `token` is the fencing token: it is never given twice, and only its holder may settle."""

    token: int
    task: Task
    deadline: float
    host_version: int  # of the HostRecord at claim; a worker re-reads the record when it changed
    interval: float = 0.0  # the host's seconds between requests at claim
    ahead: bool = False  # it has no turn of its host: nothing may be sent for it (see `Claim.ahead`)


class Response(Struct, frozen=True):
    """What a server answered. The body is decoded from its transfer and content encodings."""

    url: str
    status: int
    headers: Mapping[str, str]  # case-insensitive for look-ups
    body: bytes
    elapsed: float = 0.0  # request sent to body complete
    first_byte: float = 0.0
    wire_bytes: int = 0
    cookies: tuple[str, ...] = ()  # Set-Cookie lines, for a redirect that needs them
    via: str = ""  # the proxy it came through
    cached: bool = False  # it is from an archive, and nothing was sent


Outcome: TypeAlias = Response | Failure
"""What a fetch gave: an answer, or why there is none."""


class Done(Struct, frozen=True, tag="done"):
    """The page was fetched and handled."""


class Retry(Struct, frozen=True, tag="retry"):
    """Try again, `after` seconds from now, unless attempts are used up (then the frontier buries it)."""

    after: float
    failure: Failure
    lane: str | None = None  # from then on in this lane
    pool: str | None = None  # … or through this proxy pool
    counts: bool = True  # False: no request reached the host, so the attempt does not count

    def task(self, task: Task) -> Task:
        """The task for the next attempt. Of attempts that do not count, the history keeps only the last, and those in
        doubt, whose proxies are avoided."""
        if not self.counts:
            history = task.history
            if history and not history[-1].attempt and history[-1].kind != DOUBT:
                history = history[:-1]
            task = replace(task, attempt=task.attempt - 1, history=history)
        return replace(task.failed(self.failure), lane=self.lane or task.lane, pool=self.pool or task.pool)


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """The last answer of a page that died, to understand it without fetching it again."""

    status: int | None = None
    headers: dict[str, str] | None = None
    body: bytes = b""
    traceback: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "traceback", without_secrets(self.traceback))


class Dead(Struct, frozen=True, tag="dead"):
    """Given up: the task goes to the dead letters, and a person may replay it."""

    failure: Failure
    snapshot: Snapshot | None = None


class Moved(Struct, frozen=True, tag="moved"):
    """A redirect: the task goes on at another URL, through the queue of that URL's host. If there is a task for that
    page with the same handler and meta, this one is merged into it."""

    to: Task

    def returns_to(self, task: Task) -> bool:
        """Whether the redirect leads back to a page that the task has visited, as with a cookie wall, or a server that
        insists on its own spelling. Such a target is not a duplicate, though seen. Nor is one of a page that is
        visited again and again, and leads elsewhere each time."""
        to = self.to
        if to.record is not None and to.record.start and to.record.visits:
            return True
        return to.fingerprint in task.pages or to.url == task.url or to.url in task.hops


class Revisit(Struct, frozen=True, tag="revisit"):
    """The visit is over, and the page is visited again `after` seconds from now, with a fresh set of attempts."""

    after: float
    record: PageRecord
    failure: Failure | None = None  # why the visit came to nothing; for the engine only

    def task(self, task: Task) -> Task:
        """The task for the next visit. It begins where the last one ended, unless its record says otherwise. It may get
        another id: a request without a fingerprint is known by its first one."""
        record = self.record
        if task.fingerprint is None and not record.first:
            record = replace(record, first=task.id)
        return replace(task, attempt=0, history=(), hops=(), renewed=0, cookies=(), trail=(), record=record)


Verdict: TypeAlias = Done | Revisit | Retry | Dead | Moved


ARCHIVE = "_archive"  # the table of rows that are records of the archive
CHANGES = "changes"  # the table of rows that say what has changed since the last visit of a page


class Row(Struct, frozen=True):
    """One encoded item. A row with a key is written once per job, whichever page yields it first."""

    data: bytes
    key: int | None = None  # 63-bit hash of handler and key value
    # -- for sinks that replace rows
    table: str = ""  # what kind of item it is
    by: tuple[str, ...] = ()  # the fields of its key
    ident: str = ""  # … and their values
    at: float = 0.0  # when its page was asked for, in the frontier's time
    meta: int = 0  # how many bytes of it, before the final "}\n", the setting row_meta has added
    # -- of a page that is visited again
    place: int | None = None  # among all items of its page, if only some of them are written
    touch: bool = False  # it was there before, and is unchanged: only the time when it was checked moves


class Settlement(Struct, frozen=True):
    """The end of a lease. Verdict, found tasks, rows and counters take effect together or not at all."""

    lease: Lease
    verdict: Verdict
    found: tuple[Task, ...] = ()
    rows: tuple[Row, ...] = ()  # items for the journal
    snapshot: Snapshot | None = None  # kept if a Retry turns out to have been the last attempt
    links_cut: int = 0  # how many links of the page were too many
    counts: tuple[tuple[str, int], ...] = ()  # what to add to the job's own counters (see counts.py)
    rejected: tuple[Task, ...] = ()  # items that are not written; the reason is the last of their history
    unsent: bool = (
        False  # nothing was sent for the page: its host gets the turn back, unless others went since
    )
    archived: tuple[
        Row, ...
    ] = ()  # records, changes and touches for the journal, after the rows; not counted
    # -- for the engine only
    held: str = ""  # why what the page yields is not written: it lacks something
    links: bytes = b""  # the digest of its requests
    # -- of the page that was handled, for people to look at
    status: int = 0
    elapsed: float = 0.0  # seconds that its request took
    size: int = 0  # bytes of its body


class DeadLetter(Struct, frozen=True):
    """A task that was given up, with everything known about why."""

    task: Task  # its `history` holds every attempt, last one last
    kind: str
    at: float
    snapshot: Snapshot | None = None
