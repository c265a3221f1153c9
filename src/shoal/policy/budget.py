"""Retries are paid for by first attempts, so that failure does not multiply traffic. Pure.

A host has `retry_budget_floor` retries to begin with. Every first attempt earns it `retry_budget` of another, up to a
limit: good times long ago do not pay for a storm. With nothing left, a failure is final.
"""

from __future__ import annotations

from msgspec import Struct

from shoal.policy.protocol import NO_LIMITS, Limits, Observation
from shoal.settings import Settings

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
    """The budget of the whole process, for when every host fails.

    The floor helps small crawls only: once first attempts have earned as much, requests in all never exceed
    first attempts * (1 + retry_budget).
    """

    def __init__(self, settings: Settings) -> None:
        self._earned = settings.retry_budget
        self._floor = settings.retry_budget_floor
        self.first_attempts = 0
        self.retries = 0

    def allows_retry(self) -> bool:
        return self.allows(self.first_attempts, self.retries)

    def allows(self, first_attempts: int, retries: int) -> bool:
        """Whether one more retry may be made after these."""
        return retries + 1 <= max(self._floor, self._earned * first_attempts)
