"""Freshness as a table and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.freshness.optimum import DAY
from benchmarks.freshness.simulation import Followed


class Total:
    """One way to follow pages, over all hosts."""

    def __init__(self, days: int, known: float | None = None) -> None:
        self.current, self.visits = [0.0] * days, [0] * days
        self.pages, self.budget, self.longest = 0, 0.0, 0.0
        self.most = 0.0  # of a host's budget, over the whole time
        self.most_a_day = 0.0  # of a host's budget, on one day; hosts with 25 visits a day and more
        self._known = known  # the freshness, if it was computed instead

    def add(self, found: Followed, budget: float) -> None:
        self.current = [a + b for a, b in zip(self.current, found.current, strict=True)]
        self.visits = [a + b for a, b in zip(self.visits, found.visits, strict=True)]
        self.pages, self.budget = self.pages + found.pages, self.budget + budget
        self.longest = max(self.longest, found.longest)
        self.most = max(self.most, sum(found.visits) / (budget * len(found.visits)))
        if budget >= 25:
            self.most_a_day = max(self.most_a_day, *(count / budget for count in found.visits))

    def freshness(self, first: int = 0) -> float:
        """The share of the time, from that day on, for which the copies were current."""
        if self._known is not None:
            return self._known
        days = self.current[first:]
        return sum(days) / (self.pages * len(days) * DAY)

    @property
    def used(self) -> float | None:
        return sum(self.visits) / (self.budget * len(self.visits)) if self.budget else None


def gain(totals: Mapping[str, Total], name: str, first: int) -> float:
    low, high = totals["fixed"].freshness(first), totals["optimum"].freshness(first)
    return (totals[name].freshness(first) - low) / (high - low)


def table(totals: Mapping[str, Total]) -> str:
    half = len(totals["fixed"].current) // 2
    lines = [
        "| way | current, whole time | gain | current, last half | gain | budget used | … by one host at most "
        "| … on one day | longest wait |",
        "|---|" + "--:|" * 8,
    ]
    for name, total in totals.items():
        figures = [
            f"{total.freshness():.4f}",
            f"{gain(totals, name, 0):.1%}",
            f"{total.freshness(half):.4f}",
            f"{gain(totals, name, half):.1%}",
        ]
        if total.used is not None:
            figures += [f"{total.used:.1%}", f"{total.most:.1%}", f"{total.most_a_day:.0%}"]
            figures.append(f"{total.longest / DAY:.1f} d")
        lines.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(lines)


# -- the plot

_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _GAP = 860, 190, 60, 90, 46, 50
_COLOURS = {"fixed": "#5b7fa6", "auto": "#d6196b", "optimum": "#2f9e62"}


def svg(results: Mapping[str, Mapping[str, Total]]) -> str:
    """Freshness day by day, one panel a mix."""
    height = _TOP + len(results) * (_HIGH + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{_WIDE}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="600">Share of copies that are current, by day</text>',
    ]
    for number, (mix, totals) in enumerate(results.items()):
        parts += _panel(mix, totals, _TOP + number * (_HIGH + _GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(mix: str, totals: Mapping[str, Total], top: float) -> list[str]:
    lines = {name: [each / (totals[name].pages * DAY) for each in totals[name].current] for name in _COLOURS}
    least = min(min(line) for line in lines.values())
    most = max(max(line) for line in lines.values())
    edge = (most - least) * 0.08
    least, most = least - edge, most + edge

    def y(share: float) -> float:
        return top + _HIGH - _HIGH * (share - least) / (most - least)

    parts = [f'<text x="{_LEFT}" y="{top - 6}" fill="#555">{mix}</text>']
    for share in (least + (most - least) * step / 4 for step in range(5)):
        parts.append(f'<path d="M{_LEFT} {y(share):.1f}H{_WIDE - _RIGHT}" stroke="#e6e6e6"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y(share) + 4:.1f}" text-anchor="end" fill="#555">{share:.1%}</text>'
        )
    for name, line in lines.items():
        points = " ".join(f"{_x(day, len(line)):.1f},{y(share):.1f}" for day, share in enumerate(line))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_COLOURS[name]}" stroke-width="2"/>')
        parts.append(f'<text x="{_WIDE - _RIGHT + 8}" y="{y(_end(line)) + 4:.1f}">{name}</text>')
    days = len(next(iter(lines.values())))
    ticks = [
        f'<text x="{_x(day, days):.1f}" y="{top + _HIGH + 18}" text-anchor="middle" fill="#555">{day + 1}</text>'
        for day in range(0, days, 5)
    ]
    return [*parts, *ticks]


def _x(day: int, days: int) -> float:
    return _LEFT + (_WIDE - _LEFT - _RIGHT) * day / max(1, days - 1)


def _end(line: Sequence[float]) -> float:
    return sum(line[-5:]) / len(line[-5:])
