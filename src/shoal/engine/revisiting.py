"""Pages that are visited again and again: what is sent, whether they have changed, and when the next visit is.

before a fetch ──▶ If-None-Match and If-Modified-Since, from the page's record
304, or the same body ──▶ unchanged: the handler does not run
otherwise the handler's items are compared with those in the record ──▶ changed or unchanged
then the task waits for its next visit, with what is remembered of this one

A page that was visited before does not die of a failed fetch: it waits for another visit. If it is not there any more
(404 or 410, twice), it is not visited again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from hashlib import blake2b

from msgspec.structs import replace

from shoal.admit import Admission
from shoal.clock import http_date
from shoal.engine.validators import Validators
from shoal.engine.webhooks import webhook_tasks
from shoal.frontier.clock import FrontierClock
from shoal.frontier.verdicts import is_last_attempt
from shoal.hosts.cache import HostCache, HostView
from shoal.limits import VALIDATOR
from shoal.model import (
    Dead,
    Done,
    Failure,
    Lease,
    Moved,
    Refused,
    Response,
    Retry,
    Revisit,
    Row,
    Settlement,
    Task,
)
from shoal.model.built_in import is_built_in, is_source
from shoal.model.counts import CHANGED, GONE, HELD, MISSED, UNCHANGED, UNTOLD, VISITS
from shoal.model.pace import Pace, read_pace
from shoal.model.page_record import PageRecord
from shoal.policy.outcomes import CONDITIONAL
from shoal.policy.revisit import Visit, learned, wait
from shoal.settings import BROWSER, Settings
from shoal.sink.changes import compare, touches, vanished
from shoal.sink.outputs import NOTHING_MORE, Wanted
from shoal.spider.handler_code import code_of
from shoal.spider.revisits import revisits_of, visits_again
from shoal.spider.spider import Spider
from shoal.text import one_line

_GONE = ("http_404", "http_410")
_OURS = frozenset(
    {"handler", "handler_timeout", "junk", "hook", "row_refused", "retry_asked", "hung", "unexpected"}
)  # failures of the spider's code: a dead letter, to be replayed when it is mended
_TEMPORARY = (302, 303, 307)
_FIRST_MISS = (
    15 * 60.0
)  # seconds until a visit that failed is tried again; doubled every time, up to the pace
_SECOND_LOOK = 6 * 3600.0  # seconds, at most, until a page that is gone or lacks something is looked at again
_SOURCES = 86_400.0  # seconds: how often sitemaps and feeds are read again, unless the settings say sooner
_SOURCES_AT_MOST = 3600.0  # … and with auto no more often than this
_FOUND_LATER = PageRecord()  # of a page that was found on a later visit of another: it is news
_SHOWN = 200


class Revisiting:
    """`wanted`: what the output takes besides items."""

    def __init__(
        self,
        spider: Spider,
        settings: Settings,
        *,
        hosts: HostCache,
        admission: Admission,
        clock: FrontierClock,
        rng: random.Random,
        wanted: Wanted = NOTHING_MORE,
    ) -> None:
        self._spider = spider
        self._settings = settings
        self._hosts = hosts
        self._admission = admission
        self._clock = clock
        self._rng = rng
        self._wanted = wanted
        self._ignored = frozenset(settings.changes_ignore)
        self._validators = Validators(hosts, rng)
        self._paces: dict[str, Pace | None] = {}  # by what the settings, handlers and requests say
        self._codes: dict[str, bytes] = {}  # by handler
        self._bounds = _bounds_of(settings)

    @property
    def is_standing(self) -> bool:
        return visits_again(self._spider, self._settings)

    def pace_for(self, task: Task) -> Pace | None:
        """How often the page is visited; None: once."""
        if task.item is not None or self._settings.max_pages or self._settings.offline:
            return None  # of a crawl that ends after so many pages, none is visited again
        if is_built_in(task.handler):
            again = is_source(task.handler) and task.options.revisit != "never"
            return self._pace_of_source() if again else None
        handler = self._spider.handler_named(task.handler)
        return self._pace(task.options.revisit or handler.revisit or self._settings.revisit)

    def _pace(self, text: str) -> Pace | None:
        if text not in self._paces:
            self._paces[text] = read_pace(text, *self._bounds)
        return self._paces[text]

    def _pace_of_source(self) -> Pace | None:
        said = revisits_of(self._spider, self._settings)
        paces = [pace for pace in map(self._pace, said) if pace is not None]
        if not paces:
            return None
        seconds = min(_SOURCES, max(pace.shortest for pace in paces))
        if any(pace.auto for pace in paces):  # a long sitemap every five minutes is too much
            return Pace(max(seconds, _SOURCES_AT_MOST), _SOURCES, auto=True)
        return Pace(seconds, seconds)

    # -- before the fetch

    def start(self, lease: Lease) -> Settlement | None:
        """A page that redirects elsewhere each time begins at its own URL again."""
        task, record = lease.task, lease.task.record
        if record is None or not record.start or task.url == record.start or task.hops:
            return None
        to = self._admission.moved(task, record.start, anywhere=True)
        if isinstance(to, Refused):
            return None
        to = replace(to, hops=(), trail=(), renewed=0, variant=None)
        return Settlement(lease, Moved(to), unsent=True)

    def conditional(self, task: Task, host: HostView) -> Task:
        """The task as it is sent: it names the version that is known, if there is one."""
        record = task.record
        if (
            record is None
            or not (record.etag or record.modified)
            or record.start
            or task.hops
            or task.method != "GET"
            or task.lane == BROWSER
            or self._must_be_read(task, record)
            or not self._validators.wanted(host, record)
        ):
            return task
        own = task.headers or {}
        if any(name.lower() in CONDITIONAL or name.lower() == "range" for name in own):
            return task
        known = {"If-None-Match": record.etag, "If-Modified-Since": record.modified}
        return replace(task, headers={**own, **{name: value for name, value in known.items() if value}})

    def _must_be_read(self, task: Task, record: PageRecord) -> bool:
        """Its handler has changed since it last saw the page."""
        return record.code != self._code(task)

    def _code(self, task: Task) -> bytes:
        if task.handler not in self._codes:
            self._codes[task.handler] = code_of(self._spider.handler_named(task.handler))
        return self._codes[task.handler]

    # -- redirects

    def moved(self, task: Task, to: Task, status: int) -> Task:
        """The task at the target of a redirect. If that is not for good, the next visit begins where this one did."""
        if status not in _TEMPORARY or self.pace_for(task) is None:
            return to
        record = task.record or PageRecord()
        return replace(to, record=replace(record, start=record.start or task.origin))

    # -- after the fetch

    def unchanged(self, lease: Lease, response: Response, at: float, host: HostView) -> Settlement | None:
        """The settlement of a page that is as it was; None: its handler has to look at it."""
        task, record = lease.task, lease.task.record
        pace = self.pace_for(task)
        if record is None or not record.visits or pace is None:
            return None
        if response.status == 304:
            named = _validators_in(response, record.etag, record.modified)
            record = replace(record, useless=0, etag=named["etag"], modified=named["modified"])
        else:
            same = record.body == _digest(response.body) and not self._must_be_read(task, record)
            if not same or not 200 <= response.status < 300:
                return None
            named = _validators_in(response)
            useless = self._validators.same_body(task.host, record, named["etag"])
            record = replace(record, useless=useless, etag=named["etag"], modified=named["modified"])
        key = self._spider.handler_named(task.handler).key or ()
        touched = touches(record.rows, at, key) if self._wanted.touches else ()
        settlement = Settlement(lease, Done(), archived=touched)
        return self._again(settlement, record, pace, at, host, changed=False)

    async def visited(
        self, settlement: Settlement, response: Response, at: float, host: HostView
    ) -> Settlement:
        """The settlement of a page that its handler has looked at."""
        task = settlement.lease.task
        pace = self.pace_for(task)
        if pace is None or not isinstance(settlement.verdict, Done):
            return settlement
        before = task.record or PageRecord()
        if settlement.held:
            return self._held(settlement, before, pace, at)
        compared = compare(
            before.rows if before.visits else None,
            settlement.rows,
            url=task.url,
            job=task.job,
            at=at,
            ignore=self._ignored,
            visit=before.visits,
        )
        changed = compared.changed
        if not settlement.rows and not before.rows:
            changed = before.links != settlement.links
        named = _validators_in(response)
        if before.visits and changed:
            await self._validators.changed(task.host, before, named)
        record = replace(
            before,
            handled_at=at,
            body=_digest(response.body),
            links=b"" if settlement.rows else settlement.links,
            code=self._code(task),
            rows=compared.kept,
            start=before.start if task.hops else "",
            etag=named["etag"],
            modified=named["modified"],
        )
        news = compared.changes if task.record is not None else ()
        touched = compared.touched if self._wanted.touches else ()
        found = settlement.found
        if before.visits or task.record is not None:
            found = tuple(replace(one, record=one.record or _FOUND_LATER) for one in found)
        archived = (*settlement.archived, *touched)
        settlement = replace(settlement, rows=compared.rows, archived=archived, found=found)
        if news and compared.untold:
            settlement = replace(settlement, counts=(*settlement.counts, (UNTOLD, compared.untold)))
        settlement = self._told(settlement, news)
        return self._again(settlement, record, pace, at, host, changed=changed)

    def _again(
        self,
        settlement: Settlement,
        record: PageRecord,
        pace: Pace,
        at: float,
        host: HostView,
        *,
        changed: bool,
    ) -> Settlement:
        task, budget = settlement.lease.task, float(self._settings.revisit_budget)
        plan, first = host.state.revisits, not record.visits
        waited = 0.0 if first else max(0.0, at - record.checked_at)
        age = self._age(record.modified)
        rate = record.rate
        if pace.auto or not rate:
            rate = learned(rate, changed=changed, waited=waited, plan=plan, age=age, pace=pace)
        interval = wait(pace, rate, plan, budget=budget, jitter=self._rng.random())
        late = 0.0 if first else max(0.0, at - record.due)
        self._hosts.record_visit(
            task.host, Visit(record.rate, rate, changed and not first, waited, late, budget)
        )
        record = replace(
            record,
            visits=record.visits + 1,
            checked_at=at,
            changed_at=at if changed or first else record.changed_at,
            interval=interval,
            rate=rate,
            gone=0,
            missed=0,
            held=0,
            trouble="",
        )
        counts = [(VISITS, 1)]
        if not first:
            counts.append((CHANGED if changed else UNCHANGED, 1))
        return replace(
            settlement,
            verdict=Revisit(self._until(record), record),
            counts=(*settlement.counts, *counts),
        )

    def _age(self, modified: str) -> float | None:
        """Seconds since the page changed, as the server says. Its clock is not the frontier's."""
        said = http_date(modified)
        return None if said is None else max(0.0, self._clock.time() - said)

    def _until(self, record: PageRecord) -> float:
        """Seconds from now."""
        return max(0.0, record.due - self._clock.now())

    def _held(self, settlement: Settlement, before: PageRecord, pace: Pace, at: float) -> Settlement:
        """Its items lack something: those from before stay, and the page is looked at again soon."""
        soon = min(
            pace.longest, before.interval or pace.longest, _FIRST_MISS * 2.0**before.held, _SECOND_LOOK
        )
        record = replace(
            before,
            visits=before.visits + 1,
            checked_at=at,
            interval=soon,
            held=before.held + 1,
            trouble=one_line(settlement.held)[:_SHOWN],
        )
        counts = (*settlement.counts, (VISITS, 1), (HELD, 1))
        return replace(settlement, verdict=Revisit(self._until(record), record), rows=(), counts=counts)

    # -- visits that came to nothing

    def failed(self, settlement: Settlement) -> Settlement:
        """A page that was visited before is visited again, though this visit has failed for good."""
        task, verdict = settlement.lease.task, settlement.verdict
        record = task.record
        if record is None or not record.visits or not isinstance(verdict, Dead | Retry):
            return settlement
        last = is_last_attempt(task, self._settings.max_attempts)
        if isinstance(verdict, Retry) and not (verdict.counts and last):
            return settlement
        pace, failure = self.pace_for(task), verdict.failure
        if pace is None or failure.kind in _OURS:
            return settlement
        is_gone = failure.kind in _GONE
        if is_gone and record.gone:
            return self._retired(settlement, record)
        soon = _SECOND_LOOK if is_gone else _FIRST_MISS * 2.0 ** min(record.missed, 20)
        after = min(pace.longest, record.interval or pace.longest, soon)
        now = self._clock.now()
        record = replace(
            record,
            interval=now + after - record.checked_at,
            gone=record.gone + is_gone,
            missed=record.missed + 1,
            trouble=_in_words(failure),
        )
        counts = (*settlement.counts, (MISSED, 1))
        return replace(settlement, verdict=Revisit(after, record, failure), snapshot=None, counts=counts)

    def _retired(self, settlement: Settlement, record: PageRecord) -> Settlement:
        task = settlement.lease.task
        now = self._clock.now()
        news = vanished(record.rows, url=task.url, job=task.job, at=now, visit=record.visits)
        counts = (*settlement.counts, (GONE, 1))
        self._hosts.record_visit(task.host, Visit(record.rate, b"", changed=True))
        return self._told(replace(settlement, verdict=Done(), snapshot=None, counts=counts), news)

    def _told(self, settlement: Settlement, news: tuple[Row, ...]) -> Settlement:
        """With what has changed: as rows, if an output takes them, and for webhooks."""
        deliveries = webhook_tasks(news, settlement.lease.task, self._settings)
        archived = (*settlement.archived, *news) if self._wanted.changes else settlement.archived
        return replace(settlement, archived=archived, found=(*settlement.found, *deliveries))


def _bounds_of(settings: Settings) -> tuple[float, float]:
    pace = read_pace(f"auto {settings.revisit_min}-{settings.revisit_max}", 0, 0)
    assert pace is not None
    return pace.shortest, pace.longest


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _validators_in(response: Response, etag: str = "", modified: str = "") -> dict[str, str]:
    """The version of the page, as far as the answer names one that can be sent back."""
    headers: Mapping[str, str] = response.headers
    found = {
        "etag": headers.get("ETag", "") or etag,
        "modified": headers.get("Last-Modified", "") or modified,
    }
    return {
        name: value if len(value) <= VALIDATOR and value.isascii() and value.isprintable() else ""
        for name, value in found.items()
    }


def _in_words(failure: Failure) -> str:
    return one_line(f"{failure.kind}: {failure.detail}" if failure.detail else failure.kind)[:_SHOWN]
