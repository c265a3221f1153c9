"""Requests inside a handler: `await page.fetch(…)`.

    admit ─▶ the host's next turn ─▶ robots.txt ─▶ fetch ─▶ judge ─▶ a page for the handler
               ▲                                              │
               └──── a redirect, or another attempt ──────────┘        otherwise FetchFailed

The page's own lease is for the request that fetched it. Each further request takes a turn of its host's valve
(`frontier.reserve`), so the limit of the host holds for pages and inner requests together, in the whole fleet. Requests
of one page run one after another: so those to its own host need no place beside the one that the lease holds. To other
hosts a process has at most `cap` inner requests at once; these are not counted with the fleet's leases.

While it waits, the page holds no slot, and the handler's time stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from shoal.admit import Admission
from shoal.admit.referrer import Referrer
from shoal.engine.fetching import Fetched, Fetcher, as_asked
from shoal.engine.inner_logins import LoginGate, refuse_if_logged_out
from shoal.engine.inner_waits import Patience, Places
from shoal.engine.judging import Judge, Judgement
from shoal.engine.learning import Learner
from shoal.engine.page_fetches import PageFetches
from shoal.engine.page_hooks import PageHooks
from shoal.engine.permission import Permission, Permit
from shoal.engine.redirects import Redirects
from shoal.engine.sessions import SessionKeeper
from shoal.engine.tally import Tally
from shoal.errors import SpiderError
from shoal.fetch.slots import in_the_network, waiting, without_slot
from shoal.fetch.transport import BodySink
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Queue
from shoal.frontier.values import Turn
from shoal.hosts.cache import HostCache, HostView
from shoal.model import DEFAULT_LANE, Dead, Failure, Lease, Refused, Response, Retry, Row, Task
from shoal.model.request import Request
from shoal.policy.outcomes import kind_of
from shoal.settings import BROWSER, Settings
from shoal.spider.inner import FetchFailed
from shoal.spider.page import Page

if TYPE_CHECKING:
    from shoal.archive.cache import ArchiveCache
    from shoal.engine.archiving import Archiver

_ATTEMPTS = 3  # of one request, unless it says how many
_AGAIN = 5  # times that a turn is taken for robots.txt, or because the host's valve was out of date


class InnerFetcher:
    def __init__(
        self,
        settings: Settings,
        *,
        frontier: Queue,
        hosts: HostCache,
        permission: Permission,
        fetcher: Fetcher,
        judge: Judge,
        learner: Learner,
        admission: Admission,
        tally: Tally,
        clock: FrontierClock,
        sessions: SessionKeeper,
        hooks: PageHooks,
        logins: LoginGate | None = None,
        archiver: Archiver | None = None,
        cache: ArchiveCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._frontier = frontier
        self._hosts = hosts
        self._permission = permission
        self._fetcher = fetcher
        self._judge = judge
        self._learner = learner
        self._admission = admission
        self._redirects = Redirects(settings.max_redirects, admission, tally)
        self._tally = tally
        self._clock = clock
        self._sessions = sessions
        self._hooks = hooks
        self._sleep = sleep
        self._logins = logins  # None: the spider has no @spider.login, or these are the requests of a login
        self._archiver = archiver
        self._cache = cache
        self._places: dict[str, Places] = {}  # of hosts that inner requests are sent to right now

    async def fetch(
        self, request: Request, *, lease: Lease, handler: str = "", inner: PageFetches | None = None
    ) -> Page:
        """The page that the request asks for. Raises FetchFailed. `lease` is that of the page whose handler asks."""
        referrer = inner.referrer if inner is not None else None
        records = inner.records if inner is not None else None
        task, answer = await self.exchange(self.admit(request, lease, referrer), lease, records=records)
        return Page(task, answer, handler, self._clock.time(), inner=inner)

    async def exchange(
        self, task: Task, lease: Lease, *, sink: BodySink | None = None, records: list[Row] | None = None
    ) -> tuple[Task, Response]:
        """The answer to a task of `admit`, and the task after redirects. With a sink, the body goes there. `records`:
        the list for what is archived."""
        patience = Patience(self._settings.handler_timeout, self._clock.monotonic)
        async with _waits(lease.task):
            again = 0
            while True:
                answer = self._cached(task) if sink is None else None
                if answer is None and self._settings.offline:
                    missing = Failure(
                        "not_archived", "it is not in the cache, and with offline nothing is fetched"
                    )
                    raise self._failed(task, missing)
                if answer is None:
                    answer = await self._attempt(task, lease, patience, sink, records)
                if isinstance(answer, Response):
                    return task, answer
                again += answer is task
                if again > _AGAIN:
                    raise self._failed(task, Failure("origin_wait", "its host's limits change all the time"))
                task = answer

    def _cached(self, task: Task) -> Response | Task | None:
        """The answer that the archive has, or the task that it redirects to; None: it must be fetched."""
        if self._cache is None or (found := self._cache.find(task)) is None:
            return None
        self._tally.from_cache()
        if kind_of(found.response) != "redirect":
            return found.response
        to = self._redirects.follow(task, found.response, kept=False, anywhere=True)
        if isinstance(to, Failure):
            raise self._failed(task, to, found.response)
        return to

    def admit(self, request: Request, lease: Lease, referrer: Referrer | None = None) -> Task:
        """The scope of the crawl is for links; what a handler fetches itself may be anywhere."""
        outer = lease.task
        if request.lane == BROWSER:
            raise SpiderError(
                f"page.fetch({request.url!r}): it does not use a browser; yield the request instead"
            )
        asked = replace(
            request,
            anywhere=True,
            lane=DEFAULT_LANE,
            session=request.session or outer.session,
            pool=request.pool or outer.pool,
        )
        task = self._admission.admit(asked, parent=outer, referrer=referrer)
        if isinstance(task, Refused):
            raise FetchFailed(task.url, "policy", f"it is refused: {task.reason}")
        most = request.max_attempts or min(_ATTEMPTS, self._settings.max_attempts)
        return replace(
            task,
            id=outer.id,
            job=outer.job,
            handler=outer.handler,
            attempt=1,
            max_attempts=most,
            fingerprint=None,
        )

    async def _attempt(
        self,
        task: Task,
        lease: Lease,
        patience: Patience,
        sink: BodySink | None,
        records: list[Row] | None,
    ) -> Response | Task:
        """The answer; or the task to go on with, after a redirect or a failure. The same task: its turn was used for
        something else."""
        if self._logins is not None:
            entry = await self._logins.enter(replace(lease, task=task))  # it may name another session
            if isinstance(entry, Retry | Dead):
                return await self._again(task, entry, patience)
        async with self._place(task, lease, patience):
            turn = await self._turn(task, patience)
            own = Lease(lease.token, task, lease.deadline, turn.host_version, turn.interval)
            host = await self._hosts.view(own)
            with patience.stands_still(), in_the_network(), self._fetcher.guarded(task, host):
                permit = await self._permission.ask(own, host)
                if permit is None:
                    return task
                if isinstance(permit, Retry) and permit.lane is not None:
                    permit = Permit(
                        host, None
                    )  # it would do better in a browser, but it is asked for without
                if not isinstance(permit, Permit):
                    return await self._again(task, permit, patience)
                sent = task if sink is None else _with_headers(task, sink.headers())
                sent = await self._prepare(sent, permit.host) if self._hooks.before_request else sent
                visit = await self._sessions.enter(sent)
                fetched = await self._fetcher.fetch(sent, permit.host, permit.timeout, visit.jar, sink)
                if sent is not task:
                    fetched, own = as_asked(fetched, sent, own)
                judgement = self._judge.judge(own.task, fetched.outcome)
                self._learner.record(own, fetched, judgement)
                await self._sessions.leave(own, visit)
                if self._logins is not None and isinstance(answer := fetched.outcome, Response):
                    await refuse_if_logged_out(self._logins, own, lease.task, visit, answer, judgement, sink)
        if sink is not None:
            if sink.error is not None:
                raise sink.error
            if isinstance(fetched.outcome, Response) and sink.starts_anew():
                return replace(task)
            judgement = self._with_sink(task, fetched, judgement, sink)
        if self._archiver is not None and records is not None:
            records += await self._archiver.inner(own.task, fetched, judgement)
        return await self._judged(task, fetched, judgement, patience, kept=visit.keeps(fetched.request))

    def _with_sink(self, task: Task, fetched: Fetched, judgement: Judgement, sink: BodySink) -> Judgement:
        """A good answer that left the file incomplete has failed."""
        outcome = fetched.outcome
        if judgement.verdict is not None or judgement.kind == "redirect" or not (missing := sink.missing()):
            return judgement
        return self._judge.judge(
            task, Failure("truncated", missing, status=outcome.status, elapsed=outcome.elapsed)
        )

    async def _prepare(self, task: Task, host: HostView) -> Task:
        """The task as `before_request` hooks want it to be sent. What they raise goes through the handler."""
        sent = await self._hooks.before(task)
        if sent.url != task.url and (refused := self._permission.by_robots(sent, host)) is not None:
            raise self._failed(task, refused.failure)
        return sent

    async def _judged(
        self, task: Task, fetched: Fetched, judgement: Judgement, patience: Patience, *, kept: bool
    ) -> Response | Task:
        outcome, verdict = fetched.outcome, judgement.verdict
        if isinstance(verdict, Retry) and verdict.failure.kind == "empty_shell":
            verdict = None  # there is no other lane to go to: the handler gets it as it is
        if verdict is not None:
            self._tally.inner_failed(task.host, verdict.failure)
            return await self._again(
                task, verdict, patience, outcome if isinstance(outcome, Response) else None
            )
        assert isinstance(outcome, Response)
        self._tally.fetched(task.host, outcome, inner=True)
        if judgement.kind != "redirect":
            return outcome
        to = self._redirects.follow(task, outcome, kept=kept, anywhere=True)
        if isinstance(to, Failure):
            raise self._failed(task, to, outcome)
        return to

    async def _turn(self, task: Task, patience: Patience) -> Turn:
        """Waits for the host's next turn."""
        while True:
            turn = await self._frontier.reserve(task.job, task.host, patience.left)
            if not turn.taken:
                raise self._too_late(task, turn.wait)
            await self._wait(turn.wait)
            if (rest := await self._rest(task.host)) <= 0:
                return turn
            if rest > patience.left:
                raise self._too_late(task, rest)
            await self._wait(rest)

    async def _rest(self, host: str) -> float:
        """Seconds that the host must be left alone, as was learnt while the turn was waited for."""
        view = await self._hosts.current(host)
        blocked = max(view.valve.blocked_until, view.limits.blocked_until or 0.0)
        return blocked - self._clock.now() if view.limits.refuse is None else 0.0

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            with waiting():
                await self._sleep(seconds)

    async def _again(
        self, task: Task, verdict: Retry | Dead, patience: Patience, answer: Response | None = None
    ) -> Task:
        """The task for the next attempt, when its time has come."""
        failure = verdict.failure
        if isinstance(verdict, Dead) or (verdict.counts and task.attempt >= task.max_attempts):
            raise self._failed(task, failure, answer)
        if verdict.after > patience.left:
            raise self._failed(task, failure, answer, after=verdict.after)
        await self._wait(verdict.after)
        task = verdict.task(task)
        return replace(task, attempt=task.attempt + 1, lane=DEFAULT_LANE)

    def _too_late(self, task: Task, wait: float) -> FetchFailed:
        detail = (
            f"the next turn of {task.host} is {wait:.1f} seconds away: longer than a handler waits"
            " (setting handler_timeout)"
        )
        return self._failed(task, Failure("turn_wait", detail), after=wait)

    def _failed(
        self, task: Task, failure: Failure, answer: Response | None = None, after: float | None = None
    ) -> FetchFailed:
        page = Page(task, answer, task.handler, self._clock.time()) if answer is not None else None
        return FetchFailed(
            task.url, failure.kind, failure.detail, status=failure.status, page=page, after=after
        )

    @asynccontextmanager
    async def _place(self, task: Task, lease: Lease, patience: Patience) -> AsyncIterator[None]:
        """A place for a request to another host than the page's own."""
        if task.host == lease.task.host:
            yield
            return
        valve = (await self._hosts.current(task.host)).valve
        places = self._places.setdefault(task.host, Places(valve.cap))
        places.users += 1
        try:
            await self._take(places, task, patience, places.users * valve.interval)
            try:
                yield
            finally:
                places.free.release()
        finally:
            places.users -= 1
            if not places.users:
                self._places.pop(task.host, None)

    async def _take(self, places: Places, task: Task, patience: Patience, wait: float) -> None:
        """`wait`: seconds after which a place may be free."""
        try:
            with waiting():
                async with asyncio.timeout(patience.left):
                    await places.free.acquire()
        except TimeoutError:
            raise self._too_late(task, wait) from None


@asynccontextmanager
async def _waits(task: Task) -> AsyncIterator[None]:
    """The page holds no slot, unless it is open in a browser, where it uses CPU while it waits."""
    if task.lane == BROWSER:
        yield
        return
    async with without_slot():
        yield


def _with_headers(task: Task, headers: Mapping[str, str]) -> Task:
    names = {name.lower() for name in headers}
    given = {name: value for name, value in (task.headers or {}).items() if name.lower() not in names}
    return replace(task, headers={**given, **headers})
