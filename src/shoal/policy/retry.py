"""When to try again: full-jitter backoff, and what a server asks for with Retry-After. Pure."""

from __future__ import annotations

import random
import re

from msgspec import Struct

from shoal.clock import http_date
from shoal.policy.protocol import NO_LIMITS, Limits, Observation
from shoal.settings import Settings

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_MAX_EXPONENT = 62  # beyond any cap, and far below where floats overflow
_JITTER = 0.1  # share of a Retry-After that is added at random


def backoff(attempt: int, base: float, cap: float, rng: random.Random) -> float:
    """Full jitter: random in 0 … base * 2^(attempt - 1), at most `cap`. `attempt` counts from 1."""
    exponent = min(max(attempt, 1) - 1, _MAX_EXPONENT)
    return rng.uniform(0.0, min(cap, base * 2.0**exponent))


def retry_after(value: str | None, now: float, cap: float) -> float | None:
    """Seconds to wait by a Retry-After header (seconds or an HTTP date); None if it says nothing usable."""
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), cap)
    when = http_date(value)
    return min(when - now, cap) if when is not None and when > now else None


def delay(
    attempt: int, *, base: float, cap: float, rng: random.Random, server_asks: float | None = None
) -> float:
    """How long to wait before the next attempt: never less than what the server asks for.

    The jitter on top keeps tasks that were turned away together from coming back together.
    """
    if server_asks:
        return server_asks + rng.uniform(0.0, max(base, server_asks * _JITTER))
    return backoff(attempt, base, cap, rng)


# -- retry budgets: first attempts pay for retries, so that failures do not multiply traffic.
#
# A host starts with `retry_budget_floor` retries. Every first attempt earns `retry_budget` of a retry, up to a limit:
# old successes do not pay for a storm. With nothing left, a failure is final.


MAX_SAVINGS = 100.0  # retries, beyond the floor


class BudgetState(Struct, frozen=True, omit_defaults=True):
    balance: float = 0.0  # retries earned less retries spent; the floor is not in it


class BudgetPolicy:
    name = "budget"
    State = BudgetState

    def __init__(self, settings: Settings) -> None:
        self._earned = settings.retry_budget
        self._floor = settings.retry_budget_floor
        reason = f"no retries left for this host (retry_budget {self._earned:g})"
        self._used_up = Limits(no_retry=reason, why=reason)

    def observe(self, state: BudgetState, seen: Observation) -> BudgetState:
        balance = state.balance
        if seen.first_attempt:
            balance = min(MAX_SAVINGS, balance + self._earned)
        if seen.retried:
            balance -= 1
        return state if balance == state.balance else BudgetState(balance)

    def limits(self, state: BudgetState, now: float) -> Limits:
        return NO_LIMITS if self._floor + state.balance >= 1 else self._used_up


class RetryBudget:
    """The budget of a job in one process, for when every host fails.

    A process has `retry_budget_floor` retries of its own. Beyond these it goes by the whole job: what other processes
    did before it began (`resume`), and what it did itself. Once first attempts have earned the floor, requests in all
    never exceed first attempts * (1 + retry_budget).

    A process may get many retries of pages that others asked for first. So it may also spend what the others save:
    as long as the whole job has used less than half of its budget (`hear`). When everything fails, it never has.
    """

    def __init__(self, settings: Settings) -> None:
        self._earned = settings.retry_budget
        self._floor = settings.retry_budget_floor
        self._before = 0, 0  # first attempts and retries of the job before this process
        self._spare = 0  # retries that this process may make in all, as the others make few
        self.first_attempts = 0
        self.retries = 0

    def resume(self, first_attempts: int, retries: int) -> None:
        """The job has made these before this process began."""
        self._before = first_attempts, retries

    def hear(self, first_attempts: int, retries: int) -> None:
        """The job has made these by now, in all processes."""
        left = int(self._earned * first_attempts / 2) - retries
        self._spare = self.retries + max(0, left)

    def allows_retry(self) -> bool:
        if self.retries < self._floor or self.retries < self._spare:
            return True
        first_attempts, retries = self._before
        return self.allows(first_attempts + self.first_attempts, retries + self.retries)

    def allows(self, first_attempts: int, retries: int) -> bool:
        """Whether one more retry may be made after these."""
        return retries + 1 <= max(self._floor, self._earned * first_attempts)
