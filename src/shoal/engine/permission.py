"""Decides whether a page may be fetched now, by its host's limits, breaker and robots.txt."""

from __future__ import annotations

import random

from msgspec import Struct

from shoal.admit.identity import scheme as scheme_of
from shoal.engine.escalation import Escalation
from shoal.engine.judging import Judge
from shoal.engine.learning import Learner
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.robots_fetch import BUSY, RobotsRecord
from shoal.fetch.transports import RestrictedTransport
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.frontier.verdicts import is_last_attempt
from shoal.hosts.cache import HostCache, HostView
from shoal.hosts.host_state import OriginState
from shoal.hosts.robots import RobotsFetcher
from shoal.model import Dead, Failure, Lease, Retry, Task
from shoal.policy.load import PROXY
from shoal.policy.outcomes import rule_for, this_life
from shoal.policy.protocol import TIMEOUTS, Limits
from shoal.policy.retry import backoff
from shoal.settings import Settings

_NEXT = 1.0  # seconds until a page comes back that has left the probe to another page
# If robots.txt fails with one of these, a page would too.
_NOT_REACHED = frozenset({"dns", "connect", "reset", "too_slow"}) | TIMEOUTS
_ELSEWHERE = 8  # how often to wait for a robots.txt on another, busy host: a few minutes


class Permit(Struct, frozen=True):
    """The page may be fetched."""

    host: HostView  # with its robots.txt, if it could be fetched
    timeout: float | None  # seconds for the whole answer; None: that of the settings


class Permission:
    def __init__(
        self,
        settings: Settings,
        frontier: Frontier,
        hosts: HostCache,
        routes: Routes,
        robots: RobotsFetcher,
        judge: Judge,
        learner: Learner,
        escalation: Escalation,
        clock: FrontierClock,
        rng: random.Random,
        confined: RestrictedTransport | None = None,
    ) -> None:
        self._settings = settings
        self._frontier = frontier
        self._hosts = hosts
        self._robots = robots
        self._judge = judge
        self._learner = learner
        self._escalation = escalation
        self._clock = clock
        self._rng = rng
        self._routes = routes
        self._confined = confined

    async def ask(self, lease: Lease, host: HostView) -> Permit | Retry | Dead | None:
        """None: the task goes back untouched. Its lease was used to fetch robots.txt, or its host's valve was out of
        date."""
        task = lease.task
        if self._confined is not None and (untrusted := self._confined.refuses(task.url)) is not None:
            return Dead(self._failure(task, untrusted.kind, untrusted.detail))  # not even its robots.txt
        limits = self._hosts.limits(lease, host)
        if limits is None:
            return None
        if limits.refuse:
            self._hosts.given_up.bury(task, limits.refuse_until or 0.0)
            return Dead(self._failure(task, "host_down", limits.refuse))
        if (wait := _rest_of_origin(host, limits, self._clock.now())) > 0:
            return self._postpone(task, self._failure(task, "origin_wait", limits.why), wait)
        if limits.probe and await self._leaves_probe(task, limits):
            detail = f"it failed before, so another page finds out: {limits.why}"
            return self._postpone(task, self._failure(task, "origin_wait", detail), self._next(lease))
        timeout = _timeout(task, host, limits)
        if self._robots.is_due(task, host):
            if (held := self._routes.no_route_now(task)) is not None:
                return self._postpone(task, held, held.wait)
            read = await self._ask_robots(lease, timeout)
            if read is None:
                return None
            host = read
        return self.by_robots(task, host) or self._other_lane(task) or Permit(host, timeout)

    def _postpone(self, task: Task, failure: Failure, wait: float) -> Retry:
        self._learner.not_asked(task, failure.kind)
        return self._judge.postpone(failure, wait)

    # -- a host that failed

    async def _leaves_probe(self, task: Task, limits: Limits) -> bool:
        """Whether a page that failed before lets another page probe the host, because the fault may be the page's own.
        Once in a probe only: otherwise pages that all failed would wait for each other."""
        failures = [past for past in this_life(task) if rule_for(past.kind).blames_host]
        if len(failures) < limits.probe:
            return False
        last, since = task.history[-1], self._clock.now() - (limits.blocked_until or 0.0)
        if last.kind == "origin_wait" and self._clock.time() - last.at <= since:
            return False
        return await self._has_others(task)

    async def _has_others(self, task: Task) -> bool:
        """Whether other tasks wait in the task's queue."""
        queues = await self._frontier.host_queues(task.host)
        return any(queue.pending for queue in queues if (queue.job, queue.lane) == (task.job, task.lane))

    def _next(self, lease: Lease) -> float:
        """Seconds after which another page has the probe."""
        return lease.interval + min(_NEXT, self._settings.breaker_cooldown)

    # -- robots.txt

    async def _ask_robots(self, lease: Lease, timeout: float | None) -> HostView | None:
        """Fetches robots.txt. None: it was read, and the lease is used up. Otherwise the host, without its
        robots.txt."""
        started = self._clock.now()
        host = await self._robots.fetch(lease, since=self._clock.monotonic(), timeout=timeout)
        known = _origin_of(lease.task, host)
        if not known.robots_missing:
            self._learner.robots_read(lease.task, started)
            return None
        if known.robots is not None and not _is_not_the_hosts_fault(known):
            record = known.robots
            kind = _cause(record)
            if record.asks is not None and record.status in (429, 503):
                kind = f"http_{record.status}"  # its Retry-After is for the whole host
            retried = not is_last_attempt(lease.task, self._settings.max_attempts)
            self._learner.observe(
                lease, kind, started, retried=retried, reached=record.status > 0, asks=record.asks
            )
        return host

    def by_robots(self, task: Task, host: HostView) -> Retry | Dead | None:
        """Why robots.txt does not let the task be fetched now; None: it does."""
        robots, known = host.robots.get(scheme_of(task.url)), _origin_of(task, host)
        if not host.terms.settings.robots:
            return None
        if known.robots_missing and _is_not_the_hosts_fault(known):
            return self._wait_for_others(task, known)
        if robots is None:
            return None
        if known.robots_missing:
            return self._wait_for_robots(task, known)
        if not robots.allows(task.url):
            return Dead(self._failure(task, "robots", "forbidden by robots.txt"))
        return None

    def _wait_for_robots(self, task: Task, origin: OriginState) -> Retry:
        assert origin.robots is not None
        settings, record = self._settings, origin.robots
        wait = max(0.0, record.expires_at - self._clock.now())
        spread = backoff(task.attempt, settings.retry_base, settings.retry_cap, self._rng)
        detail = f"robots.txt cannot be fetched: {record.detail or record.reason}"
        return Retry(wait + spread, self._failure(task, _cause(record), detail))

    def _wait_for_others(self, task: Task, origin: OriginState) -> Retry:
        """robots.txt cannot be fetched because proxies fail, or a name server or the host it redirects to is busy."""
        assert origin.robots is not None
        kind = origin.robots.reason
        wait = max(0.0, origin.robots.expires_at - self._clock.now())
        reason = rule_for(kind).meaning if kind == "dns_wait" else "the proxies fail"
        if _is_elsewhere(kind):
            kind, reason = "robots_unreachable", kind
        return self._postpone(
            task, self._failure(task, kind, f"robots.txt cannot be fetched: {reason}"), wait
        )

    def _other_lane(self, task: Task) -> Retry | None:
        return self._escalation.moves(task, self._clock.time())

    def _failure(self, task: Task, kind: str, detail: str) -> Failure:
        return Failure(kind, detail, at=self._clock.time(), attempt=task.attempt)


def _timeout(task: Task, host: HostView, limits: Limits) -> float | None:
    """The host's timeout; for a page that was cut off before, at least twice the time that was not enough. Some pages
    are much slower than the others of their host."""
    if limits.timeout is None:
        return None
    cut_off_after = max((past.elapsed for past in task.history if past.kind in TIMEOUTS), default=0.0)
    longest = limits.longest_timeout or host.terms.settings.total_timeout
    return max(limits.timeout, min(longest, 2 * cut_off_after))


def _rest_of_origin(host: HostView, limits: Limits, now: float) -> float:
    """Seconds that a task waits for its origin while another origin of the host may be fetched. If none may, the host's
    valve is shut, and the task it lets through is the probe."""
    until = limits.blocked_until or 0.0
    return until - now if until > (host.limits.blocked_until or 0.0) else 0.0


def _origin_of(task: Task, host: HostView) -> OriginState:
    return host.state.origin(scheme_of(task.url))


def _cause(record: RobotsRecord) -> str:
    """Why robots.txt could not be fetched: the host was not reached, or it has no usable robots.txt."""
    return record.reason if record.reason in _NOT_REACHED else "robots_unreachable"


def _is_not_the_hosts_fault(origin: OriginState) -> bool:
    if origin.robots is None:
        return False
    reason = origin.robots.reason
    if reason.startswith(PROXY) or reason == "dns_wait":
        return True
    return _is_elsewhere(reason) and origin.silent <= _ELSEWHERE


def _is_elsewhere(reason: str) -> bool:
    return reason.startswith(BUSY)
