"""The path of a URL, from a lease to a settlement.

`work` reads top to bottom: the host's permission, the fetch, what the outcome means, the handler, the links.
It takes no decision about time: what must wait goes back to the frontier, with the delay in the verdict.
"""

from __future__ import annotations

import logging
import random
import traceback
from collections.abc import Sequence

from shoal.admit import Admission, KnownLinks
from shoal.classify import judge, kind_of, snapshot_of
from shoal.clock import Clock
from shoal.errors import SpiderError
from shoal.fetch.guard import Guard
from shoal.fetch.transport import FetchRequest, Transport
from shoal.handling import HandlerTimeout, JunkError, collect
from shoal.hostbook import HostBook, HostView
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
from shoal.observe.tally import Tally
from shoal.page import Page
from shoal.policy.retry import backoff
from shoal.settings import Settings
from shoal.sink.rows import encode_row
from shoal.spider import Spider

log = logging.getLogger("shoal")

Link = tuple[str, str]  # (base, href)


class Worker:
    def __init__(
        self,
        spider: Spider,
        settings: Settings,
        *,
        admission: Admission,
        transport: Transport,
        hosts: HostBook,
        guard: Guard,
        tally: Tally,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._spider = spider
        self._settings = settings
        self._admission = admission
        self._transport = transport
        self._hosts = hosts
        self._guard = guard
        self._tally = tally
        self._clock = clock
        self._rng = rng
        self._known = KnownLinks()
        self._allowed: set[str] = set()  # hosts the guard has been told of
        self._links: dict[int, list[Link]] = {}  # token -> links to remember once the settlement is durable

    async def work(self, lease: Lease) -> Settlement | None:
        """Fetches and handles one page. None: the permission to hit the host was needed for its robots.txt, the
        task itself goes back untouched."""
        began = self._clock.monotonic()
        host = await self._hosts.view(lease)
        if host.state.start:
            self._admission.welcome(lease.task.host)
        if host.state.typed and lease.task.host not in self._allowed:
            self._allowed.add(lease.task.host)
            self._guard.allow(*_host_and_port(lease.task))
        if self._hosts.wants_robots(lease.task.host, host):
            host = await self._hosts.ask_robots(lease, since=began)
            if not _unreachable(host):
                return None
        if (refusal := self._robots_refusal(lease.task, host)) is not None:
            return self._end(lease, refusal)
        outcome = await self._transport.fetch(_fetch_request(lease.task))
        if isinstance(outcome, Response) and kind_of(outcome) == "redirect":
            return self._follow(lease, outcome)
        verdict = judge(outcome, lease.task, self._settings, now=self._clock.time(), rng=self._rng)
        if verdict is not None or isinstance(outcome, Failure):
            return self._end(lease, verdict, snapshot_of(outcome, self._settings))
        self._tally.fetched(lease.task.host, outcome)
        return await self._handle(lease, outcome)

    def settled(self, lease: Lease, accepted: bool) -> None:
        """Told after the commit: only now may links be skipped unseen on other pages. Earlier, a settlement that is
        refused would take links with it that another page had counted on."""
        links = self._links.pop(lease.token, ())
        if accepted:
            for base, href in links:
                self._known.learn(base, href)

    # -- before the fetch

    def _robots_refusal(self, task: Task, host: HostView) -> Verdict | None:
        if not self._settings.robots or host.robots is None:
            return None
        if _unreachable(host):
            assert host.state.robots is not None
            reason = host.state.robots.reason
            wait = max(0.0, host.state.robots.expires_at - self._clock.time())
            spread = backoff(task.attempt, self._settings.retry_base, self._settings.retry_cap, self._rng)
            failure = self._failure(task, "robots_unreachable", f"robots.txt cannot be had: {reason}")
            return Retry(wait + spread, failure)
        if not host.robots.allows(task.url):
            return Dead(self._failure(task, "robots", "forbidden by robots.txt"))
        return None

    # -- after the fetch

    def _follow(self, lease: Lease, response: Response) -> Settlement:
        """A redirect goes through the queue like any request, even on the same host: each hop is a hit."""
        task = lease.task
        self._tally.fetched(task.host, response)
        if len(task.hops) >= self._settings.max_redirects:
            detail = f"more than {self._settings.max_redirects} redirects, the last to {response.headers['Location']}"
            return self._end(lease, Dead(self._failure(task, "redirect_loop", detail)))
        location = response.headers["Location"]
        to = self._admission.moved(task, location, response.cookies, response.status)
        if isinstance(to, Refused):
            detail = f"redirected to {to.url}: {to.reason}"
            return self._end(lease, Dead(self._failure(task, "policy", detail)))
        return Settlement(lease, Moved(to))

    async def _handle(self, lease: Lease, response: Response) -> Settlement:
        task = lease.task
        try:
            handler = self._spider.handler_named(task.handler)
            page = Page(task, response, handler.name, self._clock.time())
            started = self._clock.monotonic()
            yielded = await collect(
                handler,
                page,
                deadline=started + self._settings.handler_timeout,
                monotonic=self._clock.monotonic,
            )
            rows = tuple([encode_row(item, handler) for item in yielded.items])
        except HandlerTimeout as error:
            return self._bury(lease, response, "handler_timeout", str(error))
        except (JunkError, SpiderError) as error:
            return self._bury(lease, response, "junk", str(error))
        except Exception as error:
            log.warning("handler %r failed on %s: %s", task.handler or "(first)", task.url, _one_line(error))
            return self._bury(lease, response, "handler", _one_line(error), traceback.format_exc())
        return Settlement(lease, Done(), self._admit(lease, yielded.requests), rows)

    def _admit(self, lease: Lease, requests: Sequence[Request]) -> tuple[Task, ...]:
        found: list[Task] = []
        links: list[Link] = []
        for request in self._unknown(lease.task, requests[: self._settings.max_links]):
            admitted = self._admission.admit(request, lease.task)
            if isinstance(admitted, Task):
                found.append(admitted)
            else:
                self._tally.refused(admitted.reason)
                if admitted.reason == "depth":
                    continue  # from a page nearer to the start it may be admitted
            if _is_link(request):
                links.append((request.base or lease.task.url, request.url))
        self._links[lease.token] = links
        return tuple(found)

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
            special += [links[href] for href in self._known.unknown(base, links)]
        return special

    # -- endings

    def _end(self, lease: Lease, verdict: Verdict | None, snapshot: Snapshot | None = None) -> Settlement:
        assert isinstance(verdict, Retry | Dead)
        last = lease.task.attempt >= (lease.task.max_attempts or self._settings.max_attempts)
        retry = isinstance(verdict, Retry) and not last
        self._tally.failed(lease.task.host, verdict.failure, retry=retry)
        return Settlement(lease, verdict, snapshot=snapshot)

    def _bury(self, lease: Lease, response: Response, kind: str, detail: str, trace: str = "") -> Settlement:
        seen = snapshot_of(response, self._settings) or Snapshot()
        snapshot = Snapshot(seen.status, seen.headers, seen.body, trace)
        return self._end(lease, Dead(self._failure(lease.task, kind, detail), snapshot))

    def _failure(self, task: Task, kind: str, detail: str) -> Failure:
        return Failure(kind, detail, at=self._clock.time(), attempt=task.attempt)


def _is_link(request: Request) -> bool:
    # Not with `anywhere`: the same link may have been refused before, without it.
    return request.dedupe and not request.anywhere and request.method == "GET" and request.body is None


def _unreachable(host: HostView) -> bool:
    return host.state.robots is not None and host.state.robots.verdict == "disallow"


def _fetch_request(task: Task) -> FetchRequest:
    return FetchRequest(
        task.url,
        task.method,
        task.headers,
        task.body,
        task.cookies,
        task.hops[-1] if task.hops else None,
    )


def _host_and_port(task: Task) -> tuple[str, int]:
    name, colon, port = task.host.rpartition(":")
    if colon and port.isdigit() and not name.endswith(":"):
        return name, int(port)
    return task.host, 443 if task.url.startswith("https:") else 80


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__
