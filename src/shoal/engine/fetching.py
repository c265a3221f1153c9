"""Asking a host for a page: may it be asked, what did it answer, and what does that teach about it.

lease ──▶ limits, robots.txt ──▶ fetch ──▶ classify ──▶ an answer for the worker
               │                              └──▶ what was seen, for the host's policies
               └──▶ refused, or not now
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import scheme as scheme_of
from shoal.clock import Clock
from shoal.engine.escalation import Escalation
from shoal.fetch.challenge import Challenge, Challenges
from shoal.fetch.confined import Confined
from shoal.fetch.guard import Guard, Pin
from shoal.fetch.proxy.routes import BAN, REFUSALS, NoRoute, Routes
from shoal.fetch.robots import BUSY, RobotsRecord
from shoal.fetch.transport import FetchRequest, Rendered, Rendering, Transport
from shoal.hosts.cache import HostBook, HostView
from shoal.hosts.state import OriginState
from shoal.model import DOUBT, Dead, Failure, Lease, Outcome, Response, Retry, Snapshot, Task
from shoal.policy.budget import RetryBudget
from shoal.policy.escalation import Look
from shoal.policy.load import Traffic
from shoal.policy.outcomes import NOT_ASKED, judge, kind_of, rule_for, snapshot_of, this_life
from shoal.policy.protocol import TIMEOUTS, Limits, Observation
from shoal.policy.retry import backoff, retry_after
from shoal.settings import BROWSER, Settings

_NEXT = 1.0  # seconds until a page comes back that has left a probe to another
# Whoever asks for robots.txt and meets one of these would not get a page either.
_NOT_REACHED = frozenset({"dns", "connect", "reset", "too_slow"}) | TIMEOUTS
_DOUBTS = 5  # fetches of a page that may have failed by a proxy's fault, before one counts as an attempt
_UNSETTLED = frozenset({DOUBT, "proxy_gateway"})
_ELSEWHERE = 8  # times that a robots.txt is waited for which is on another, busy host: a few minutes


class Ending(Struct, frozen=True):
    """No page: what becomes of the task, and what was last seen of it."""

    verdict: Retry | Dead
    snapshot: Snapshot | None = None


class Asker:
    def __init__(
        self,
        settings: Settings,
        *,
        hosts: HostBook,
        transport: Transport,
        guard: Guard,
        traffic: Traffic,
        clock: Clock,
        rng: random.Random,
        routes: Routes | None = None,
        waits: Mapping[str, str] | None = None,
        browser: bool = False,
        confined: Confined | None = None,
    ) -> None:
        self._settings = settings
        self._confined = confined
        self._routes = routes
        self._waits = waits or {}  # what the pages of handlers wait for in a browser
        self._hosts = hosts
        self._transport = transport
        self._guard = guard
        self._traffic = traffic
        self._clock = clock
        self._rng = rng
        self._budget = RetryBudget(settings)
        self._challenges = Challenges(settings, browser=browser)
        self._escalation = Escalation(hosts, rng, on=self._challenges.escalates)
        self._first_attempts = 0
        self._retries = 0
        self._told: dict[tuple[str, int], Pin] = {}  # what the guard has been told of hosts that were typed

    async def ask(self, lease: Lease, host: HostView) -> Response | Ending | None:
        """A page or a redirect; or why there is none. None: the permission to hit the host was needed for its
        robots.txt, or was given by a valve that is out of date: the task goes back untouched."""
        self._open_guard(lease.task, host)
        try:
            return await self._ask(lease, host)
        finally:
            self._keep_pin(lease.task)

    async def _ask(self, lease: Lease, host: HostView) -> Response | Ending | None:
        task = lease.task
        if self._confined is not None and (untrusted := self._confined.refuses(task.url)) is not None:
            return Ending(
                Dead(self._failure(task, untrusted.kind, untrusted.detail))
            )  # not even its robots.txt
        limits = self._hosts.limits(lease, host)
        if limits is None:
            return None
        if limits.refuse:
            self._hosts.buries(task, limits)
            return Ending(Dead(self._failure(task, "host_down", limits.refuse)))
        if (wait := self._hosts.rest_of_origin(host, limits)) > 0:
            return self._not_asked(task, self._failure(task, "origin_wait", limits.why), wait)
        if limits.probe and await self._leaves_probe(task, limits):
            detail = f"it failed before, so another page finds out: {limits.why}"
            return self._not_asked(task, self._failure(task, "origin_wait", detail), self._next(lease))
        if self._hosts.wants_robots(task, host):
            if self._routes is not None and (held := self._routes.held(task)) is not None:
                return self._not_asked(task, held, held.wait)
            started = self._hosts.now()
            host = await self._hosts.ask_robots(
                lease, since=self._clock.monotonic(), timeout=self._timeout(task, host, limits)
            )
            known = _origin_of(task, host)
            if not known.robots_missing:
                read = Observation(
                    started,
                    self._hosts.now(),
                    "robots_read",
                    first_attempt=False,
                    origin=scheme_of(task.url),
                )
                self._hosts.saw(task.host, read)
                return None
            if known.robots is not None and not _is_not_the_hosts_fault(known):
                self._saw_no_robots(lease, known.robots, started)
        known = _origin_of(task, host)
        if host.terms.settings.robots and known.robots_missing and _is_not_the_hosts_fault(known):
            return self._wait_for_others(task, known)
        return self._refusal(task, host) or self._moves(task) or await self._fetch(lease, host, limits)

    async def _leaves_probe(self, task: Task, limits: Limits) -> bool:
        """Whether a page that failed before is set aside, so that another one finds out whether the host is back: the
        fault may be the page's own. Once in a probe, or pages that all failed would wait for each other."""
        failures = [past for past in this_life(task) if rule_for(past.kind).blames_host]
        if len(failures) < limits.probe or self._is_last(task):
            return False
        last, since = task.history[-1], self._hosts.now() - (limits.blocked_until or 0.0)
        if last.kind == "origin_wait" and self._clock.time() - last.at <= since:
            return False
        return await self._hosts.has_others(task)

    def _next(self, lease: Lease) -> float:
        """Seconds until another page has been given the probe."""
        return lease.interval + min(_NEXT, self._settings.breaker_cooldown)

    def _saw_no_robots(self, lease: Lease, record: RobotsRecord, started: float) -> None:
        """robots.txt could not be had: what that tells about the host."""
        kind = _cause(record)
        if record.asks is not None and record.status in (429, 503):
            kind = f"http_{record.status}"  # what it asks for is for the whole host
        reached = record.status > 0
        retried = not self._is_last(lease.task)
        self._saw(lease, kind, started, retried=retried, reached=reached, asks=record.asks)

    # -- before the fetch

    def _open_guard(self, task: Task, host: HostView) -> None:
        """For a host that was typed, as far as it is what it was when this job first asked for it."""
        pin = self._hosts.pin_of(host)
        if pin is not None and self._told.get(name := _host_and_port(task)) != pin:
            self._told[name] = pin
            self._guard.allow(*name, pin)

    def _keep_pin(self, task: Task) -> None:
        """Notes for everybody what the guard has learnt of a name that was typed."""
        if not self._told or (name := _host_and_port(task)) not in self._told:
            return
        pin = self._guard.pin(*name)
        if pin is not None and pin.networks is not None:
            self._hosts.pin(task.host, pin)

    def _refusal(self, task: Task, host: HostView) -> Ending | None:
        robots, known = host.robots.get(scheme_of(task.url)), _origin_of(task, host)
        if not host.terms.settings.robots or robots is None:
            return None
        if known.robots_missing:
            return Ending(self._wait_for_robots(task, known))
        if not robots.allows(task.url):
            return Ending(Dead(self._failure(task, "robots", "forbidden by robots.txt")))
        return None

    def placed(self, task: Task) -> Task:
        """A task that was just found, in the lane that suits what is known of pages like it."""
        return self._escalation.placed(task, self._clock.time())

    def _moves(self, task: Task) -> Ending | None:
        moves = self._escalation.moves(task, self._clock.time())
        return Ending(moves) if moves is not None else None

    def _wait_for_robots(self, task: Task, origin: OriginState) -> Retry:
        assert origin.robots is not None
        settings, record = self._settings, origin.robots
        wait = max(0.0, record.expires_at - self._hosts.now())
        spread = backoff(task.attempt, settings.retry_base, settings.retry_cap, self._rng)
        detail = f"robots.txt cannot be had: {record.detail or record.reason}"
        return Retry(wait + spread, self._failure(task, _cause(record), detail))

    def _wait_for_others(self, task: Task, origin: OriginState) -> Ending:
        """robots.txt cannot be had, for proxies fail, a name server is busy, or it redirects to a host that is."""
        assert origin.robots is not None
        kind = origin.robots.reason
        wait = max(0.0, origin.robots.expires_at - self._hosts.now())
        reason = rule_for(kind).meaning if kind == "dns_wait" else "the proxies fail"
        if _is_elsewhere(kind):
            kind, reason = "robots_unreachable", kind
        failure = self._failure(task, kind, f"robots.txt cannot be had: {reason}")
        return self._not_asked(task, failure, wait)

    def _not_asked(self, task: Task, failure: Failure, wait: float) -> Ending:
        """Nothing could be asked for, or not of the host, as far as is known: the task waits, and loses no attempt."""
        self._traffic.saw(task.host, failure.kind, 0.0, self._clock.monotonic(), retry=False)
        spread = self._rng.uniform(0.0, min(wait, self._settings.pool_cooldown))
        noted = Failure(
            failure.kind,
            failure.detail,
            at=self._clock.time(),
            status=failure.status,
            elapsed=failure.elapsed,
            via=failure.via,
        )
        return Ending(Retry(wait + spread, noted, counts=False))

    # -- the fetch, and what it tells

    async def _fetch(self, lease: Lease, host: HostView, limits: Limits) -> Response | Ending | None:
        started = self._hosts.now()
        request = self._request(lease.task, host, limits)
        if self._routes is not None:
            request = self._routes.addressed(request, lease.task)
        outcome = await self._transport.fetch(request)
        if isinstance(outcome, Failure) and outcome.kind == "forbidden_address" and _is_listed(lease.task):
            outcome = replace(outcome, detail=f"{outcome.detail}, or -s trust_start=true for all start URLs")
        if isinstance(outcome, Failure) and (outcome.kind in NOT_ASKED or self._is_free(lease.task, outcome)):
            return self._not_asked(lease.task, outcome, self._wait_after(outcome))
        challenge = self._challenge(lease.task, outcome)
        verdict = self._verdict(lease.task, outcome, challenge)
        kind = verdict.failure.kind if verdict is not None else kind_of(outcome)
        # A shell that goes to another lane has not failed: the budgets for retries are not for it.
        again = verdict if isinstance(verdict, Retry) and kind != "empty_shell" else None
        if again is not None and (reason := self._no_retry(lease.task)):
            detail = f"{again.failure.detail} ({reason})"
            verdict = Dead(replace(again.failure, detail=detail), snapshot_of(outcome, self._settings))
            again = None
        retried = again is not None and not self._is_last(lease.task)
        self._retries += retried
        is_look = request.rendering is None and kind != BAN
        look = self._escalation.look(lease.task, outcome, challenge) if is_look else None
        took = outcome.first_byte if isinstance(outcome, Rendered) else None
        asks = self._retry_after(outcome)
        self._saw(lease, kind, started, retried=retried, asks=asks, took=took, look=look)
        if verdict is not None and isinstance(outcome, Rendered):
            await outcome.close()
        if verdict is None:
            assert isinstance(outcome, Response)
            if self._routes is not None:
                self._routes.had(lease.task, outcome)
            return outcome
        return Ending(verdict, snapshot_of(outcome, self._settings))

    def _is_free(self, task: Task, failure: Failure) -> bool:
        """Whether it takes no attempt from the page, for it may be the proxy's fault."""
        if self._routes is None or failure.kind not in _UNSETTLED:
            return False
        return len(self._routes.doubted(task)) < _DOUBTS

    def _wait_after(self, failure: Failure) -> float:
        if isinstance(failure, NoRoute):
            return failure.wait
        return self._settings.dns_timeout if failure.kind == "dns_wait" else self._settings.retry_base

    def _challenge(self, task: Task, outcome: Outcome) -> Challenge | None:
        if not isinstance(outcome, Response) or kind_of(outcome) == "redirect":
            return None
        return self._challenges.look(outcome, asked=task.origin)

    def _verdict(self, task: Task, outcome: Outcome, challenge: Challenge | None) -> Retry | Dead | None:
        """None: a page, or a redirect."""
        if isinstance(outcome, Response) and kind_of(outcome) != "redirect":
            if outcome.via and (detour := self._detour(task, outcome, challenge)) is not None:
                return detour
            last_shell = challenge is not None and challenge.kind == "empty_shell" and self._is_last(task)
            if challenge is not None and not last_shell:  # with no attempt left, the handler has it as it is
                routed = self._challenges.route(
                    challenge, outcome, task, now=self._clock.time(), rng=self._rng
                )
                if routed is not None:
                    return routed
        verdict = judge(outcome, task, self._settings, now=self._clock.time(), rng=self._rng)
        assert verdict is None or isinstance(verdict, Retry | Dead)
        return verdict

    def _detour(self, task: Task, response: Response, challenge: Challenge | None) -> Retry | None:
        """A host that refuses may mean the proxy and not the page: whether that is so, another proxy will show."""
        refused = response.status in REFUSALS and response.status not in self._settings.handle_status
        walled = challenge is not None and challenge.kind not in ("login_wall", "empty_shell")
        if self._routes is None or not (refused or walled):
            return None
        self._routes.refused(task, response)
        if not self._routes.detour(task, response.via):
            return None
        what = str(challenge) if challenge is not None else f"HTTP {response.status}"
        failure = replace(self._failure(task, BAN, f"{what}, through {response.via}"), status=response.status)
        failure = replace(failure, elapsed=response.elapsed, via=response.via)
        return Retry(backoff(1, self._settings.retry_base, self._settings.retry_cap, self._rng), failure)

    async def keep(self, *, everything: bool = False) -> None:
        """Writes back what was learnt about proxies."""
        if self._routes is not None:
            await self._routes.keep(everything=everything)

    def _request(self, task: Task, host: HostView, limits: Limits) -> FetchRequest:
        if task.lane == BROWSER and not self._escalation.is_plain(task):
            wait = task.wait_for or self._waits.get(task.handler, "")
            # A page with its scripts has all the time there is: the host's own timeout is for its answers alone.
            longest = host.terms.settings.total_timeout
            return replace(_fetch_request(task, longest), rendering=Rendering(wait))
        return _fetch_request(task, self._timeout(task, host, limits))

    def _timeout(self, task: Task, host: HostView, limits: Limits) -> float | None:
        """The host's timeout; for a page that was cut off before, at least twice what was not enough for it. Some
        pages are slower than their host is, and would never be had in the time that the others need."""
        if limits.timeout is None:
            return None
        cut_off_after = max((past.elapsed for past in task.history if past.kind in TIMEOUTS), default=0.0)
        longest = limits.longest_timeout or host.terms.settings.total_timeout
        return max(limits.timeout, min(longest, 2 * cut_off_after))

    def _no_retry(self, task: Task) -> str | None:
        """Why a failed fetch is not repeated, though its task has attempts left."""
        if (reason := self._hosts.no_retry(task.host)) or self._is_last(task):
            return reason
        if not self._budget.allows(self._first_attempts, self._retries):
            return f"too many retries in the whole crawl (retry_budget {self._settings.retry_budget:g})"
        return None

    def _is_last(self, task: Task) -> bool:
        return task.attempt >= (task.max_attempts or self._settings.max_attempts)

    def _saw(
        self,
        lease: Lease,
        kind: str,
        started: float,
        *,
        retried: bool,
        asks: float | None = None,
        reached: bool = False,
        took: float | None = None,
        look: Look | None = None,
    ) -> None:
        """`took`: what of the time was the host's; of a page in a browser, most was its scripts'."""
        first = lease.task.attempt == 1 and not lease.task.hops
        self._first_attempts += first
        seen = Observation(
            started=started,
            ended=self._hosts.now() if took is None else started + took,
            kind=kind,
            blames_host=rule_for(kind).blames_host,
            retry_after=asks,
            first_attempt=first,
            retried=retried,
            interval=lease.interval,
            reached=reached,
            look=look,
            origin=scheme_of(lease.task.url),
        )
        self._hosts.saw(lease.task.host, seen)
        self._traffic.saw(lease.task.host, kind, seen.elapsed, self._clock.monotonic(), retry=retried)

    def _retry_after(self, outcome: Outcome) -> float | None:
        if not isinstance(outcome, Response) or outcome.status < 400:
            return None
        return retry_after(
            outcome.headers.get("Retry-After"), self._clock.time(), self._settings.retry_after_cap
        )

    def _failure(self, task: Task, kind: str, detail: str) -> Failure:
        return Failure(kind, detail, at=self._clock.time(), attempt=task.attempt)


def _is_listed(task: Task) -> bool:
    """A start URL from a file or a function, which is not trusted as a typed one is."""
    return task.parent == 0 and not task.typed and not task.hops


def _origin_of(task: Task, host: HostView) -> OriginState:
    return host.state.origin(scheme_of(task.url))


def _cause(record: RobotsRecord) -> str:
    """Why robots.txt cannot be had: what kept us from the host, or that there is none to be had there."""
    return record.reason if record.reason in _NOT_REACHED else "robots_unreachable"


def _is_not_the_hosts_fault(origin: OriginState) -> bool:
    if origin.robots is None:
        return False
    reason = origin.robots.reason
    if reason.startswith("proxy") or reason == "dns_wait":
        return True
    return _is_elsewhere(reason) and origin.silent <= _ELSEWHERE


def _is_elsewhere(reason: str) -> bool:
    return reason.startswith(BUSY)


def _fetch_request(task: Task, timeout: float | None) -> FetchRequest:
    return FetchRequest(
        task.url,
        task.method,
        task.headers,
        task.body,
        task.cookies,
        task.hops[-1] if task.hops else None,
        timeout,
    )


def _host_and_port(task: Task) -> tuple[str, int]:
    name, colon, port = task.host.rpartition(":")
    if colon and port.isdigit() and not name.endswith(":"):
        return name, int(port)
    return task.host, 443 if task.url.startswith("https:") else 80
