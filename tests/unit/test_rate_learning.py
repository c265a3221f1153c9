"""Hosts with every kind of limit, crawled in virtual time at four times what they bear."""

from __future__ import annotations

import pytest

from limited_host import START, FixedWindow, Fleet, Limiter, SlidingWindow, TokenBucket, settings, steady
from shoal.policy.concurrency import MOST

BEARS = 5.0


def limiter(name: str) -> Limiter:
    rate = steady(BEARS)
    kinds: dict[str, Limiter] = {
        "bucket of 5": TokenBucket(rate, 5),
        "bucket of 20": TokenBucket(rate, 20),
        "5 in a second": FixedWindow(rate, 1),
        "50 in ten seconds": FixedWindow(rate, 10),
        "300 in a minute": FixedWindow(rate, 60),
        "5 in any second": SlidingWindow(rate, 1),
        "300 in any minute": SlidingWindow(rate, 60),
        "300 in any minute, refused ones too": SlidingWindow(rate, 60, counts_refused=True),
    }
    return kinds[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "say_when", "workers"),
    [
        ("bucket of 5", False, 1),
        ("bucket of 5", True, 4),
        ("bucket of 20", False, 4),
        ("5 in a second", False, 1),
        ("5 in any second", True, 4),
        ("50 in ten seconds", True, 1),
        ("50 in ten seconds", False, 4),
        ("300 in a minute", True, 4),
        ("300 in any minute", True, 1),
    ],
)
def test_a_limit_is_learned_and_kept(name: str, say_when: bool, workers: int) -> None:
    fleet = Fleet(
        settings(per_host="auto"), limiter(name), workers=workers, say_when=say_when, latency=lambda n: 0.3
    )
    figures = fleet.run(seconds=1800)
    assert figures.share_refused <= 0.003
    assert figures.lost == 0
    assert figures.pages >= 0.9 * BEARS * 1800
    assert min(figures.gaps) > 0.99 / 20, "never faster than configured"
    assert figures.most_at_once <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("name", ["300 in a minute", "300 in any minute, refused ones too"])
def test_a_server_that_counts_by_the_minute_and_says_nothing(name: str) -> None:
    """It takes some windows to find out; then it is no different from others."""
    figures = Fleet(settings(), limiter(name), seed=2).run(seconds=1800)
    assert figures.share_refused <= 0.003
    assert figures.lost == 0
    assert figures.pages >= 0.8 * BEARS * 1800


@pytest.mark.slow
def test_a_limit_that_changes_over_the_day() -> None:
    hour = 1800.0

    def bears(now: float) -> float:
        return (5.0, 2.0, 8.0, 5.0)[int((now - START) // hour) % 4]

    fleet = Fleet(settings(per_host="auto"), TokenBucket(bears, 10), workers=2)
    figures = fleet.run(seconds=4 * hour)
    assert figures.share_refused <= 0.003
    assert figures.lost == 0
    assert figures.pages >= 0.9 * hour * (5 + 2 + 8 + 5)


def test_few_pages_on_a_host_are_not_lost_either() -> None:
    figures = Fleet(settings(), limiter("300 in a minute"), seed=3).run(seconds=3600, pages=310)
    assert (figures.pages, figures.lost) == (310, 0)


def test_a_slow_host_gets_its_rate() -> None:
    """Answers that take three seconds, two requests a second."""
    plenty = TokenBucket(steady(100.0), 100)
    figures = Fleet(settings(rate=2.0, per_host="auto"), plenty, latency=lambda n: 3.0).run(
        seconds=1000, pages=250
    )
    assert figures.pages == 250
    assert sum(figures.gaps) < 182 * 0.9
    assert figures.most_at_once <= 9
