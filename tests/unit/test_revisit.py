"""When pages are visited again: what is learned of their rates, what a budget buys, and what cannot break the plan."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Request, Spider
from shoal.errors import SpiderError
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.hosts.cache import HostCache
from shoal.hosts.host_state import HostState, encode_state, state_of
from shoal.model.pace import Pace, read_pace
from shoal.policy import revisit
from shoal.policy.change_rate import CLASSES, RATES, chances, noted, unpacked, worth
from shoal.policy.compose import first_valve
from shoal.policy.revisit import (
    DAY,
    NO_PLAN,
    RevisitPlan,
    Visit,
    learned,
    wait,
    with_visit,
)
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

START = 1_750_000_000.0
HOUR = 3600.0
PACE = Pace(300.0, 30 * DAY, auto=True)
EVEN = [1 / CLASSES] * CLASSES

visits = st.lists(st.tuples(st.booleans(), st.floats(60.0, 60 * DAY)), max_size=30)
any_float = st.floats(allow_nan=True, allow_infinity=True)


def after(history: list[tuple[bool, float]], plan: RevisitPlan = NO_PLAN) -> bytes:
    rate = learned(b"", changed=True, waited=0.0, plan=plan)
    for changed, waited in history:
        rate = learned(rate, changed=changed, waited=waited, plan=plan)
    return rate


def followed(rates: list[float], budget: float, days: float, seed: int = 1) -> tuple[RevisitPlan, list[int]]:
    """The plan after pages of these rates were followed for a while, and how often each was visited."""
    rng = random.Random(seed)
    plan, known, made = NO_PLAN, [b""] * len(rates), [0] * len(rates)
    due = dict.fromkeys(range(len(rates)), 0.0)
    last, changes = [0.0] * len(rates), [rng.expovariate(rate) for rate in rates]
    while (now := min(due.values())) < days * DAY:
        page = min(due, key=due.__getitem__)
        waited, changed = now - last[page], changes[page] <= now
        new = learned(known[page], changed=changed, waited=waited, plan=plan)
        due[page] = now + wait(PACE, new, plan, budget=budget, jitter=rng.random())
        plan = with_visit(plan, Visit(known[page], new, changed, waited, 0.0, budget), START + now)
        made[page] += bool(known[page])
        known[page], last[page] = new, now
        if changed:
            changes[page] = now + rng.expovariate(rates[page])
    return plan, made


# -- what a person writes


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("1h", Pace(HOUR, HOUR)),
        (" 90s ", Pace(90.0, 90.0)),
        ("1.5d", Pace(1.5 * DAY, 1.5 * DAY)),
        ("auto", Pace(300.0, 7 * DAY, auto=True)),
        ("auto 10m-2w", Pace(600.0, 14 * DAY, auto=True)),
        ("never", None),
        ("", None),
    ],
)
def test_a_pace_is_read(text: str, pace: Pace | None) -> None:
    assert read_pace(text, "5m", 7 * DAY) == pace


@pytest.mark.parametrize(
    "text", ["soon", "0s", "-1h", "1y", "auto 1h", "auto 2d-1h", "autox", "1e9h", "9" * 500 + "d"]
)
def test_what_is_no_pace_is_told_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|comes first") as caught:
        read_pace(text, 300.0, 7 * DAY)
    assert len(str(caught.value)) < 150


@given(st.text(max_size=60))
def test_any_text_is_a_pace_or_an_error(text: str) -> None:
    try:
        pace = read_pace(text, 300.0, 7 * DAY)
    except ValueError:
        return
    assert pace is None or 1.0 <= pace.shortest <= pace.longest


# -- one page


@given(visits, st.booleans(), st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e5]))
def test_waits_are_within_their_bounds(
    history: list[tuple[bool, float]], known: bool, jitter: float, budget: float
) -> None:
    plan = with_visit(NO_PLAN, Visit(after=after([(True, DAY)]), budget=budget), START) if known else NO_PLAN
    for pace in (PACE, Pace(DAY, 2 * DAY, auto=True), Pace(HOUR, HOUR, auto=True)):
        seconds = wait(pace, after(history, plan), plan, budget=budget, jitter=jitter)
        assert pace.shortest <= seconds <= pace.longest


@given(visits, st.floats(60.0, 60 * DAY))
def test_a_change_makes_the_next_visit_sooner_than_none(
    history: list[tuple[bool, float]], waited: float
) -> None:
    """With the same visits before, and without a budget: with one, a page that changes too often waits longer."""
    rate = after(history)
    sooner, later = (
        wait(PACE, learned(rate, changed=changed, waited=waited, plan=NO_PLAN), NO_PLAN)
        for changed in (True, False)
    )
    assert sooner <= later * 1.0001


@given(visits)
def test_what_the_chances_say_is_what_the_visits_say(history: list[tuple[bool, float]]) -> None:
    """Compared with the product of the visits' chances, each with its own wait and weight. The geometric mean is not
    exact where waits differ, so they are made equal here."""
    evidence = unpacked(after([]))
    assert evidence is not None
    logs = [0.0] * CLASSES
    for changed, _ in history[:8]:
        watched = evidence.changes + evidence.quiet / DAY
        evidence = noted(evidence, changed, DAY)
        kept = (evidence.changes + evidence.quiet / DAY - 1) / watched if watched else 1.0
        logs = [
            kept * value + (math.log(-math.expm1(-rate * DAY)) if changed else -rate * DAY)
            for value, rate in zip(logs, RATES, strict=True)
        ]
    weights = [math.exp(value - max(logs)) for value in logs]
    for ours, theirs in zip(chances(evidence, EVEN), weights, strict=True):
        assert ours == pytest.approx(theirs / sum(weights), abs=1e-3)


def test_it_agrees_with_the_estimator_of_cho_and_garcia_molina(monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits every day, of which some found a change: -log((n - x + 0.5) / (n + 0.5)) changes a day."""
    for changes in (2, 5, 10, 15):
        history = [(number % 20 < changes, DAY) for number in random.Random(1).sample(range(20), 20)]
        monkeypatch.setattr(revisit, "_LIKELY", 0.5)  # then the wait tells the rate
        theirs = -math.log((20 - changes + 0.5) / (20 + 0.5)) / DAY
        half = math.log(2) / wait(Pace(60.0, 1000 * DAY, auto=True), after(history), NO_PLAN)
        assert half == pytest.approx(theirs, rel=0.35)


@pytest.mark.parametrize(("wait_", "rate"), [(600.0, 1 / HOUR), (DAY, 1 / DAY), (20 * DAY, 1 / (300 * DAY))])
def test_what_a_visit_is_worth_agrees_with_the_formula(wait_: float, rate: float) -> None:
    nearest = min(RATES, key=lambda other: abs(math.log(other / rate)))
    likely = [float(other == nearest) for other in RATES]
    exact = (1 - math.exp(-nearest * wait_) * (1 + nearest * wait_)) / nearest
    assert worth(likely, wait_) == pytest.approx(exact, rel=0.1)


def test_a_page_that_changes_its_habits_is_learned_anew() -> None:
    quiet = after([(False, DAY)] * 60)
    assert wait(PACE, quiet, NO_PLAN) > 20 * DAY
    busy = quiet
    for _ in range(8):
        busy = learned(busy, changed=True, waited=DAY, plan=NO_PLAN)
    assert wait(PACE, busy, NO_PLAN) < 3 * DAY


def test_dates_are_hints() -> None:
    """A page that has not changed for a year waits longer than one that changed an hour ago, at its first visit."""
    old, new, unknown = (
        wait(PACE, learned(b"", changed=True, waited=0.0, plan=NO_PLAN, age=age), NO_PLAN)
        for age in (365 * DAY, HOUR, None)
    )
    assert new < unknown < old


def test_a_new_page_is_taken_to_be_like_the_others_of_its_host() -> None:
    still, _ = followed([1 / (300 * DAY)] * 30, 0.0, 30.0)
    busy, _ = followed([1 / (2 * HOUR)] * 30, 0.0, 3.0)
    fresh = learned(b"", changed=True, waited=0.0, plan=NO_PLAN)
    unknown = wait(PACE, fresh, NO_PLAN)
    assert wait(PACE, fresh, still) > 3 * unknown
    assert unknown > 1.5 * wait(PACE, fresh, busy)


# -- junk


@given(
    st.binary(max_size=40), st.booleans(), any_float, st.one_of(st.none(), any_float), st.binary(max_size=100)
)
def test_junk_means_unknown(
    rate: bytes, changed: bool, waited: float, age: float | None, counts: bytes
) -> None:
    plan = RevisitPlan(at=START, since=START, counts=counts, demand=0.1)
    new = learned(rate, changed=changed, waited=waited, plan=plan, age=age)
    assert unpacked(new) is not None
    assert PACE.shortest <= wait(PACE, rate, plan, budget=10.0) <= PACE.longest
    folded = with_visit(plan, Visit(rate, new, changed, waited, waited, 10.0), START + 1)
    assert math.isfinite(folded.demand)
    assert 0.0 <= folded.pages < 1e15


@given(st.lists(st.tuples(st.binary(min_size=19, max_size=19), any_float, st.floats(0, 4e9)), max_size=20))
def test_no_visit_makes_a_plan_that_cannot_be_used(told: list[tuple[bytes, float, float]]) -> None:
    plan, known = NO_PLAN, after([(True, HOUR), (False, DAY)])
    for rate, waited, at in told:
        plan = with_visit(plan, Visit(b"\x01" + rate[1:], known, True, waited, waited, 5.0), at)
        for pages in (
            plan.pages,
            plan.demand,
            plan.credit,
            plan.visits,
            plan.visits_a_day,
            plan.changes_a_day,
        ):
            assert math.isfinite(pages)
        assert plan.pages >= 0.0
        assert plan.demand >= 0.0
        assert 300.0 <= wait(PACE, known, plan, budget=5.0) <= 30 * DAY


# -- a host


def test_a_budget_is_kept_and_spent_and_nobody_starves() -> None:
    rng = random.Random(3)
    rates = [math.exp(rng.uniform(math.log(1 / (400 * DAY)), math.log(1 / HOUR))) for _ in range(20)]
    _, made = followed(rates, 60.0, 15.0)
    assert 0.93 * 60 * 15 < sum(made) <= 60 * 15 + 1
    assert min(made) >= 1


def test_a_budget_too_small_for_the_longest_wait_starves_nobody() -> None:
    pace = Pace(300.0, 2 * DAY, auto=True)
    plan, _ = followed([1 / DAY] * 10, 1.0, 4.0)
    assert wait(pace, after([(True, DAY)] * 5, plan), plan, budget=0.1) == 2 * DAY


def test_the_plan_counts_its_pages_and_forgets_those_that_are_gone() -> None:
    plan, rates = NO_PLAN, [after([(bool(number % 2), DAY)]) for number in range(50)]
    for rate in rates:
        plan = with_visit(plan, Visit(b"", rate), START)
    assert plan.pages == pytest.approx(50, abs=0.01)
    for rate in rates[:20]:
        plan = with_visit(plan, Visit(rate, b"", waited=0.0), START)
    assert plan.pages == pytest.approx(30, abs=0.01)
    for rate in rates:  # told twice: nothing falls below zero
        plan = with_visit(plan, Visit(rate, b""), START)
    assert 0.0 <= plan.pages < 1.0
    assert plan.demand >= 0.0


def test_what_a_lost_job_left_behind_fades() -> None:
    plan = NO_PLAN
    for _ in range(50):
        plan = with_visit(plan, Visit(b"", after([])), START)
    one = after([])
    for month in range(1, 13):
        plan = with_visit(
            plan, Visit(one if month > 1 else b"", one, waited=30 * DAY), START + 30 * DAY * month
        )
    assert plan.pages == pytest.approx(1.0, abs=1.5)


def test_a_clock_that_jumps_does_not_stop_the_plan() -> None:
    rate = after([(True, DAY)])
    plan = with_visit(NO_PLAN, Visit(b"", rate, budget=10.0), START)
    ahead = with_visit(plan, Visit(rate, rate, True, DAY, budget=10.0), START + 3650 * DAY)
    back = with_visit(ahead, Visit(rate, rate, True, DAY, budget=10.0), START + 2 * DAY)
    assert back.at == START + 2 * DAY
    assert abs(back.credit) <= 25
    assert 300.0 <= wait(PACE, rate, back, budget=10.0) <= 30 * DAY


def test_visits_that_come_late_make_waits_longer_without_a_budget() -> None:
    """The host cannot be asked as often as its pages change: what it gives is shared."""
    rate = after([(True, HOUR)] * 5 + [(False, HOUR)])
    calm = strained = NO_PLAN
    for number in range(200):
        at, before = START + 600.0 * number, rate if number > 20 else b""
        calm = with_visit(calm, Visit(before, rate, True, HOUR, 0.0), at)
        strained = with_visit(strained, Visit(before, rate, True, HOUR, 5 * HOUR), at)
    assert calm.on_time == 1.0
    assert strained.on_time == 0.0
    assert wait(PACE, rate, strained) > wait(PACE, rate, calm)


def test_figures_for_people() -> None:
    plan, made = followed([1 / DAY] * 10, 40.0, 10.0)
    assert plan.pages == pytest.approx(10, rel=0.05)
    assert plan.visits_a_day == pytest.approx(sum(made) / 10, rel=0.3)
    assert 0.05 < (plan.changed or 0.0) < 0.5
    assert plan.on_time == 1.0
    assert 2 < plan.changes_a_day < 50


def test_what_is_kept_is_small() -> None:
    plan, _ = followed([1 / DAY] * 10, 40.0, 5.0)
    assert len(after([(True, DAY)])) <= 20
    assert len(msgspec.msgpack.encode(plan)) < 200
    state = HostState(revisits=plan)
    assert len(encode_state(state)) < 300


# -- in the host's record


async def test_two_processes_fold_their_visits_into_one_plan() -> None:
    clock, settings = ManualClock(), Settings()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(JobSpec("job", valve=first_valve(settings)))
    await frontier.add("job", [make_task("http://a.test/", parent=1)])
    [lease] = (await frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))).leases
    caches = [HostCache(frontier, settings, FrontierClock(clock)) for _ in range(2)]
    for cache in caches:
        await cache.view(lease)
    rate = after([])
    for number, cache in enumerate(caches):
        for _ in range(3 + number):
            cache.record_visit("a.test", Visit(b"", rate))
    for cache in caches:
        await cache.write_back(everything=True)
    record = await frontier.host("a.test")
    assert record is not None
    assert state_of(record).revisits.pages == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize("text", ["0.2s", "1.2.3s", "auto 7d-1h", "99999999999d", "soon"])
def test_what_is_no_pace_is_told_where_it_is_written(text: str) -> None:
    """And not by the engine, when the page has been fetched."""
    with pytest.raises(SpiderError, match="its revisit cannot be used"):
        Request("http://a.test/", revisit=text)
    with pytest.raises(SpiderError, match="handler 'page': its revisit cannot be used"):
        Spider("shop").add_handler(lambda page: None, name="page", revisit=text)
