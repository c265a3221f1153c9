"""The path of a page, from its lease to its settlement.

`process` reads top to bottom: host → robots → fetch → judge → handle → settle. Each step is a class of its own that
knows nothing of the others. No step waits for a host: a page that must wait goes back to the frontier, with the delay
in its verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from msgspec.structs import replace

from shoal.admit import Admission
from shoal.archive.record_id import new_id
from shoal.engine.fetching import Fetched, Fetcher, as_asked
from shoal.engine.handling import Handling
from shoal.engine.history_recorder import HistoryRecorder
from shoal.engine.judging import Judge, Judgement
from shoal.engine.learning import Learner
from shoal.engine.letter_hooks import LetterHooks
from shoal.engine.links import Links
from shoal.engine.login_tasks import restored, unmerged, waiting_for_login
from shoal.engine.logins import Entry, Logins
from shoal.engine.page_line import PageLines
from shoal.engine.permission import Permission, Permit
from shoal.engine.redirects import Redirects
from shoal.engine.revisiting import Revisiting
from shoal.engine.sessions import SessionKeeper, Visit
from shoal.engine.tally import Tally
from shoal.engine.visit_tally import visit_of
from shoal.engine.webhooks import Webhooks
from shoal.events import event
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.slots import in_the_network
from shoal.frontier.clock import FrontierClock
from shoal.frontier.verdicts import is_last_attempt, letter_of
from shoal.hosts.cache import HostCache, HostView
from shoal.model import (
    Dead,
    DeadLetter,
    Done,
    Failure,
    Lease,
    Moved,
    Response,
    Retry,
    Revisit,
    Settlement,
    Snapshot,
    Task,
)
from shoal.model.built_in import WEBHOOK
from shoal.model.counts import CACHED, NOT_ARCHIVED
from shoal.policy.outcomes import kind_of
from shoal.settings import BROWSER, Settings
from shoal.spider.rendering import Rendered
from shoal.spider.state import Values, keep_state_of
from shoal.text import one_line

if TYPE_CHECKING:
    from shoal.archive.cache import ArchiveCache, CachedAnswer
    from shoal.engine.archiving import Archiver


class Pipeline:
    def __init__(
        self,
        settings: Settings,
        *,
        hosts: HostCache,
        permission: Permission,
        sessions: SessionKeeper,
        logins: Logins | None,
        fetcher: Fetcher,
        judge: Judge,
        learner: Learner,
        handling: Handling,
        links: Links,
        admission: Admission,
        tally: Tally,
        recorder: HistoryRecorder,
        routes: Routes,
        revisits: Revisiting,
        clock: FrontierClock,
        state: Values | None = None,
        letters: LetterHooks | None = None,
        archiver: Archiver | None = None,
        cache: ArchiveCache | None = None,
        lines: PageLines | None = None,
        webhooks: Webhooks,
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._permission = permission
        self._sessions = sessions
        self._logins = logins  # None: the spider has no @spider.login
        self._fetcher = fetcher
        self._judge = judge
        self._learner = learner
        self._handling = handling
        self._links = links
        self._admission = admission
        self._redirects = Redirects(settings.max_redirects, admission, tally)
        self._tally = tally
        self._recorder = recorder
        self._routes = routes
        self._clock = clock
        self._state = state
        self._letters = letters
        self._archiver = archiver
        self._cache = cache
        self._lines = lines
        self._webhooks = webhooks
        self._revisits = revisits
        self._writing_back = asyncio.Lock()

    async def process(self, lease: Lease) -> Settlement | None:
        """Fetches and handles one page, in an asyncio task of its own. None: the page's task goes back untouched."""
        keep_state_of(self._state)
        settlement = await self._process(lease)
        if settlement is None:
            return None
        settlement = self._revisits.failed(settlement)
        if costs := self._routes.take_costs():
            settlement = replace(settlement, counts=(*settlement.counts, *costs))
        return settlement if self._logins is None else restored(lease, settlement)

    async def _process(self, lease: Lease) -> Settlement | None:
        task = lease.task
        if task.handler == WEBHOOK:
            return await self._webhooks.deliver(lease)
        self._handling.check_handler(task)
        if task.item is not None:
            return await self._handling.replay(lease)
        host = await self._hosts.view(lease)
        if host.state.start:
            self._admission.welcome(task.host)
        if (found := self._cached(task)) is not None:
            settlement = await self._from_cache(lease, host, found)
            if settlement is not None:
                return settlement
        if self._settings.offline:
            return self._not_archived(lease)
        if lease.ahead:
            return None
        if (elsewhere := self._revisits.start(lease)) is not None:
            return elsewhere
        # An open tab uses CPU while its page waits.
        waiting = nullcontext() if task.lane == BROWSER else in_the_network()
        with waiting, self._fetcher.guarded(task, host):
            permit = await self._permission.ask(lease, host)
            if permit is None:
                return None
            if not isinstance(permit, Permit):
                return _ended(lease, permit)
            if self._logins is not None:
                with waiting_for_login():
                    entry = await self._logins.enter(lease)
                if not isinstance(entry, Entry):
                    return None if entry is None else _ended(lease, entry)
                lease, task = entry.lease, entry.lease.task
            sent = await self._prepare(lease, permit.host) if self._handling.hooks.before_request else task
            if isinstance(sent, Settlement):
                return sent
            if self._logins is not None and sent.session != task.session:  # a hook chose another
                entry = await self._logins.enter(replace(lease, task=sent))
                if not isinstance(entry, Entry):
                    return None if entry is None else _ended(lease, entry)
            sent = self._revisits.conditional(sent, permit.host)
            visit = await self._sessions.enter(sent)
            fetched, asked = await self._fetcher.fetch(sent, permit.host, permit.timeout, visit.jar), lease
            if sent is not task:
                fetched, asked = as_asked(fetched, sent, lease)
            judgement = self._judge.judge(asked.task, fetched.outcome)
            self._learner.record(asked, fetched, judgement)
            lease = await self._sessions.leave(lease, visit)
        outcome, at = fetched.outcome, self._clock.now() - fetched.outcome.elapsed
        if self._archiver is None or not isinstance(outcome, Response):
            return await self._conclude(lease, host, fetched, judgement, visit, at)
        if self._archiver.leaves_out(lease.task, outcome):
            settlement = await self._conclude(lease, host, fetched, judgement, visit, at)
            return replace(settlement, counts=(*settlement.counts, (NOT_ARCHIVED, 1)))
        record = new_id()
        settlement = await self._conclude(lease, host, fetched, judgement, visit, at, record)
        is_page = judgement.verdict is None and judgement.kind not in ("redirect", "not_modified")
        return await self._archiver.add(settlement, outcome, id=record, at=at, page=is_page)

    def _cached(self, task: Task) -> CachedAnswer | None:
        if self._cache is None or (self._logins is not None and self._logins.is_for(task)):
            return None  # what is in the cache for that URL is what others see, such as the login page
        return self._cache.find(task)

    async def _from_cache(self, lease: Lease, host: HostView, found: CachedAnswer) -> Settlement | None:
        """What comes of a page that is in the archive. Nothing is learnt from it about its host, whom it costs no turn.
        None: its handler failed, perhaps because the page is not open in a browser; then it must be."""
        response = found.response
        if kind_of(response) == "redirect":
            settlement = self._follow(lease, response, kept=False)
        else:
            settlement = await self._handling.handle(lease, response, host, found.at, found.record)
            failed = lease.task.lane == BROWSER and isinstance(settlement.verdict, Dead)
            if failed and not self._settings.offline:
                return None
        counts = (*settlement.counts, (CACHED, 1))
        # What its handler has fetched is archived, unless it comes again.
        archived = () if isinstance(settlement.verdict, Retry) else settlement.archived
        return replace(
            settlement,
            unsent=True,
            counts=counts,
            status=response.status,
            size=len(response.body),
            archived=archived,
        )

    async def _conclude(
        self,
        lease: Lease,
        host: HostView,
        fetched: Fetched,
        judgement: Judgement,
        visit: Visit,
        at: float,
        record: str | None = None,
    ) -> Settlement:
        """What comes of an answer, or a failure. `at`: when it was asked for. `record`: its id in the archive."""
        outcome = fetched.outcome
        try:
            if self._logins is not None and isinstance(outcome, Response):
                lost = await self._logins.check(lease, visit, outcome, judgement)
                if lost is not None:
                    return _ended(lease, lost)
            if judgement.verdict is not None:
                return _ended(lease, judgement.verdict, judgement.snapshot)
            assert isinstance(outcome, Response)
            self._tally.fetched(lease.task.host, outcome)
            if judgement.kind == "redirect":
                followed = self._follow(lease, outcome, kept=visit.keeps(fetched.request))
                return followed if self._logins is None else unmerged(followed)
            unchanged = self._revisits.unchanged(lease, outcome, at, host)
            if unchanged is not None:
                self._handling.unchanged(lease.task)
                return replace(unchanged, status=outcome.status, elapsed=outcome.elapsed)
            settlement = await self._handling.handle(lease, outcome, host, at, record)
            settlement = await self._revisits.visited(settlement, outcome, at, host)
            settlement = replace(
                settlement, status=outcome.status, elapsed=outcome.elapsed, size=len(outcome.body)
            )
        finally:
            if isinstance(outcome, Rendered):
                await outcome.close()
        return await self._sessions.settle(settlement, visit)

    async def _prepare(self, lease: Lease, host: HostView) -> Task | Settlement:
        """The task as `before_request` hooks want it to be sent. robots.txt is asked about a URL that they changed."""
        prepared = await self._handling.prepare(lease)
        if isinstance(prepared, Task) and prepared.url != lease.task.url:
            refused = self._permission.by_robots(prepared, host)
            return prepared if refused is None else _ended(lease, refused)
        return prepared

    def _follow(self, lease: Lease, response: Response, *, kept: bool) -> Settlement:
        """A redirect goes through the queue like any request, even on the same host: each hop is a request."""
        to = self._redirects.follow(lease.task, response, kept=kept)
        if isinstance(to, Failure):
            return self._refused(lease, to.kind, to.detail)
        to = self._revisits.moved(lease.task, to, response.status)
        return Settlement(lease, Moved(to), status=response.status, elapsed=response.elapsed)

    def _refused(self, lease: Lease, kind: str, detail: str) -> Settlement:
        failure = Failure(kind, detail, at=self._clock.time(), attempt=lease.task.attempt)
        return _ended(lease, Dead(failure))

    def _not_archived(self, lease: Lease) -> Settlement:
        detail = f"it is not in the cache ({self._settings.archive}); without --offline it is fetched"
        return replace(self._refused(lease, "not_archived", detail), unsent=True)

    # -- called by the dispatcher

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        """Called after the commit. Only now is the page counted, so that tally and events agree with the job's
        counters."""
        lines = self._lines
        links = self._links.yielded(settlement.lease) if lines is not None and lines.wanted else 0
        self._links.settled(settlement.lease, accepted)
        if self._archiver is not None:
            self._archiver.settled(settlement.archived, accepted)
        if not accepted:
            self._routes.return_costs(settlement.counts)
            return
        task, verdict = settlement.lease.task, settlement.verdict
        if task.handler == WEBHOOK:
            self._delivered(settlement)
            return
        if lines is not None and lines.wanted:
            lines.tell(settlement, links, last=is_last_attempt(task, self._settings.max_attempts))
        if self._recorder.recent is not None:
            self._recorder.recent.add(settlement)
        if settlement.rejected:
            self._count_rejected(task, settlement.rejected)
        if settlement.unsent and settlement.status:  # without a status, the cache did not have it
            self._tally.from_cache()
        if (visit := visit_of(settlement)) is not None:
            self._tally.visited(visit)
        if isinstance(verdict, Revisit) and verdict.failure is not None:
            self._count_failure(settlement, verdict.failure, dead=False)
        elif isinstance(verdict, Done | Revisit):
            if task.item is None:
                self._tally.handled(task.host)
        elif isinstance(verdict, Dead):
            self._count_failure(settlement, verdict.failure, dead=True)
        elif isinstance(verdict, Retry) and verdict.counts:  # otherwise it waits, and has not failed
            dead = is_last_attempt(task, self._settings.max_attempts)
            self._count_failure(settlement, verdict.failure, dead=dead)

    def _delivered(self, settlement: Settlement) -> None:
        """It is no page, so it is counted apart."""
        self._webhooks.settled(settlement)
        if self._letters and isinstance(settlement.verdict, Dead):
            self._letters.tell(letter_of(settlement.lease.task, settlement.verdict, self._clock.time()))

    def _count_rejected(self, task: Task, items: Sequence[Task]) -> None:
        self._tally.rejected += len(items)
        if self._letters:
            for item in items:
                self._letters.tell(DeadLetter(item, item.history[-1].kind, self._clock.time()))
        event(
            "items_rejected",
            job=task.job,
            url=task.url,
            handler=task.handler,
            count=len(items),
            reason=items[0].history[-1].detail,
        )

    def _count_failure(self, settlement: Settlement, failure: Failure, *, dead: bool) -> None:
        task, verdict = settlement.lease.task, settlement.verdict
        self._tally.failed(task.host, failure, retry=not dead)
        if dead:
            if self._letters:
                seen = verdict.snapshot if isinstance(verdict, Dead) else settlement.snapshot
                self._letters.tell(letter_of(task, Dead(failure, seen), self._clock.time()))
            event(
                "page_dead",
                job=task.job,
                url=task.url,
                host=task.host,
                handler=task.handler,
                kind=failure.kind,
                detail=failure.detail,
                attempts=task.attempt,
            )

    async def forget(self) -> None:
        """The store may have gone back: what was read from it may be wrong."""
        self._links.forget()
        self._sessions.forget()
        await self._hosts.forget()

    def complete(self, settlement: Settlement) -> Settlement:
        return self._links.complete(settlement)

    def sync(self, frontier_time: float) -> None:
        self._clock.sync(frontier_time)

    async def flush(self) -> None:
        await self._hosts.flush()

    async def write_back(self, *, everything: bool = False) -> None:
        # One at a time: when this returns, what another caller took and was about to write is written too. The engine
        # ends then, and cancels that other caller.
        async with self._writing_back:
            await self._hosts.write_back(everything=everything)
            await self._routes.flush(everything=everything)
            await self._recorder.write_if_due(everything=everything)


def _ended(lease: Lease, verdict: Retry | Dead | Moved, snapshot: Snapshot | None = None) -> Settlement:
    if isinstance(verdict, Moved):
        return Settlement(lease, verdict)
    failure = verdict.failure
    verdict = replace(verdict, failure=replace(failure, detail=one_line(failure.detail)))
    return Settlement(lease, verdict, snapshot=snapshot)
