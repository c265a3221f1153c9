"""What the guard of benchmarks/ makes of given ratios."""

from __future__ import annotations

import math

import pytest
from benchmarks.guard import Interval, judge


def test_the_interval_is_that_of_the_sign_test() -> None:
    """Of five, all lie on one side of the true median in 2 of 32 cases. Of eight, one may be left out at each end."""
    five = [1.0, 1.1, 1.2, 1.3, 1.4]
    assert Interval.of(five) == Interval(1.0, 1.2, 1.4)
    eight = [1.7, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    assert Interval.of(eight) == Interval(1.1, 1.35, 1.6)


def test_of_few_rounds_nothing_is_known() -> None:
    assert Interval.of([1.0] * 4) == Interval(-math.inf, 1.0, math.inf)
    assert judge([1.0] * 4, recorded=2.0).kind == "unclear"


@pytest.mark.parametrize(
    ("ratios", "kind", "code"),
    [
        ([1.00, 1.02, 0.98, 1.01, 0.99], "ok", 0),
        ([1.10, 1.12, 1.14, 1.11, 1.13], "ok", 0),  # grown, and allowed
        ([1.20, 1.25, 1.22, 1.30, 1.21], "grown", 1),
        ([1.10, 1.25, 1.22, 1.30, 1.21], "unclear", 2),  # the median is above, one round of five is not
        (
            [0.90, 1.00, 1.00, 1.00, 1.40],
            "unclear",
            2,
        ),  # the median is fine, but five rounds may have been lucky
        ([0.90, 1.00, 1.00, 1.00, 1.40, 1.00, 1.01, 1.02], "ok", 0),  # more of them can tell
    ],
)
def test_it_fails_only_when_the_rounds_agree(ratios: list[float], kind: str, code: int) -> None:
    verdict = judge(ratios, recorded=1.0)
    assert (verdict.kind, verdict.code) == (kind, code)


def test_the_line_says_what_has_grown_and_by_how_much() -> None:
    line = judge([2.0, 2.1, 2.2, 2.3, 2.4], recorded=1.5).line
    assert line == (
        "FAILED: CPU a page has grown by +47 %: 2.20 (2.00 to 2.40) times the bare loop's, recorded 1.50, allowed 1.72"
    )
    assert "\n" not in line


def test_what_became_much_better_is_to_be_recorded() -> None:
    assert "record it" in judge([0.8, 0.81, 0.79, 0.8, 0.82], recorded=1.0).line
    assert "record it" not in judge([0.9, 0.91, 0.89, 0.9, 0.92], recorded=1.0).line
