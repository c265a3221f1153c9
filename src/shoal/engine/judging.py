"""Decides what an outcome means for a page. Nothing else decides this.

not sent, or perhaps the proxy's fault ──▶ the page waits, and loses no attempt
a challenge ──▶ another route, if there is one
otherwise the table of `policy/outcomes.py` ──▶ a page, a redirect, a retry if the budgets allow it, or a dead letter
"""

from __future__ import annotations

import random

from msgspec import Struct
from msgspec.structs import replace

from shoal.fetch.challenge import Challenge, Challenges
from shoal.fetch.proxy.choosing import NoRoute
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.proxy.signs import BAN, REFUSALS
from shoal.frontier.clock import FrontierClock
from shoal.frontier.verdicts import is_last_attempt
from shoal.hosts.cache import HostCache
from shoal.model import DOUBT, Dead, Failure, Outcome, Response, Retry, Snapshot, Task
from shoal.policy.outcomes import NOT_ASKED, judge, kind_of, snapshot_of
from shoal.policy.retry import RetryBudget, backoff
from shoal.settings import Settings

_DOUBTS = 5  # failures of a page that may be a proxy's fault, before one counts as an attempt
_UNSETTLED = frozenset({DOUBT, "proxy_gateway"})


class Judgement(Struct, frozen=True):
    kind: str  # as in policy/outcomes.py
    verdict: Retry | Dead | None = None  # None: a page for its handler, or a redirect
    snapshot: Snapshot | None = None  # of the answer that was not the page
    challenge: Challenge | None = None
    asked: bool = True  # False: it says nothing about the host
    retried: bool = False  # it costs the host another request
    refused: bool = False  # by the host, perhaps because of the proxy


class Judge:
    def __init__(
        self,
        settings: Settings,
        hosts: HostCache,
        routes: Routes,
        budget: RetryBudget,
        challenges: Challenges,
        clock: FrontierClock,
        rng: random.Random,
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._budget = budget
        self._challenges = challenges
        self._clock = clock
        self._rng = rng
        self._routes = routes

    def judge(self, task: Task, outcome: Outcome) -> Judgement:
        kind = kind_of(outcome)
        if isinstance(outcome, Failure) and (kind in NOT_ASKED or self._is_free(task, outcome)):
            return Judgement(kind, self.postpone(outcome, self._wait_after(outcome)), asked=False)
        challenge, refused = None, False
        if isinstance(outcome, Response) and kind != "redirect":
            challenge = self._challenges.look(outcome, asked=task.origin)
            refused = self._is_refused(outcome, challenge)
        verdict = self._verdict(task, outcome, challenge, refused)
        if verdict is None:
            return Judgement(kind, challenge=challenge, refused=refused)
        snapshot, kind, retried = snapshot_of(outcome, self._settings), verdict.failure.kind, False
        # An empty shell that goes to another lane has not failed, and needs no budget.
        if isinstance(verdict, Retry) and kind != "empty_shell":
            if reason := self._no_retry(task):
                detail = f"{verdict.failure.detail} ({reason})"
                verdict = Dead(replace(verdict.failure, detail=detail), snapshot)
            else:
                retried = not is_last_attempt(task, self._settings.max_attempts)
        return Judgement(kind, verdict, snapshot, challenge, retried=retried, refused=refused)

    def postpone(self, failure: Failure, wait: float) -> Retry:
        """The task waits, and loses no attempt: nothing was sent, or perhaps not to the host."""
        spread = self._rng.uniform(0.0, min(wait, self._settings.pool_cooldown))
        noted = Failure(
            failure.kind,
            failure.detail,
            at=self._clock.time(),
            status=failure.status,
            elapsed=failure.elapsed,
            via=failure.via,
        )
        return Retry(wait + spread, noted, counts=False)

    def _verdict(
        self, task: Task, outcome: Outcome, challenge: Challenge | None, refused: bool
    ) -> Retry | Dead | None:
        if isinstance(outcome, Response):
            if refused and (detour := self._detour(task, outcome, challenge)) is not None:
                return detour
            if challenge is not None and (routed := self._route(task, outcome, challenge)) is not None:
                return routed
        verdict = judge(outcome, task, self._settings, now=self._clock.time(), rng=self._rng)
        assert verdict is None or isinstance(verdict, Retry | Dead)
        return verdict

    # -- proxies

    def _is_free(self, task: Task, failure: Failure) -> bool:
        """Whether the page loses no attempt, because it may be the proxy's fault."""
        return failure.kind in _UNSETTLED and len(self._routes.doubtful_proxies(task)) < _DOUBTS

    def _wait_after(self, failure: Failure) -> float:
        if isinstance(failure, NoRoute):
            return failure.wait
        return self._settings.dns_timeout if failure.kind == "dns_wait" else self._settings.retry_base

    def _is_refused(self, response: Response, challenge: Challenge | None) -> bool:
        if not response.via:
            return False
        if response.status in REFUSALS and response.status not in self._settings.handle_status:
            return True
        return challenge is not None and challenge.kind not in ("login_wall", "empty_shell")

    def _detour(self, task: Task, response: Response, challenge: Challenge | None) -> Retry | None:
        """A retry through another proxy, if there is one: the host may have refused the proxy and not the page."""
        if not self._routes.has_other_route(task, response.via):
            return None
        what = str(challenge) if challenge is not None else f"HTTP {response.status}"
        failure = Failure(
            BAN,
            f"{what}, through {response.via}",
            at=self._clock.time(),
            status=response.status,
            elapsed=response.elapsed,
            attempt=task.attempt,
            via=response.via,
        )
        return Retry(backoff(1, self._settings.retry_base, self._settings.retry_cap, self._rng), failure)

    # -- challenges and retries

    def _route(self, task: Task, response: Response, challenge: Challenge) -> Retry | Dead | None:
        if challenge.kind == "empty_shell" and is_last_attempt(task, self._settings.max_attempts):
            return None  # no attempt is left, so the handler gets the page as it is
        return self._challenges.route(challenge, response, task, now=self._clock.time(), rng=self._rng)

    def _no_retry(self, task: Task) -> str | None:
        """Why a failed fetch is not repeated although its task has attempts left."""
        if (reason := self._hosts.no_retry(task.host)) or is_last_attempt(task, self._settings.max_attempts):
            return reason
        if not self._budget.allows_retry():
            return f"too many retries in the whole crawl (retry_budget {self._settings.retry_budget:g})"
        return None
