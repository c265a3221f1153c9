"""The valve's arithmetic: however it is used, a host never gets more than its rate and burst allow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.valve import FOREVER, Valve

START = 1_000_000_000.0
CLOSE = 1e-6  # relative to times around START, a float is good to about 1e-7

intervals = st.floats(0.01, 60)
bursts = st.integers(1, 6)
# How long after the last look, in intervals, and how many are wanted then.
looks = st.lists(st.tuples(st.floats(0, 4), st.integers(1, 8)), min_size=1, max_size=60)


def taken_at(valve: Valve, looks: list[tuple[float, int]]) -> list[float]:
    """The times of all requests, when as many as allowed (and wanted) are taken at each look."""
    times: list[float] = []
    now = START
    for pause, wanted in looks:
        now += pause * valve.interval
        count = min(wanted, valve.allowance(now))
        valve = valve.take(count, now).give_back(count) if count else valve
        times += [now] * count
    return times


@given(intervals, bursts, looks)
def test_no_window_holds_more_than_rate_and_burst_allow(
    interval: float, burst: int, looks: list[tuple[float, int]]
) -> None:
    times = taken_at(Valve(interval, burst, cap=100), looks)
    for first, start in enumerate(times):
        for last in range(first, len(times)):
            span = times[last] - start
            assert last - first + 1 <= span / interval + burst + CLOSE / interval


@given(intervals, bursts)
def test_what_the_rate_allows_can_be_used(interval: float, burst: int) -> None:
    """Asking whenever it is due gives the full rate: a valve that is shut for ever would be polite too."""
    valve, now = Valve(interval, burst, cap=100), START
    for taken in range(20):
        assert valve.allowance(max(now, valve.due()) + CLOSE) >= 1, f"after {taken}"
        now = max(now, valve.due()) + CLOSE
        valve = valve.take(1, now).give_back(1)
    assert now - START <= 20 * (interval + CLOSE)


@given(intervals, bursts, st.integers(1, 9), looks)
def test_no_more_are_in_flight_than_the_cap(
    interval: float, burst: int, cap: int, looks: list[tuple[float, int]]
) -> None:
    valve, now = Valve(interval, burst, cap), START
    for pause, wanted in looks:
        now += pause * interval
        count = min(wanted, valve.allowance(now))
        valve = valve.take(count, now) if count else valve
        assert valve.in_flight <= cap
        if valve.in_flight == cap:
            assert valve.due() == FOREVER
            assert valve.allowance(now + 1e6) == 0


@given(intervals, intervals, looks)
def test_new_numbers_keep_the_spacing_to_the_last_request(
    before: float, after: float, looks: list[tuple[float, int]]
) -> None:
    valve, last = Valve(before, cap=100), None
    now = START
    for pause, _ in looks:
        now += pause * before
        if valve.allowance(now):
            valve, last = valve.take(1, now).give_back(1), now
    assert last is not None
    changed = valve.reset(Valve(after, cap=100))
    assert math.isclose(changed.due(), last + after, abs_tol=CLOSE)


@given(intervals, st.floats(0, 100))
def test_a_block_holds_until_its_time(interval: float, seconds: float) -> None:
    valve = Valve(interval, burst=3, cap=3, blocked_until=START + seconds)
    if seconds > CLOSE:
        assert valve.allowance(START + seconds - CLOSE) == 0
    assert valve.allowance(START + seconds) >= 1


def test_without_an_interval_only_the_cap_counts() -> None:
    valve = Valve(interval=0.0, cap=4)
    assert valve.allowance(START) == 4
    valve = valve.take(4, START)
    assert valve.allowance(START) == 0
    assert valve.give_back(3).allowance(START) == 3


def test_reset_leaves_what_runs_alone() -> None:
    valve = Valve(1.0, cap=3).take(1, START)
    changed = valve.reset(Valve(2.0, burst=2, cap=5, blocked_until=START + 9, in_flight=4, next_at=5.0))
    assert changed == Valve(2.0, 2, 5, START + 9, in_flight=1, next_at=START + 2.0)


def test_a_host_never_hit_is_due_whatever_its_numbers_become() -> None:
    assert Valve(1.0).reset(Valve(10.0)).due() == 0.0


def test_giving_back_too_much_does_not_open_it_wider() -> None:
    assert replace(Valve(cap=2), in_flight=1).give_back(3).in_flight == 0


# -- the line


def test_who_joins_an_empty_line_stands_where_it_stood() -> None:
    assert [Valve(1.0, hold=hold).seat(7.5, None) for hold in (0.0, 0.1, 9.0)] == [7.5] * 3


def test_being_away_earns_nothing() -> None:
    unknown, quick, slow = Valve(1.0), Valve(1.0, hold=0.1), Valve(1.0, hold=9.0)
    front = unknown.front(100.0)
    assert [valve.seat(0.0, front) for valve in (unknown, quick, slow)] == pytest.approx(
        [100.0, 99.025, 100.0]
    )
    assert quick.front(99.025) == pytest.approx(front), "who has joined does not move the time of the line"


def test_a_known_host_never_stands_behind_unknown_ones_nor_anybody_far_behind() -> None:
    front = Valve().front(100.0)
    for hold in (0.01, 0.1, 1.0, 3.5):
        assert Valve(1.0, hold=hold).seat(1000.0, front) < 100.0
    assert Valve(0.0, hold=0.1).seat(1000.0, front) == front + 8, "always due, if it were first"
    assert Valve(1.0, hold=9.0).seat(1000.0, front) == front + 8 * 9
    assert Valve(1.0, hold=9.0).seat(130.0, front) == 130.0
