"""Backoff and Retry-After (fault 14)."""

from __future__ import annotations

import random
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.policy.retry import backoff, delay, retry_after

NOW = 1_750_000_000.0
YEAR = 365 * 86400


class Highest(random.Random):
    """Always draws the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_backoff_doubles_up_to_the_cap() -> None:
    assert [backoff(n, 1.0, 10.0, Highest()) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 8, 10, 10]


def test_backoff_of_attempt_zero_is_that_of_the_first() -> None:
    assert backoff(0, 3.0, 10.0, Highest()) == 3.0


@given(st.integers(-10, 10**6), st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.integers())
def test_backoff_stays_in_bounds(attempt: int, base: float, cap: float, seed: int) -> None:
    assert 0 <= backoff(attempt, base, cap, random.Random(seed)) <= cap


def test_backoff_is_spread_over_the_whole_range() -> None:
    rng = random.Random(1)
    waits = [backoff(4, 1.0, 300.0, rng) for _ in range(1000)]
    assert min(waits) < 0.5
    assert max(waits) > 7.5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("0", 0.0),
        (str(10 * YEAR), 3600.0),
        ("9" * 5000, 3600.0),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW + 10 * YEAR, usegmt=True), 3600.0),
        ("Sunday, 15-Jun-25 15:08:20 GMT", 100.0),  # the obsolete form that servers still send
        (formatdate(NOW - 90, usegmt=True), None),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("١٢", None),
        ("Mon, 99 Foo 2025 99:99:99 GMT", None),
        ("Mon, 01 Jan 99999 00:00:00 GMT", None),
        (None, None),
    ],
)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert retry_after(value, NOW, 3600.0) == expected


def test_a_date_without_a_zone_is_gmt() -> None:
    assert retry_after(formatdate(NOW + 60).replace(" -0000", ""), NOW, 3600.0) == 60.0


@given(st.text(max_size=40))
def test_junk_never_raises(value: str) -> None:
    wait = retry_after(value, NOW, 3600.0)
    assert wait is None or 0 <= wait <= 3600


def test_the_server_is_never_asked_earlier_than_it_wants() -> None:
    rng = random.Random(1)
    waits = [delay(1, base=1.0, cap=300.0, rng=rng, server_asks=60.0) for _ in range(200)]
    assert min(waits) >= 60.0
    assert max(waits) <= 66.0
    assert len(set(waits)) > 100  # not all back at once


@pytest.mark.parametrize("nothing", [None, 0.0])
def test_without_a_wish_of_the_server_it_backs_off(nothing: float | None) -> None:
    assert delay(3, base=1.0, cap=300.0, rng=Highest(), server_asks=nothing) == 4.0
