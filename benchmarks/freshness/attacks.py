"""Pages and budgets that nobody planned for, followed by auto and by a fixed interval, 30 days each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from benchmarks.freshness.optimum import DAY
from benchmarks.freshness.simulation import LONGEST, Auto, Fixed, Followed, follow
from benchmarks.freshness.worlds import HABITS, Changes, even, poisson

PAGES, DAYS = 200, 30

Habit = Callable[[random.Random], Changes]


def attacks() -> str:
    lines = [
        "| attack | current: fixed | auto | budget used | longest wait | CPU a visit |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, habit in HABITS.items():
        lines.append(_line(f"{name}, alone", habit, 1.0, PAGES, 4.0))
        lines.append(_line(f"{name}, a quarter of the pages", habit, 0.25, PAGES, 4.0))
    lines.append(_line("one page", None, 0.0, 1, 4.0))
    lines.append(
        _line("a budget that the longest wait exceeds ninefold", None, 0.0, PAGES, DAY / LONGEST / 9)
    )
    lines.append(_line("100,000 pages, 5 days", None, 0.0, 100_000, 1.0, days=5))
    return "\n".join(lines)


def _line(name: str, habit: Habit | None, share: float, pages: int, each: float, days: int = DAYS) -> str:
    """`share` of the pages have the habit, the others change by Poisson processes. `each`: visits a day and page."""
    budget = each * pages
    fixed = follow(_pages(name, habit, share, pages), Fixed([each / DAY] * pages), days)
    auto = Auto(pages, budget, random.Random(name))
    began = time.process_time()
    found = follow(_pages(name, habit, share, pages), auto, days)
    seconds = time.process_time() - began
    assert abs(auto.plan.pages / pages - 1) < 0.35, auto.plan.pages  # the plan still knows how many there are
    used = sum(found.visits) / (budget * days)
    return (
        f"| {name} | {_share(fixed, days):.3f} | {_share(found, days):.3f} | {used:.1%} "
        f"| {found.longest / DAY:.1f} d | {1e6 * seconds / max(1, sum(found.visits)):.0f} µs |"
    )


def _pages(name: str, habit: Habit | None, share: float, pages: int) -> list[Changes]:
    rng = random.Random(f"{name} pages")
    strange = round(share * pages)
    made = [habit(rng) for _ in range(strange)] if habit is not None else []
    return [*made, *(poisson(even(rng), rng) for _ in range(pages - len(made)))]


def _share(found: Followed, days: int) -> float:
    return sum(found.current) / (found.pages * days * DAY)
