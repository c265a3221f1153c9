"""The values that travel along the path of a URL.

    Task ──claim──▶ Lease ──fetch──▶ Outcome ──classify──▶ Verdict ──┐
                                                                     ├──▶ Settlement ──settle──▶ frontier
    handler ──▶ items, new Tasks ────────────────────────────────────┘

All of them are frozen; a change is a new value. Times are seconds since the epoch in the frontier's time, durations are
seconds. Worker clocks are never compared with the frontier's: a worker gives delays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from shoal.limits import HISTORY
from shoal.model.page_record import PageRecord
from shoal.text import without_secrets

DEFAULT_LANE = "normal"
COOKIE_MARK = "\x01"  # begins what a task keeps of a redirect's cookie that is in the store; no header has it
REJECTED = "rejected"  # the kind of a dead letter that is an item
DOUBT = "proxy_doubt"  # the kind of a failure that is the fault of a proxy or of the host


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
