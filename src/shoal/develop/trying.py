"""Runs one handler on one page, as a crawl would, and keeps all that comes of it. Nothing is stored."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from inspect import isasyncgenfunction, isgeneratorfunction
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from shoal.admit.referrer import Referrer
from shoal.clock import PageClock
from shoal.develop import DEFAULT_CACHE
from shoal.develop.inner_pages import InnerPages
from shoal.develop.page_source import Found
from shoal.engine.handling import Handling
from shoal.engine.page_hooks import PageHooks
from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.tally import Tally
from shoal.errors import PageMissing
from shoal.fetch.challenge.verdict import Challenges
from shoal.html.page_links import join
from shoal.model import Dead, Lease, Refused, Retry, Row, Settlement, Task
from shoal.model.built_in import is_built_in
from shoal.model.request import Request
from shoal.runtime.admission import make_admission
from shoal.settings import BROWSER, Settings
from shoal.spider.handlers import Yielded, collect, is_item
from shoal.spider.page import Page
from shoal.spider.spider import Handler, Spider
from shoal.spider.state import MemoryState, state_of
from shoal.telemetry.logging import is_ours
from shoal.text import shown_url

Verdict: TypeAlias = Literal["admitted", "duplicate", "refused"]

_FOR_EVER = 86_400.0  # seconds: whoever tries a handler may be in a debugger


class TriedRequest(Struct, frozen=True):
    """A request that the handler yielded, and what admission says of it."""

    request: Request
    url: str  # as it would be sent
    handler: str  # its name
    verdict: Verdict
    why: str = ""  # it is not admitted
    task: Task | None = None


class RejectedItem(Struct, frozen=True):
    item: Any
    reason: str
    kind: str = ""  # what kind of item it was to be


_LOG_IN = f"shoal crawl SPIDER --cache {DEFAULT_CACHE} --max-pages 5 --fresh keeps pages to try"


class TriedError(Struct, frozen=True):
    """Why the handler did not finish."""

    kind: str  # as in a dead letter: "handler", "junk", "hook", "retry_asked" …
    detail: str
    traceback: str = ""


class Tried(Struct, frozen=True, kw_only=True):
    """What came of a handler on a page."""

    found: Found
    handler: str
    items: list[object]  # as they were yielded; if the handler failed, those before that
    rows: list[tuple[str, dict[str, Any]]]  # as they would be written: kind of item, fields
    rejected: list[RejectedItem]
    requests: list[TriedRequest]
    counts: dict[str, int]
    left_out: dict[str, int]  # because of settings: links beyond max_links, items of noindex pages …
    repeated: int  # rows whose key another row of the page has
    fetched: list[tuple[str, str]]  # requests inside the handler: URL, and where the page was found
    log: list[logging.LogRecord]  # of the spider's code
    seconds: float  # that the handler took
    error: TriedError | None
    challenge: str = ""  # for what a crawl would take the page, such as a login form, and what it would do

    @property
    def is_empty(self) -> bool:
        """Whether nothing came of it that a crawl could use."""
        return not self.rows and not self.requests


def check_is_page(found: Found) -> None:
    """Raises if a crawl would give that answer to no handler."""
    if found.kind != "ok":
        status = found.response.status
        raise PageMissing(
            found.response.url,
            f"the site answers with status {status}, which goes to no handler; handle_status = [{status}] changes that",
            kind=found.kind,
        )


def wants_a_browser(tried: Tried) -> bool:
    """Whether the handler failed because its page is from the cache, and not open in a browser."""
    error, found = tried.error, tried.found
    if error is None or found.task.lane != BROWSER or found.where not in ("cache", "archive"):
        return False
    return "needs a browser" in error.detail


async def run_handler(
    spider: Spider,
    found: Found,
    handler: str = "",
    *,
    settings: Settings,
    cache: Path | None = None,
    offline: bool = False,
) -> Tried:
    """Runs the handler of that name, by default that of the page, or the spider's first. `cache` and `offline` are for
    requests inside it."""
    noted = found.task.handler if found.task.handler in spider.handlers else ""
    chosen = spider.handler_named(handler or noted)
    attempt = _Attempt(spider, replace(settings, handler_timeout=_FOR_EVER), found, chosen, cache, offline)
    process = ProcessHooks()
    hooks = process.of(spider, settings)
    with state_of(MemoryState()), _listening() as log:
        await process.start(hooks, settings)
        try:
            settlement = await attempt.run(PageHooks(hooks, spider, settings, attempt.clock))
        finally:
            await process.close(failing=True)
    return attempt.result(settlement, log)


class _Attempt:
    def __init__(
        self,
        spider: Spider,
        settings: Settings,
        found: Found,
        handler: Handler,
        cache: Path | None,
        offline: bool,
    ) -> None:
        self._spider = spider
        self._settings = settings
        self._found = found
        self._handler = handler
        self.clock = PageClock()
        self.clock.at = found.at + found.response.elapsed
        self._tally = Tally()
        self._links = _Links(spider, settings)
        # The host of the page was allowed, or it would not be here.
        self._inner = InnerPages(spider, settings, cache, offline, [found.response.url])
        self._yielded = Yielded()
        self._before: list[object] = []  # what a generator yields, until it fails
        self._seconds = 0.0

    async def run(self, hooks: PageHooks) -> Settlement:
        handling = Handling(
            self._spider,
            self._settings,
            links=self._links,
            tally=self._tally,
            clock=self.clock,
            rng=random.Random(0),
            hooks=hooks,
            inner=self._inner,
            downloads=self._inner,
            collecting=self._collect,
        )
        task = replace(
            self._found.task, job=self._spider.name, handler=self._handler.name, attempt=1, max_attempts=1
        )
        lease = Lease(0, task, 0.0, 0)
        return await handling.handle(
            lease, self._found.response, None, self._found.at, self._found.record or None
        )

    async def _collect(self, handler: Handler, page: Page, **limits: Any) -> Yielded:
        watched = replace(handler, function=_recorded(handler.function, self._before))
        started = time.perf_counter()
        try:
            self._yielded = await collect(watched, page, **limits)
        except BaseException:
            self._yielded.items = [value for value in self._before if is_item(value)]
            raise
        finally:
            self._seconds = time.perf_counter() - started
        return Yielded(list(self._yielded.items), list(self._yielded.requests))

    def result(self, settlement: Settlement, log: list[logging.LogRecord]) -> Tried:
        keys = [row.key for row in settlement.rows if row.key is not None]
        return Tried(
            found=self._found,
            handler=self._handler.name,
            items=self._yielded.items,
            rows=[(row.table, _decoded(row)) for row in settlement.rows],
            rejected=[_rejected(task) for task in settlement.rejected],
            requests=self._links.told(self._yielded.requests),
            counts=dict(settlement.counts),
            left_out=self._tally.report().cut,
            repeated=len(keys) - len(set(keys)),
            fetched=self._inner.fetched,
            log=log,
            seconds=self._seconds,
            error=_error(settlement),
            challenge=_challenge(self._found, self._settings, self._spider),
        )


def _challenge(found: Found, settings: Settings, spider: Spider) -> str:
    browser = found.task.lane == BROWSER
    met = Challenges(settings, browser=not browser).look(found.response, asked=found.task.origin)
    if met is None:
        return ""
    if met.kind == "login_wall" and spider.logs_in is not None:
        return f"{met}; a crawl logs in, this command does not: {_LOG_IN}"
    if met.kind == "empty_shell":
        return f"{met}; a crawl opens it in a browser, if there is one, and so does --browser"
    return f"{met}; a crawl gives it to no handler, unless `challenges` leaves {met.kind} out"


def _recorded(function: Callable[..., Any], into: list[object]) -> Callable[..., Any]:
    """The function, if it is a generator with a list of what it has yielded so far."""

    def plain(page: Page) -> Iterator[object]:
        for value in function(page):
            into.append(value)
            yield value

    async def waiting(page: Page) -> AsyncIterator[object]:
        async with aclosing(function(page)) as values:
            async for value in values:
                into.append(value)
                yield value

    return waiting if isasyncgenfunction(function) else plain if isgeneratorfunction(function) else function


class _Links:
    """Admission of what the handler yields, which remembers each answer."""

    def __init__(self, spider: Spider, settings: Settings) -> None:
        self._spider = spider
        self._settings = settings
        self._admission = make_admission(spider, settings)
        self._answers: dict[int, TriedRequest] = {}  # by the identity of the request
        self._page: Task | None = None

    def admit(
        self, lease: Lease, requests: Sequence[Request], host: object, referrer: Referrer | None = None
    ) -> tuple[Task, ...]:
        page = self._page = lease.task
        if (
            not self._spider.start_urls_known()
        ):  # they are in a file or a function: take the page for one of them
            self._admission.welcome(page.host)
        seen = {_identity(page)}
        most = len(requests) if is_built_in(page.handler) else self._settings.max_links
        for request in requests[:most]:
            answer = self._admission.admit(request, page, referrer=referrer)
            self._answers[id(request)] = self._told(request, answer, seen)
        for request in requests[most:]:
            self._answers[id(request)] = self._refused(request, "max_links")
        return ()

    async def admit_listed(self, lease: Lease, requests: Sequence[Request], host: object) -> tuple[Task, ...]:
        return self.admit(lease, requests, host)

    def told(self, requests: Sequence[Request]) -> list[TriedRequest]:
        """In the order in which they were yielded. Those that came to no admission were left out because the page asks
        for it."""
        if self._page is None:  # the handler failed
            return []
        return [self._answers.get(id(request)) or self._refused(request, "nofollow") for request in requests]

    def _told(self, request: Request, answer: Task | Refused, seen: set[object]) -> TriedRequest:
        if isinstance(answer, Refused):
            return self._refused(request, answer.reason)
        handler = self._spider.handler_named(answer.handler).name
        if answer.fingerprint is None:
            return TriedRequest(request, answer.url, handler, "admitted", task=answer)
        identity = _identity(answer)
        if identity in seen:
            why = "the page itself" if identity == _identity(self._page) else "above"
            return TriedRequest(request, answer.url, handler, "duplicate", why, answer)
        seen.add(identity)
        return TriedRequest(request, answer.url, handler, "admitted", task=answer)

    def _refused(self, request: Request, why: str) -> TriedRequest:
        assert self._page is not None
        url = join(request.base or self._page.url, request.url) or request.url
        return TriedRequest(request, url, self._spider.handler_named(request.handler).name, "refused", why)


def _identity(task: Task | None) -> object:
    return None if task is None else (task.fingerprint, task.variant)


@contextmanager
def _listening() -> Iterator[list[logging.LogRecord]]:
    """What the spider's code logs meanwhile. That a handler failed is part of the result, and needs no line."""
    records: list[logging.LogRecord] = []
    ours = logging.getLogger("shoal")

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not is_ours(record):
                records.append(record)

    def is_news(record: logging.LogRecord) -> bool:
        return getattr(record, "event", "") not in ("handler_failed", "hook_failed")

    listener = Listener()
    logging.getLogger().addHandler(listener)
    ours.addFilter(is_news)
    try:
        yield records
    finally:
        logging.getLogger().removeHandler(listener)
        ours.removeFilter(is_news)


def _decoded(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(row.data)
    return fields


def _rejected(task: Task) -> RejectedItem:
    note = task.item
    body = task.body or b"null"
    item = msgspec.json.decode(body) if note is not None and note.is_json else body.decode("utf-8", "replace")
    reason = task.history[-1].detail if task.history else ""
    return RejectedItem(item, reason, note.table if note is not None else "")


def _error(settlement: Settlement) -> TriedError | None:
    verdict = settlement.verdict
    if not isinstance(verdict, Dead | Retry):
        return None
    snapshot = verdict.snapshot if isinstance(verdict, Dead) else settlement.snapshot
    failure = verdict.failure
    return TriedError(failure.kind, failure.detail, snapshot.traceback if snapshot is not None else "")


def as_dict(tried: Tried) -> dict[str, Any]:
    """For `--json`."""
    found = tried.found
    return {
        "url": found.response.url,
        "status": found.response.status,
        "from": found.where,
        "fetched_at": found.at,
        "handler": tried.handler,
        "seconds": tried.seconds,
        "rows": [{"item": kind, "row": row} for kind, row in tried.rows],
        "rejected": [{"item": one.item, "reason": one.reason} for one in tried.rejected],
        "requests": [
            {
                "url": shown_url(one.url),
                "method": one.request.method,
                "handler": one.handler,
                "verdict": one.verdict,
                "why": one.why,
            }
            for one in tried.requests
        ],
        "fetched": [{"url": shown_url(url), "from": where} for url, where in tried.fetched],
        "counts": tried.counts,
        "left_out": tried.left_out,
        "challenge": tried.challenge,
        "error": None if tried.error is None else asdict(tried.error),
    }
