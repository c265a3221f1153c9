"""Runs the handler on a page, and turns what it yields into rows and tasks."""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec.structs import replace

from shoal.admit.referrer import NEVER, Referrer, policy_in
from shoal.admit.sizes import OversizeError, stored_size
from shoal.clock import Clock
from shoal.engine.etiquette import RobotsDirectives
from shoal.engine.page_fetches import Downloader, PageFetcher, PageFetches
from shoal.engine.page_hooks import PageHooks
from shoal.engine.quality import SECOND_LOOK, Held, Quality, wait_for_second_look
from shoal.engine.rejecting import ItemWriter
from shoal.engine.tally import Tally
from shoal.errors import HandlerMissing, SinkError, SpiderError, StoreError
from shoal.events import ExcInfo, event
from shoal.fetch.slots import take_slot
from shoal.frontier.verdicts import is_last_attempt
from shoal.html.page_links import meta_referrer
from shoal.limits import COUNTER_NAMES, PAGE_REQUESTS, REQUEST_WORD, TRACEBACK
from shoal.model import Dead, Done, Failure, Lease, Response, Retry, Row, Settlement, Snapshot, Task
from shoal.model.built_in import is_built_in
from shoal.model.counts import PAGES_DROPPED, Counts, with_reason
from shoal.model.request import PageLinks, Request
from shoal.policy.lanes import no_such_lane
from shoal.policy.outcomes import rule_for, snapshot_of
from shoal.policy.retry import backoff
from shoal.settings import Settings
from shoal.sink.row_meta import MetaWriter, fields_of
from shoal.spider import debugging, handlers
from shoal.spider.handlers import HandlerTimeout, JunkError, Yielded, collect
from shoal.spider.hook_calls import HookFailed
from shoal.spider.hooks import NO_HOOKS
from shoal.spider.inner import FetchFailed, fetch_failed_in
from shoal.spider.page import Page
from shoal.spider.rendering import TabLost
from shoal.spider.spider import (
    Handler,
    Spider,
    place_of_code,
    place_of_error,
    place_of_users,
    users_error,
    users_traceback,
)
from shoal.text import error_line, one_line, shown_url

if TYPE_CHECKING:
    from shoal.hosts.cache import HostView

_SHOWN = 300  # characters of a URL in a detail
_TOLD = 100  # tracebacks, and faults of pages that are junk, that are logged
_VARIES = re.compile(r"https?:\S+|\d[\d,.]*")  # what differs from page to page


class LinkAdmission(Protocol):
    def admit(
        self, lease: Lease, requests: Sequence[Request], host: HostView | None, referrer: Referrer | None
    ) -> tuple[Task, ...]:
        """The tasks of a page's requests."""
        ...

    async def admit_listed(
        self, lease: Lease, requests: Sequence[Request], host: HostView | None
    ) -> tuple[Task, ...]:
        """The tasks of what a sitemap or a feed lists: all of it."""
        ...


class Handling:
    def __init__(
        self,
        spider: Spider,
        settings: Settings,
        *,
        links: LinkAdmission | None,
        tally: Tally,
        clock: Clock,
        rng: random.Random,
        hooks: PageHooks | None = None,
        inner: PageFetcher | None = None,
        downloads: Downloader | None = None,
        collecting: Callable[..., Awaitable[Yielded]] = collect,
        is_standing: bool = False,
        quality: Quality | None = None,
    ) -> None:
        self._spider = spider
        self._settings = settings
        self._links = links  # None: requests are not followed
        self._tally = tally
        self._clock = clock
        self._rng = rng
        self.hooks = hooks or PageHooks(NO_HOOKS, spider, settings, clock)
        self._inner = inner
        self._downloads = downloads
        self._collect = collecting
        self._is_standing = is_standing  # pages are visited again, and their links compared
        self._quality = quality
        self._lanes = settings.lane_weights
        self._directives = RobotsDirectives(settings)
        self._counted: set[str] = set()  # names
        self._told: set[str] = set()  # where errors were raised whose tracebacks were logged
        self._faults: set[str] = set()  # what was told of handlers whose pages are junk
        self._items = ItemWriter(
            self.hooks, clock, MetaWriter(fields_of(settings, archive=bool(settings.archive)))
        )

    def check_handler(self, task: Task) -> None:
        """Called before anything is fetched: a page without a handler is neither done nor dead."""
        handlers = self._spider.handlers
        if not self._spider.has_handler(task.handler):
            raise HandlerMissing(
                f"pages wait for handler {task.handler!r}, which spider {self._spider.name!r} does not have"
                f" (it has {', '.join(handlers)}): give it that name again, or cancel the job"
            )

    async def prepare(self, lease: Lease) -> Task | Settlement:
        """The task as `before_request` hooks want it to be sent, or what they say is to become of it."""
        try:
            return await self.hooks.before(lease.task)
        except (handlers.Retry, handlers.Drop, HookFailed) as said:
            return self._said(lease, None, said, Counts())

    async def handle(
        self,
        lease: Lease,
        response: Response,
        host: HostView | None,
        asked_at: float,
        record: str | None = None,
    ) -> Settlement:
        """`record`: the id of the response in the archive."""
        handler = self._spider.handler_named(lease.task.handler)
        inner = self._fetches(lease, handler)
        try:
            settlement = await self._run(lease, response, host, asked_at, handler, inner, record)
        finally:
            if inner is not None:
                inner.end()
        if inner is not None and inner.records:
            settlement = replace(settlement, archived=tuple(inner.records))
        return settlement

    async def _run(
        self,
        lease: Lease,
        response: Response,
        host: HostView | None,
        asked_at: float,
        handler: Handler,
        inner: PageFetches | None,
        record: str | None,
    ) -> Settlement:
        task = lease.task
        await take_slot()
        try:
            page = Page(task, response, handler.name, self._clock.time(), inner=inner)
            if inner is not None:
                inner.referrer = self._referrer(page)
            if self.hooks.after_response:
                page = await self.hooks.after(page)
            started = self._clock.monotonic()
            yielded = await self._collect(
                handler,
                page,
                deadline=started + self._settings.handler_timeout,
                monotonic=self._clock.monotonic,
            )
            is_source = is_built_in(handler.name)  # made for robots, whatever it says of itself
            if not is_source:
                yielded = self._directives.apply(page, yielded, self._tally)
            if self._links is not None:
                self._check(handler, yielded.requests)
            items: Sequence[object] = yielded.items
            if handler.files and items:
                from shoal.engine.item_files import with_files  # few handlers have files

                last = is_last_attempt(task, self._settings.max_attempts)
                items = await with_files(items, handler, page, self._tally, last=last)
            rows, rejected = await self._items.write(page, handler, items, asked_at, record)
            held = self._held(task, handler, rows, response)
            if held is not None and not held.visited:
                if not held.sure:
                    return self._second_look(lease, held)
                rejected = (*rejected, *self._items.held(task, handler, rows, held.reason))
        except (StoreError, SinkError):
            raise  # of `spider.state`, `page.fetch` or `page.download`: no fault of the page
        except HandlerTimeout as error:
            return self._bury(lease, response, "handler_timeout", str(error))
        except (JunkError, SpiderError) as error:
            return self._junk(lease, response, handler, error)
        except (handlers.Retry, handlers.Drop, HookFailed) as said:
            return self._said(lease, response, said, page._counts)
        except TabLost as error:
            lost = self._failure(task, "browser_crash", str(error))
            return Settlement(lease, Retry(self._settings.retry_base, lost))
        except (Exception, SystemExit) as error:  # sys.exit() in a handler ends no crawl
            debugging.check_quit()
            if (failed := fetch_failed_in(error)) is not None:
                return self._without_inner(lease, response, failed)
            self._tell_failure(task, handler, error)
            return self._bury(lease, response, "handler", error_line(error), traceback.format_exc())
        cut = 0 if is_source else self._cut(task, yielded.requests)
        found: tuple[Task, ...] = ()
        if self._links is not None and is_source:
            found = await self._links.admit_listed(lease, yielded.requests, host)
        elif self._links is not None:
            found = self._links.admit(lease, yielded.requests, host, self._referrer(page))
        counts = self._counts(task, page._counts)
        links = _links_digest(yielded.requests) if self._is_standing and not rows else b""
        return Settlement(
            lease,
            Done(),
            found,
            rows if held is None else (),
            links_cut=cut,
            counts=counts,
            rejected=rejected,
            links=links,
            held=held.reason if held is not None and held.visited else "",
        )

    def _held(self, task: Task, handler: Handler, rows: Sequence[Row], response: Response) -> Held | None:
        """Why the rows are not to be written."""
        if self._quality is None or response.cached:
            return None
        return self._quality.check(task, handler, rows)

    def unchanged(self, task: Task) -> None:
        """A page is as it was at its last visit, so its handler does not run."""
        if self._quality is not None and not is_built_in(task.handler):
            self._quality.unchanged(task, self._spider.handler_named(task.handler))

    def _second_look(self, lease: Lease, held: Held) -> Settlement:
        """What the page yields is unusual. If that is so of others, too, there is an alarm by then."""
        failure = Failure(SECOND_LOOK, one_line(held.reason), at=self._clock.time())
        return Settlement(lease, Retry(wait_for_second_look(lease), failure, counts=False))

    def _fetches(self, lease: Lease, handler: Handler) -> PageFetches | None:
        """What the page of that lease sends its requests with."""
        if self._inner is None:
            return None
        return PageFetches(self._inner, lease, handler.name, self._downloads)

    async def replay(self, lease: Lease) -> Settlement:
        """An item that was rejected, and is tried again. Nothing is fetched but what hooks ask for."""
        task = lease.task
        assert task.item is not None
        await take_slot()
        handler = self._spider.handler_named(task.handler)
        inner = self._fetches(lease, handler)
        nothing = Response(task.url, 0, {}, b"")
        page = Page(task, nothing, handler.name, self._clock.time(), inner=inner)
        try:
            rows, rejected = await self._items.again(page, handler)
        except (StoreError, SinkError):
            raise
        except (JunkError, SpiderError) as error:
            return self._junk(lease, None, handler, error)
        except (handlers.Retry, handlers.Drop, HookFailed) as said:
            return self._said(lease, None, said, page._counts)
        except Exception as error:
            if (failed := fetch_failed_in(error)) is None:
                raise
            return self._without_inner(lease, nothing, failed)
        counts = self._counts(task, page._counts)
        return Settlement(lease, Done(), rows=rows, counts=counts, rejected=rejected)

    def _referrer(self, page: Page) -> Referrer | None:
        setting = self._settings.referer
        return None if setting == NEVER else Referrer(setting, page.url, lambda: referrer_policy(page))

    def _said(
        self,
        lease: Lease,
        response: Response | None,
        said: handlers.Retry | handlers.Drop | HookFailed,
        counts: Counts,
    ) -> Settlement:
        """What a handler or a hook says is to become of its page."""
        if isinstance(said, handlers.Retry):
            return self._again(lease, response, said)
        if isinstance(said, handlers.Drop):
            counts.add(with_reason(PAGES_DROPPED, str(said)))
            return Settlement(lease, Done(), counts=self._counts(lease.task, counts))
        debugging.check_quit()
        cause = said.__cause__
        trace = self._first_trace(str(said), cause) if cause is not None else False
        event("hook_failed", exc_info=trace, job=lease.task.job, url=lease.task.url, error=str(said))
        return self._bury(lease, response, "hook", str(said), traceback.format_exc())

    def _tell_failure(self, task: Task, handler: Handler, error: BaseException) -> None:
        line, where = error_line(error), place_of_error(error)
        event(
            "handler_failed",
            f"handler {handler.name!r} failed on {task.url}: {line}{f' ({where})' if where else ''}",
            exc_info=self._first_trace(f"{handler.name} {where} {type(error).__name__}", error),
            job=task.job,
            url=task.url,
            handler=handler.name,
            error=line,
            where=where,
        )

    def _junk(
        self, lease: Lease, response: Response | None, handler: Handler, error: JunkError | SpiderError
    ) -> Settlement:
        """The handler yielded what cannot be used, or called a part of Shoal in a way that is not possible."""
        said = str(error)
        self._tell_junk(lease.task, handler, error, said)
        if where := place_of_error(error):  # a SpiderError is raised by what the handler calls
            return self._bury(lease, response, "junk", f"{where}: {said}", traceback.format_exc())
        where = error.where if isinstance(error, JunkError) else ""
        return self._bury(lease, response, "junk", f"{said} ({where})" if where else said)

    def _tell_junk(self, task: Task, handler: Handler, error: Exception, said: str) -> None:
        """The first time that a handler does so at a line. Mostly all of its pages have the same fault."""
        where = place_of_error(error)
        # Without a line of the handler, what is said tells one fault from another, but for the page and its numbers.
        sort = f"{handler.name} {where}" if where else f"{handler.name} {_VARIES.sub('', said)}"
        if sort in self._faults or len(self._faults) >= _TOLD:
            return
        self._faults.add(sort)
        where = where or getattr(error, "where", "") or place_of_users(handler.function)
        begin = f"handler {handler.name!r} "
        text = f"it {said.removeprefix(begin)}" if said.startswith(begin) else said
        event(
            "handler_failed",
            f"{begin}failed on {shown_url(task.url)[:_SHOWN]}{f' ({where})' if where else ''}: {text}; "
            "further pages that die of this are not told",
            exc_info=self._first_trace(f"{handler.name} {where} {type(error).__name__}", error),
            job=task.job,
            url=task.url,
            handler=handler.name,
            error=one_line(said),
            where=where,
        )

    def _first_trace(self, place: str, error: BaseException) -> ExcInfo | Literal[False]:
        """The user's part of the traceback, the first time that there is an error at that place. The whole is in the
        dead letter."""
        error = users_error(error)
        trace = users_traceback(error)
        if trace is None or place in self._told or len(self._told) >= _TOLD:
            return False
        self._told.add(place)
        return type(error), error, trace

    def _again(self, lease: Lease, response: Response | None, asked: handlers.Retry) -> Settlement:
        task, settings = lease.task, self._settings
        wait = asked.after
        if wait is None:
            wait = backoff(task.attempt, settings.retry_base, settings.retry_cap, self._rng)
        failure = self._failure(task, "retry_asked", str(asked) or "the handler asked for the page again")
        snapshot = snapshot_of(response, settings) if response is not None else None
        return Settlement(lease, Retry(wait, failure), snapshot=snapshot)

    def _without_inner(self, lease: Lease, response: Response, failed: FetchFailed) -> Settlement:
        """A request inside the handler failed, and the handler has not caught that."""
        task, settings = lease.task, self._settings
        if failed.kind == "invalid_request":  # a fault of the spider, as junk is
            handler = self._spider.handler_named(task.handler)
            self._tell_junk(task, handler, failed, f"invalid_request: {failed}")
        failure = self._failure(task, failed.kind, f"asked for by its handler: {failed}")
        snapshot = snapshot_of(failed.page.response if failed.page is not None else response, settings)
        if rule_for(failed.kind).action != "retry":
            return Settlement(lease, Dead(failure, snapshot))
        wait = failed.after
        if wait is None:
            wait = backoff(task.attempt, settings.retry_base, settings.retry_cap, self._rng)
        return Settlement(lease, Retry(wait, failure, counts=failed.counts), snapshot=snapshot)

    def _check(self, handler: Handler, requests: Sequence[Request]) -> None:
        """Refuses requests in a lane that nobody serves, which would wait for ever; for a handler that does not exist;
        and those too large to be stored, which would stop the settlement of others."""
        size, has_handler = 0, self._spider.has_handler
        short = {name for name in self._spider.handlers if len(name) < REQUEST_WORD - len("GET")}
        if isinstance(requests, PageLinks) and requests.handler in short:
            return
        try:
            for request in requests:
                if (
                    request.handler in short
                    and request.lane is None
                    and request.method == "GET"
                    and request.meta is None
                    and request.headers is None
                    and request.body is None
                    and request.pool is None
                    and request.session is None
                    and request.wait_for is None
                    and request.proxy is None
                    and request.country is None
                    and request.revisit is None
                ):
                    continue  # a link, as nearly all are: looked at here, since a call for each takes longer than this
                if request.lane is not None and request.lane not in self._lanes:
                    raise JunkError(no_such_lane(request.lane, self._lanes))
                if not has_handler(request.handler):
                    self._spider.handler_named(request.handler)
                size += stored_size(request)
                if size > PAGE_REQUESTS:
                    raise JunkError(f"with those before it, it has more than {PAGE_REQUESTS:,} bytes")
        except (JunkError, OversizeError, SpiderError) as error:
            url = shown_url(request.url)[:_SHOWN]
            where = place_of_code(handler.function)
            raise JunkError(
                f"handler {handler.name!r} yielded a request: {error} ({where and where + ', '}for {url})"
            ) from None

    def _counts(self, task: Task, counts: Counts) -> tuple[tuple[str, int], ...]:
        """What a page counted. The first time that a process meets too many names, it says so."""
        if counts and len(self._counted) <= COUNTER_NAMES:
            self._counted.update(counts)
            if len(self._counted) > COUNTER_NAMES:
                event("counters_full", job=task.job, names=COUNTER_NAMES)
        return counts.settled()

    def _cut(self, task: Task, requests: Sequence[Request]) -> int:
        """How many links the page has beyond the limit."""
        most = self._settings.max_links
        cut = max(0, len(requests) - most)
        if cut:
            self._tally.cut("links", cut)
            event("links_cut", job=task.job, url=task.url, host=task.host, taken=most, cut=cut)
        return cut

    def _bury(
        self, lease: Lease, response: Response | None, kind: str, detail: str, trace: str = ""
    ) -> Settlement:
        seen = (snapshot_of(response, self._settings) if response is not None else None) or Snapshot()
        snapshot = Snapshot(seen.status, seen.headers, seen.body, trace[-TRACEBACK:])
        return Settlement(lease, Dead(self._failure(lease.task, kind, detail), snapshot))

    def _failure(self, task: Task, kind: str, detail: str) -> Failure:
        return Failure(kind, one_line(detail), at=self._clock.time(), attempt=task.attempt)


def referrer_policy(page: Page) -> str:
    """What a page says about the Referer of its requests; "" if it says nothing."""
    by_header = policy_in(page.headers.get("Referrer-Policy", ""))
    return (policy_in(meta_referrer(page.tree)) if page.is_html else "") or by_header


def _links_digest(requests: Sequence[Request]) -> bytes:
    """The same for the same requests, in whatever order."""
    urls = sorted({request.url for request in requests})
    return blake2b("\n".join(urls).encode("utf-8", "surrogatepass"), digest_size=8).digest()
