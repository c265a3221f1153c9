"""Cron's five fields: which times match, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import UsageError
from shoal.jobs.cron import parse_cron


def after(line: str, *at: int) -> str:
    time = parse_cron(line).after(datetime(*at, tzinfo=UTC).timestamp())  # type: ignore[arg-type, misc]
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("* * * * *", "2026-11-15 12:01"),
        ("*/15 * * * *", "2026-11-15 12:15"),
        ("30 4 * * 1-5", "2026-11-16 04:30"),  # the 15th is a Sunday
        ("0 0 1,15 * *", "2026-12-01 00:00"),
        ("0 12 * * sun", "2026-11-22 12:00"),  # later than now, not now
        ("5 12 * * 7", "2026-11-15 12:05"),
        ("0 0 29 feb *", "2028-02-29 00:00"),
        ("10-20/5 13 * jan-mar *", "2027-01-01 13:10"),
        ("0 0 20 * mon", "2026-11-16 00:00"),  # the day of the month or that of the week
        ("59 23 31 12 *", "2026-12-31 23:59"),
        ("7/20 * * * *", "2026-11-15 12:07"),
    ],
)
def test_the_next_time(line: str, expected: str) -> None:
    assert after(line, 2026, 11, 15, 12, 0) == expected


def test_seconds_are_passed_over() -> None:
    assert after("* * * * *", 2026, 11, 15, 12, 0, 59) == "2026-11-15 12:01"


@pytest.mark.parametrize(
    "line",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
     "*/0 * * * *", "5-1 * * * *", "x * * * *", "1,,2 * * * *", "-1 * * * *", "* * * foo *", "*/x * * * *"],
)  # fmt: skip
def test_what_is_no_time_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="cron"):
        parse_cron(line)


def test_a_date_that_never_comes_is_refused() -> None:
    with pytest.raises(UsageError, match="never comes"):
        parse_cron("0 0 31 2 *").after(0.0)


@given(st.integers(0, 59), st.integers(0, 23), st.floats(0, 4e9))
def test_every_time_is_later_and_matches(minute: int, hour: int, now: float) -> None:
    time = parse_cron(f"{minute} {hour} * * *").after(now)
    at = datetime.fromtimestamp(time, UTC)
    assert now < time <= now + 86_400
    assert (at.minute, at.hour, at.second) == (minute, hour, 0)


@pytest.mark.parametrize("step", ["9" * 5_000, "²", "٣"])
def test_a_step_that_is_no_number_is_refused_in_words(step: str) -> None:
    with pytest.raises(UsageError, match="minute"):
        parse_cron(f"*/{step} * * * *")
