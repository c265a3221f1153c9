"""Records what a fetch says about its host, about pages that need a browser, about proxies and about our own traffic.

The judge decides and counts nothing; this counts and decides nothing.
"""

from __future__ import annotations

from shoal.admit.identity import scheme as scheme_of
from shoal.engine.escalation import Escalation
from shoal.engine.fetching import Fetched
from shoal.engine.judging import Judgement
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.proxy.signs import BAN
from shoal.frontier.clock import FrontierClock
from shoal.hosts.cache import HostCache
from shoal.model import Lease, Outcome, Response, Task
from shoal.policy.escalation import Look
from shoal.policy.load import Traffic
from shoal.policy.outcomes import rule_for
from shoal.policy.protocol import Observation
from shoal.policy.retry import RetryBudget, retry_after
from shoal.settings import Settings
from shoal.spider.rendering import Rendered


class Learner:
    def __init__(
        self,
        settings: Settings,
        hosts: HostCache,
        routes: Routes,
        budget: RetryBudget,
        escalation: Escalation,
        traffic: Traffic,
        clock: FrontierClock,
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._escalation = escalation
        self._traffic = traffic
        self._budget = budget
        self._clock = clock
        self._routes = routes

    def record(self, lease: Lease, fetched: Fetched, judgement: Judgement) -> None:
        task, outcome, kind = lease.task, fetched.outcome, judgement.kind
        if not judgement.asked:
            self.not_asked(task, kind)
            return
        if isinstance(outcome, Response):
            if judgement.refused:
                self._routes.record_refusal(task, outcome)
            if judgement.verdict is None:
                self._routes.record_page(task, outcome)
        self._budget.retries += judgement.retried
        is_plain = fetched.request.rendering is None and kind != BAN
        look = self._escalation.look(task, judgement.kind, judgement.challenge) if is_plain else None
        took = outcome.first_byte if isinstance(outcome, Rendered) else None
        asks = self._asks(outcome)
        self.observe(lease, kind, fetched.started, retried=judgement.retried, asks=asks, took=took, look=look)

    def not_asked(self, task: Task, kind: str) -> None:
        self._traffic.record(task.host, kind, 0.0, self._clock.monotonic(), retry=False)

    def robots_read(self, task: Task, started: float) -> None:
        seen = Observation(
            started,
            self._clock.now(),
            "robots_read",
            first_attempt=False,
            origin=scheme_of(task.url),
        )
        self._hosts.record(task.host, seen)

    def observe(
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
        """`took`: the seconds that the host took. Of the time of a page in a browser, most is that of its scripts."""
        first = lease.task.attempt == 1 and not lease.task.hops
        self._budget.first_attempts += first
        seen = Observation(
            started=started,
            ended=self._clock.now() if took is None else started + took,
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
        self._hosts.record(lease.task.host, seen)
        self._traffic.record(lease.task.host, kind, seen.elapsed, self._clock.monotonic(), retry=retried)

    def _asks(self, outcome: Outcome) -> float | None:
        """Seconds of the Retry-After header, if the answer is an error."""
        if not isinstance(outcome, Response) or outcome.status < 400:
            return None
        asked = outcome.headers.get("Retry-After")
        return retry_after(asked, self._clock.time(), self._settings.retry_after_cap)
