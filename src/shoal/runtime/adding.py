"""Adding URLs to a job at any time: while it runs, is paused, or has finished.

    added = await shoal.add("books", ["https://books.example/new"], store="redis://queue/")

What a URL must be to get in is decided by the job's own note: its settings, and the names, lanes and priorities of its
handlers. So its spider need not be there. An added URL is a start URL: it may name any host, which is in scope then.

A call that was cut short and is made again misses nothing and doubles nothing: what came in before is a duplicate.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.sending import meant_by
from shoal.admit.sizes import OversizeError, stored_size
from shoal.engine.feeder import too_full
from shoal.errors import ShoalError, SpiderError, UsageError
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier, Jobs
from shoal.frontier.values import Fate, Job, JobState
from shoal.inspect.event_log import tell as tell_all
from shoal.jobs.note import note_of, settings_of
from shoal.limits import START_LINE, URL_SHOWN
from shoal.model import Refused, Task
from shoal.model.request import Request
from shoal.policy.lanes import no_such_lane
from shoal.runtime.admission import admission_by
from shoal.settings import Settings
from shoal.spider.spider import Spider, StartPlace
from shoal.text import shown_url

_BATCH = 1_000
_LINGER = 0.2  # seconds that URLs of a slow source wait to be added together
_HIGH_WATER = 1_000_000  # pending pages of the job above which adding waits
_LOOK_AGAIN = 0.5
_ON_DISK = 5.0  # seconds that the store has to say that what was added is on its disk

_REASONS = {
    "not a URL": "malformed: not a URL",
    "scheme": "malformed: only http and https can be crawled",
    "deny": "out of scope: a pattern of the setting deny matches it",
    "depth": "out of scope: it lies deeper than the setting depth",
}

Urls = str | Request | Path | Iterable[str | Request | Path] | AsyncIterable[str | Request]


class Addition(Struct, frozen=True):
    """What became of one URL."""

    where: str  # "urls.txt:12", "stdin:3", "request 7"; "": it was typed
    url: str
    fate: Literal["new", "duplicate", "refused"]
    reason: str = ""  # why it was refused


class Additions(Struct, frozen=True):
    """What became of the URLs that were added."""

    job: str
    state: JobState  # of the job, afterwards
    new: int = 0
    duplicates: int = 0  # the job has, or had, a page for them
    refused: dict[str, int] = {}  # by the first words of the reason: "malformed", "out of scope" …
    durable: bool | None = None  # on the store's disk; None: the store cannot tell, or keeps nothing there

    @property
    def refusals(self) -> int:
        """How many URLs were refused, for any reason."""
        return sum(self.refused.values())


Tell = Callable[[Addition], None]
Say = Callable[[str], None]


async def add(
    job: str,
    urls: Urls,
    *,
    store: str | Path,
    handler: str = "",
    lane: str | None = None,
    priority: int | None = None,
    meta: Mapping[str, Any] | None = None,
    tell: Tell | None = None,
) -> Additions:
    """Adds URLs to a job of a store, while it runs, is paused or has finished.

    `urls` are URLs, requests, or paths of files with one URL a line. `handler`, `lane`, `priority` and `meta` are
    for all of them, unless a request says otherwise. `tell` is called for each URL, as soon as it is known what
    became of it.
    """
    common = Common(handler, lane, priority, dict(meta) if meta else None)
    spider = Spider("add", [urls]) if isinstance(urls, str | Request | Path) else Spider("add", lambda: urls)
    async with open_frontier(str(store), create=False) as frontier:
        return await add_to(frontier, job, spider, common, tell=tell or (lambda _: None), typed=False)


class Common(Struct, frozen=True):
    """What all URLs of one call share, unless a request says otherwise."""

    handler: str = ""
    lane: str | None = None
    priority: int | None = None
    meta: dict[str, Any] | None = None

    def given_to(self, request: Request) -> Request:
        lane = self.lane if request.lane is None else request.lane
        priority = self.priority if request.priority is None else request.priority
        meta = request.meta if self.meta is None else {**self.meta, **(request.meta or {})}
        handler = request.handler or self.handler
        return replace(request, handler=handler, lane=lane, priority=priority, meta=meta)


class Line(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of a file that says more than a URL, as JSON."""

    url: str


_decode_line = msgspec.json.Decoder(Line).decode


async def add_to(
    frontier: Frontier,
    name: str,
    source: Spider,
    common: Common,
    *,
    tell: Tell,
    say: Say = lambda _: None,
    typed: bool = True,
) -> Additions:
    """Adds the start of `source`. `typed`: what stands in it, as opposed to in a file that it names, was typed by a
    person. `say` is told what a person should know meanwhile."""
    job = await job_to_add_to(frontier, name)
    adder = _Adder(frontier, job, common, tell, say)
    async with aclosing(source.starts(0, adder.at)) as starts:
        await adder.add(starts, typed=typed)
    durable = await frontier.durable(_ON_DISK) if adder.counts["new"] else True
    after = await frontier.job(name) or job
    await tell_all(frontier, "urls_added", job=name, new=adder.counts["new"], refused=adder.refused.total())
    return Additions(
        name, after.state, adder.counts["new"], adder.counts["duplicate"], dict(adder.refused), durable
    )


async def job_to_add_to(frontier: Jobs, name: str) -> Job:
    job = await frontier.job(name)
    if job is None:
        there = ", ".join(job.spec.name for job in await frontier.jobs()) or "none"
        raise UsageError(f"no job {name!r} in this store; there is: {there}")
    if job.state == "cancelled":
        raise UsageError(f"job {name} is cancelled: submit it again to go on, then add")
    budget = job.spec.max_pages
    if budget and job.counters.done >= budget:
        raise UsageError(
            f"job {name} has its {budget:,} pages (max_pages): submit or crawl it again with a larger one, then add"
        )
    return job


class _Adder:
    def __init__(self, frontier: Frontier, job: Job, common: Common, tell: Tell, say: Say) -> None:
        handlers, settings = _rules(job)
        self._frontier = frontier
        self._job = job.spec.name
        self._common = common
        self._tell = tell
        self._say = say
        self._handlers = handlers
        self._settings = settings
        self._lanes = settings.lane_weights
        self._admission = admission_by(handlers, settings)
        self._batch: list[tuple[str, Task]] = []
        self._flushing = asyncio.Lock()
        self._failure: ShoalError | None = None
        self.at = StartPlace()
        self.counts: Counter[Fate] = Counter()
        self.refused: Counter[str] = Counter()
        if problem := self._problem(common.given_to(Request(""))):
            raise UsageError(problem)

    async def add(self, starts: AsyncGenerator[tuple[int, Request, bool], None], *, typed: bool) -> None:
        lingering = asyncio.create_task(self._flush_regularly())
        try:
            async for position, request, in_code in starts:
                by_hand = typed and in_code
                where = str(self.at) if self.at.file is not None else "" if by_hand else f"request {position}"
                self._take(where, request, typed=by_hand or self._settings.trust_start)
                if position % _BATCH == 0:
                    await self._flush()
                    await self._below_high_water()
        finally:
            lingering.cancel()
            await self._flush()  # also what came before an error in the source

    def _take(self, where: str, request: Request, *, typed: bool) -> None:
        if self.at.cut:
            self._refuse(where, request.url, f"malformed: the line is longer than {START_LINE:,} characters")
            return
        try:
            asked = self._common.given_to(_read(request))
            stored_size(asked)
        except (OversizeError, SpiderError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._refuse(where, request.url, f"malformed: {error}")
            return
        if problem := self._problem(asked):
            self._refuse(where, asked.url, problem)
            return
        admitted = self._admission.admit(asked)
        if isinstance(admitted, Refused):
            meant = meant_by(admitted.url)
            hint = f"; did you mean {meant}?" if meant else ""
            self._refuse(where, admitted.url, f"{_REASONS.get(admitted.reason, admitted.reason)}{hint}")
        else:
            self._batch.append((where, replace(admitted, typed=True) if typed else admitted))

    def _problem(self, request: Request) -> str:
        if request.handler and request.handler not in self._handlers:
            return f"unknown handler: {request.handler!r}; job {self._job} has {', '.join(self._handlers)}"
        if request.lane is not None and request.lane not in self._lanes:
            return f"unknown lane: {no_such_lane(request.lane, self._lanes)}"
        return ""

    def _refuse(self, where: str, url: str, reason: str) -> None:
        self.refused[reason.partition(":")[0]] += 1
        self._tell(Addition(where, shown_url(url)[:URL_SHOWN], "refused", reason))

    async def _flush(self) -> None:
        async with self._flushing:
            if self._failure is not None:
                raise self._failure
            batch, self._batch = self._batch, []
            if not batch:
                return
            try:
                if full := too_full(await self._frontier.room(), self._settings):
                    raise full
                added = await self._frontier.add(self._job, [task for _, task in batch])
            except ShoalError as error:
                self._failure = error
                raise
        for (where, task), fate in zip(batch, added.each, strict=True):
            if fate == "over_budget":
                budget = "its host has all the pages it may have (max_pages_per_host)"
                self._refuse(where, task.url, f"over budget: {budget}")
            else:
                self.counts[fate] += 1
                self._tell(Addition(where, task.url, fate))

    async def _flush_regularly(self) -> None:
        while self._failure is None:
            await asyncio.sleep(_LINGER)
            if self._batch:
                try:
                    await self._flush()
                except ShoalError:
                    return  # raised by whoever adds

    async def _below_high_water(self) -> None:
        """An endless stream must not fill the store."""
        mark, said = max(_HIGH_WATER, self._settings.high_water), False
        while (job := await self._frontier.job(self._job)) is not None and job.counters.pending >= mark:
            if not said:
                said = True
                self._say(
                    f"job {self._job} is {job.state} and has {job.counters.pending:,} pages pending: waiting"
                )
            await asyncio.sleep(_LOOK_AGAIN)


def _rules(job: Job) -> tuple[dict[str, tuple[str, int]], Settings]:
    handlers, settings = note_of(job.spec).handlers, settings_of(job.spec)
    if not handlers or settings is None:
        raise UsageError(
            f"job {job.spec.name} was made by an earlier version of Shoal, which did not note its handlers: "
            "submit or crawl it once with this one, then add"
        )
    return handlers, settings


def _read(request: Request) -> Request:
    """The request of a line of JSON; any other as it is."""
    if not request.url.startswith("{"):
        return request
    line = _decode_line(request.url)
    return line.given_to(Request(line.url))
