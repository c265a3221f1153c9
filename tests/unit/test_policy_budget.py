"""Retries stay in proportion to first attempts (fault 34)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.policy.protocol import Limits, Observation
from shoal.policy.retry import MAX_SAVINGS, BudgetPolicy, BudgetState, RetryBudget
from shoal.settings import Settings

T = 1_750_000_000.0
budgets = st.floats(0, 3)
floors = st.integers(0, 20)


def seen(*, first: bool, retried: bool) -> Observation:
    return Observation(T, T + 1, "http_503", blames_host=True, first_attempt=first, retried=retried)


@given(budgets, floors, st.lists(st.tuples(st.booleans(), st.booleans()), max_size=300))
def test_a_host_never_gets_more_than_its_budget_and_the_floor(
    budget: float, floor: int, attempts: list[tuple[bool, bool]]
) -> None:
    policy = BudgetPolicy(Settings(retry_budget=budget, retry_budget_floor=floor))
    state, firsts, retries = BudgetState(), 0, 0
    for first, fails in attempts:
        retried = fails and policy.limits(state, T).no_retry is None
        state = policy.observe(state, seen(first=first, retried=retried))
        firsts, retries = firsts + first, retries + retried
        assert retries <= budget * firsts + floor + 1e-6


@given(budgets, floors, st.lists(st.booleans(), max_size=300))
def test_a_process_never_exceeds_its_budget(budget: float, floor: int, attempts: list[bool]) -> None:
    """True: a first attempt; False: something failed and asks for a retry."""
    rule = RetryBudget(Settings(retry_budget=budget, retry_budget_floor=floor))
    firsts = retries = 0
    for first in attempts:
        if first:
            firsts += 1
        elif rule.allows(firsts, retries):
            retries += 1
        assert retries <= max(floor, budget * firsts)
        if budget * firsts >= floor:
            assert firsts + retries <= firsts * (1 + budget) + 1e-9


def test_every_host_answers_503() -> None:
    """A thousand pages on a hundred hosts, nothing but failure: traffic grows by the budget, not by max_attempts."""
    rule, firsts, retries = RetryBudget(Settings()), 0, 0
    for _ in range(1000):
        firsts += 1
        for _ in range(4):
            retries += rule.allows(firsts, retries)
    assert firsts + retries == 1300


def test_a_small_crawl_may_retry() -> None:
    rule = RetryBudget(Settings())
    assert rule.allows(1, 0)
    assert not rule.allows(1, 10)


def test_a_process_that_begins_later_has_what_the_job_has_earned() -> None:
    """It may get nothing but retries of pages that others asked for first."""
    rule = RetryBudget(Settings())
    rule.resume(1000, 100)
    allowed = 0
    while rule.allows_retry():
        rule.retries, allowed = rule.retries + 1, allowed + 1
    assert allowed == 200, "0.3 of a thousand, less a hundred"


def test_a_process_that_begins_when_the_job_has_nothing_left_has_its_floor() -> None:
    rule = RetryBudget(Settings())
    rule.resume(1000, 300)
    allowed = 0
    while rule.allows_retry():
        rule.retries, allowed = rule.retries + 1, allowed + 1
    assert allowed == 10


def test_a_process_may_spend_what_the_others_save() -> None:
    """It began with the job, and meets most of its failures."""
    rule = RetryBudget(Settings())
    rule.first_attempts, rule.retries = 20, 10
    assert not rule.allows_retry()
    rule.hear(200, 12)
    allowed = 0
    while rule.allows_retry():
        rule.retries, allowed = rule.retries + 1, allowed + 1
    assert allowed == 18, "half of 0.3 * 200, less 12"
    rule.hear(200, 30)
    assert not rule.allows_retry()


def test_nobody_saves_when_everything_fails() -> None:
    """Twenty processes, each of which hears of the job after every page: all within the budget of the job."""
    rules = [RetryBudget(Settings()) for _ in range(20)]
    firsts = retries = 0
    for turn in range(2000):
        rule = rules[turn % 20]
        rule.first_attempts, firsts = rule.first_attempts + 1, firsts + 1
        while rule.allows_retry():
            rule.retries, retries = rule.retries + 1, retries + 1
        rule.hear(firsts, retries)
    assert retries <= 0.3 * firsts


def test_what_is_allowed_can_be_used() -> None:
    policy, state, retries = BudgetPolicy(Settings()), BudgetState(), 0
    while policy.limits(state, T).no_retry is None:
        state, retries = policy.observe(state, seen(first=False, retried=True)), retries + 1
    assert retries == 10
    for _ in range(4):
        state = policy.observe(state, seen(first=True, retried=False))
    assert policy.limits(state, T) == Limits()


def test_good_times_do_not_pay_for_a_storm() -> None:
    policy, state = BudgetPolicy(Settings()), BudgetState()
    for _ in range(10_000):
        state = policy.observe(state, Observation(T, T + 1, "ok"))
    assert state.balance == pytest.approx(MAX_SAVINGS)


def test_says_why() -> None:
    limits = BudgetPolicy(Settings()).limits(BudgetState(-10.0), T)
    assert limits.no_retry == limits.why == "no retries left for this host (retry_budget 0.3)"
