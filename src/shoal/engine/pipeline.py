"""The path of a URL, from a lease to a settlement.

`work` reads top to bottom: the host, the answer to the request, a redirect or the handler, the links.
It takes no decision about time: what must wait goes back to the frontier, with the delay in the verdict.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from shoal.admit import Admission, KnownLinks
from shoal.admit.identity import origin, scheme
from shoal.admit.sizes import OversizeError, stored_size
from shoal.clock import Clock
from shoal.engine.fetching import Asker, Ending
from shoal.engine.history_recorder import Recorder
from shoal.engine.robots_directives import Manners
from shoal.engine.tally import Tally
from shoal.errors import HandlerMissing, SpiderError
from shoal.events import event
from shoal.fetch.slots import in_the_network, take_slot
from shoal.hosts.cache import HostBook, HostView
from shoal.limits import PAGE_REQUESTS, TRACEBACK
from shoal.model import (
    Dead,
    Done,
    Failure,
    Lease,
    Moved,
    Refused,
    Request,
    Response,
    Retry,
    Settlement,
    Snapshot,
    Task,
    Verdict,
)
from shoal.policy.lanes import no_such_lane
from shoal.policy.outcomes import kind_of, snapshot_of
from shoal.settings import BROWSER, Settings
from shoal.sink.rows import encode_rows
from shoal.spider.handlers import HandlerTimeout, JunkError, Yielded, collect
from shoal.spider.page import Page
from shoal.spider.places import place_of_code, place_of_error
from shoal.spider.rendering import Rendered, TabLost
from shoal.spider.spider import Handler, Spider
from shoal.text import one_line, without_userinfo

_SHOWN = 300  # characters of a URL in a detail

Link = tuple[str, str]  # (base, href)


class Worker:
    def __init__(
        self,
        spider: Spider,
        settings: Settings,
        *,
        admission: Admission,
        hosts: HostBook,
        asker: Asker,
        tally: Tally,
        recorder: Recorder,
        clock: Clock,
        collecting: Callable[..., Awaitable[Yielded]] = collect,
    ) -> None:
        self._spider = spider
        self._settings = settings
        self._admission = admission
        self._hosts = hosts
        self._asker = asker
        self._tally = tally
        self._recorder = recorder
        self._clock = clock
        self._collect = collecting
        self._lanes = settings.lane_weights
        self._manners = Manners(settings)
        self._known = KnownLinks()
        self._links: dict[int, list[Link]] = {}  # token -> links to remember once the settlement is durable
        self._yielded: dict[int, tuple[Sequence[Request], HostView]] = {}  # token -> of a page to be settled
        self._doubtful: dict[
            int, tuple[Sequence[Request], HostView]
        ] = {}  # … made before the store went back

    async def work(self, lease: Lease) -> Settlement | None:
        """Fetches and handles one page. None: the task goes back untouched."""
        self._find_handler(lease.task)
        host = await self._hosts.view(lease)
        if host.state.start:
            self._admission.welcome(lease.task.host)
        if lease.task.lane == BROWSER:  # a tab works, though its page may wait
            answer = await self._asker.ask(lease, host)
        else:
            with in_the_network():
                answer = await self._asker.ask(lease, host)
        if answer is None:
            return None
        if isinstance(answer, Ending):
            return self._end(lease, answer.verdict, answer.snapshot)
        self._tally.fetched(lease.task.host, answer)
        if kind_of(answer) == "redirect":
            return self._follow(lease, answer)
        try:
            return await self._handle(lease, answer, host)
        finally:
            if isinstance(answer, Rendered):
                await answer.close()

    def _find_handler(self, task: Task) -> None:
        """Before anything is fetched: a page that no handler takes is not done, and not dead either."""
        handlers = self._spider.handlers
        if task.handler and task.handler not in handlers:
            raise HandlerMissing(
                f"pages wait for handler {task.handler!r}, which spider {self._spider.name!r} does not have"
                f" (it has {', '.join(handlers)}): give it that name again, or cancel the job"
            )

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        """Told after the commit: only now does it count, so that what is told agrees with the job's counters; and only
        now may links be skipped unseen on other pages. Earlier, a settlement that is refused would take links with it
        that another page had counted on."""
        token = settlement.lease.token
        links = self._links.pop(token, ())
        self._yielded.pop(token, None)
        self._doubtful.pop(token, None)
        if not accepted:
            return
        for base, href in links:
            self._known.learn(settlement.lease.task.host, base, href)
        self._count(settlement.lease.task, settlement.verdict)

    def _count(self, task: Task, verdict: Verdict) -> None:
        if isinstance(verdict, Done):
            self._tally.handled(task.host)
        elif isinstance(verdict, Dead):
            self._tally.failed(task.host, verdict.failure, retry=False)
            _tell_dead(task, verdict.failure)
        elif isinstance(verdict, Retry) and verdict.counts:  # else it waits, and has not failed
            last = task.attempt >= (task.max_attempts or self._settings.max_attempts)
            self._tally.failed(task.host, verdict.failure, retry=not last)
            if last:
                _tell_dead(task, verdict.failure)

    # -- after the fetch

    def _follow(self, lease: Lease, response: Response) -> Settlement:
        """A redirect goes through the queue like any request, even on the same host: each hop is a hit."""
        task = lease.task
        location = response.headers["Location"]
        if len(task.hops) >= self._settings.max_redirects:
            last = without_userinfo(location)[:_SHOWN]
            detail = f"more than {self._settings.max_redirects} redirects, the last to {last}"
            return self._end(lease, Dead(self._failure(task, "redirect_loop", detail)))
        to = self._admission.moved(task, location, response.cookies, response.status)
        if isinstance(to, Refused):
            detail = f"redirected to {to.url}: {to.reason}"
            return self._end(lease, Dead(self._failure(task, "policy", detail)))
        if to.goes_round:
            detail = f"redirected in a circle: {to.url[:_SHOWN]} was asked for before, with the same cookies"
            return self._end(lease, Dead(self._failure(task, "redirect_loop", detail)))
        if len(to.cookies) < len(response.cookies):
            self._tally.cut("cookies", len(response.cookies) - len(to.cookies))
        return Settlement(lease, Moved(to))

    async def _handle(self, lease: Lease, response: Response, host: HostView) -> Settlement:
        task = lease.task
        asked_at = self._hosts.now() - response.elapsed
        await take_slot()
        try:
            handler = self._spider.handler_named(task.handler)
            page = Page(task, response, handler.name, self._clock.time())
            started = self._clock.monotonic()
            yielded = await self._collect(
                handler,
                page,
                deadline=started + self._settings.handler_timeout,
                monotonic=self._clock.monotonic,
            )
            yielded = self._manners.apply(page, yielded, self._tally)
            self._check(handler, yielded.requests)
            rows = encode_rows(yielded.items, handler, asked_at)
        except HandlerTimeout as error:
            return self._bury(lease, response, "handler_timeout", str(error))
        except (JunkError, SpiderError) as error:
            where = place_of_error(error)  # a SpiderError is raised by what the handler calls
            return self._bury(lease, response, "junk", f"{where}: {error}" if where else str(error))
        except TabLost as error:
            lost = self._failure(task, "browser_crash", str(error))
            return self._end(lease, Retry(self._settings.retry_base, lost))
        except Exception as error:
            name, said = task.handler or "(first)", _one_line(error)
            event("handler_failed", job=task.job, url=task.url, handler=name, error=said)
            return self._bury(lease, response, "handler", said, traceback.format_exc())
        cut = self._cut(task, yielded.requests)
        return Settlement(lease, Done(), self._admit(lease, yielded.requests, host), rows, links_cut=cut)

    def _check(self, handler: Handler, requests: Sequence[Request]) -> None:
        """A task in a lane that nobody serves would lie in its queue for ever; one for a handler that does not exist
        would be fetched in vain; one that cannot be stored would stop the settlement of others."""
        size, handlers = 0, self._spider.handlers
        try:
            for request in requests:
                if request.lane is not None and request.lane not in self._lanes:
                    raise JunkError(no_such_lane(request.lane, self._lanes))
                if request.handler and request.handler not in handlers:
                    self._spider.handler_named(request.handler)
                size += stored_size(request)
                if size > PAGE_REQUESTS:
                    raise JunkError(f"with those before it, it has more than {PAGE_REQUESTS:,} bytes")
        except (JunkError, OversizeError, SpiderError) as error:
            url = without_userinfo(request.url)[:_SHOWN]
            where = place_of_code(handler.function)
            raise JunkError(
                f"handler {handler.name!r} yielded a request: {error} ({where and where + ', '}for {url})"
            ) from None

    def _cut(self, task: Task, requests: Sequence[Request]) -> int:
        """How many links are more than are taken from one page."""
        most = self._settings.max_links
        cut = max(0, len(requests) - most)
        if cut:
            self._tally.cut("links", cut)
            event("links_cut", job=task.job, url=task.url, host=task.host, taken=most, cut=cut)
        return cut

    def _admit(self, lease: Lease, requests: Sequence[Request], host: HostView) -> tuple[Task, ...]:
        found: list[Task] = []
        links: list[Link] = []
        allows = self._allows(lease.task, host)
        for request in self._unknown(lease.task, requests[: self._settings.max_links]):
            admitted = self._admission.admit(request, lease.task, allows)
            if isinstance(admitted, Task):
                found.append(admitted if request.lane is not None else self._asker.placed(admitted))
            else:
                self._tally.refused(admitted.reason)
                if admitted.reason == "depth":
                    continue  # from a page nearer to the start it may be admitted
            if _is_link(request):
                links.append((request.base or lease.task.url, request.url))
        self._links[lease.token] = links
        self._yielded[lease.token] = requests, host
        return tuple(found)

    def _allows(self, task: Task, host: HostView) -> Callable[[str], bool]:
        """What is known of robots.txt for links from a page to its own origin."""
        robots = host.robots.get(scheme(task.url)) if host.terms.settings.robots else None
        here = f"{origin(task.url)}/"
        return lambda url: robots is None or not url.startswith(here) or robots.allows(url)

    def _unknown(self, task: Task, requests: Sequence[Request]) -> list[Request]:
        """Without the links that are known to be admitted: on most pages of a site that is nearly all of them."""
        by_base: dict[str, dict[str, Request]] = {}
        special: list[Request] = []
        for request in requests:
            if _is_link(request):
                by_base.setdefault(request.base or task.url, {}).setdefault(request.url, request)
            else:
                special.append(request)
        for base, links in by_base.items():
            special += [links[href] for href in self._known.unknown(task.host, base, links)]
        return special

    # -- hosts

    async def forget(self) -> None:
        """A link that the store said it had admitted may be lost with its last second. The page that it was found on
        is lost with it, so it comes again; then the link must not be passed over."""
        self._known = KnownLinks()
        self._doubtful |= self._yielded
        self._yielded = {}
        await self._hosts.forget()

    def complete(self, settlement: Settlement) -> Settlement:
        """Nothing says that the other page, too, will be had once more. So a page that passed over a link because of
        it brings that link now."""
        doubtful = self._doubtful.pop(settlement.lease.token, None)
        if doubtful is None:
            return settlement
        return replace(settlement, found=self._admit(settlement.lease, *doubtful))

    def sync(self, frontier_time: float) -> None:
        self._hosts.sync(frontier_time)

    async def fold(self) -> None:
        await self._hosts.fold()

    async def keep(self, *, everything: bool = False) -> None:
        await self._hosts.keep(everything=everything)
        await self._asker.keep(everything=everything)
        await self._recorder.keep(everything=everything)

    # -- endings

    def _end(self, lease: Lease, verdict: Retry | Dead, snapshot: Snapshot | None = None) -> Settlement:
        failure = verdict.failure
        verdict = replace(verdict, failure=replace(failure, detail=one_line(failure.detail)))
        return Settlement(lease, verdict, snapshot=snapshot)

    def _bury(self, lease: Lease, response: Response, kind: str, detail: str, trace: str = "") -> Settlement:
        seen = snapshot_of(response, self._settings) or Snapshot()
        snapshot = Snapshot(seen.status, seen.headers, seen.body, trace[-TRACEBACK:])
        return self._end(lease, Dead(self._failure(lease.task, kind, detail), snapshot))

    def _failure(self, task: Task, kind: str, detail: str) -> Failure:
        return Failure(kind, detail, at=self._clock.time(), attempt=task.attempt)


def _tell_dead(task: Task, failure: Failure) -> None:
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


def _is_link(request: Request) -> bool:
    # Not with `anywhere`: the same link may have been refused before, without it.
    return request.dedupe and not request.anywhere and request.method == "GET" and request.body is None


def _one_line(error: BaseException) -> str:
    text = str(error)
    return one_line(f"{type(error).__name__}: {text}") if text else type(error).__name__
