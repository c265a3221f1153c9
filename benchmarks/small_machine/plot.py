"""Pages an hour, memory, and success by kind of host, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchmarks.small_machine.report import PUBLISHED_HOUR, PUBLISHED_MEMORY
from benchmarks.small_machine.run import BUCKETS, Run
from benchmarks.small_machine.world import HOPELESS

WIDTH = 860
LEFT, RIGHT = 76, 150
HIGH, GAP, TOP = 130, 58, 44
BAR = 24
_MB = 1024 * 1024
_OURS, _THEIRS, _GREY, _LINE = "#d6196b", "#5b7fa6", "#555", "#e6e6e6"

Points = Sequence[tuple[float, float]]  # share of the run, value


def svg(run: Run, title: str) -> str:
    kinds = [(name, kind) for name, kind in run.kinds.items() if name not in HOPELESS]
    bars_top = TOP + 2 * (HIGH + GAP)
    height = bars_top + BAR * len(kinds) + 18
    pages = _pages_per_hour(run)
    memory = [(at / run.seconds, rss / _MB) for at, rss in run.memory]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *_panel(TOP, f"{title}: pages an hour", pages, PUBLISHED_HOUR, run.seconds),
        *_panel(TOP + HIGH + GAP, "Memory, MB", memory, PUBLISHED_MEMORY, run.seconds),
        _heading(bars_top, "Share of the obtainable pages, by kind of host"),
    ]
    for number, (name, kind) in enumerate(sorted(kinds, key=lambda one: -one[1].there)):
        parts += _bar(bars_top + 8 + BAR * number, f"{name} ({kind.hosts})", kind.share)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _pages_per_hour(run: Run) -> Points:
    bucket = run.seconds / BUCKETS / 3600
    return [((number + 0.5) / BUCKETS, count / bucket) for number, count in enumerate(run.pages)]


def _panel(top: float, heading: str, points: Points, published: float, seconds: float) -> list[str]:
    most = _round_up(max(published, *(value for _, value in points)))
    width = WIDTH - LEFT - RIGHT

    def x(share: float) -> float:
        return LEFT + width * share

    def y(value: float) -> float:
        return top + HIGH * (1 - value / most)

    line = " ".join(f"{x(share):.1f},{y(value):.1f}" for share, value in points)
    return [
        _heading(top - 4, heading),
        *_rules(most, y),
        *_hours(seconds, x, top + HIGH),
        f'<path d="M{LEFT} {y(published):.1f}h{width}" stroke="{_THEIRS}" stroke-dasharray="5 4"/>',
        f'<text x="{LEFT + width + 8}" y="{y(published) + 4:.1f}" fill="{_THEIRS}">published {published:,}</text>',
        f'<polyline points="{line}" fill="none" stroke="{_OURS}" stroke-width="2" stroke-linejoin="round"/>',
        f'<text x="{LEFT + width + 8}" y="{_label(points, y, y(published)):.1f}" fill="{_OURS}" '
        'font-weight="600">Shoal</text>',
    ]


def _label(points: Points, y: Callable[[float], float], other: float) -> float:
    """Where the name of a line stands: at its end, but not on another's."""
    place = y(points[-1][1]) + 4
    return place if abs(place - other - 4) >= 16 else other + 4 - math.copysign(17, other + 4 - place)


def _heading(y: float, text: str) -> str:
    return f'<text x="{LEFT}" y="{y - 8:.0f}" font-size="14" font-weight="600">{text}</text>'


def _rules(most: float, y: Callable[[float], float]) -> list[str]:
    parts = []
    for value in (0.0, most / 2, most):
        parts += [
            f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="{_LINE}"/>',
            f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="{_GREY}">{value:,.0f}</text>',
        ]
    return parts


def _hours(seconds: float, x: Callable[[float], float], bottom: float) -> list[str]:
    step, unit, divisor = _step(seconds)
    count = int(seconds / step)
    return [
        f'<text x="{x(n * step / seconds):.1f}" y="{bottom + 17:.1f}" text-anchor="middle" fill="{_GREY}">'
        f"{n * step / divisor:g}{unit if n in (0, count) else ''}</text>"
        for n in range(count + 1)
    ]


def _step(seconds: float) -> tuple[float, str, float]:
    """Seconds between two marks of the axis, their unit, and its seconds."""
    if seconds > 7200:
        return 3600.0 * max(1, round(seconds / 3600 / 8)), " h", 3600.0
    return 60.0 * max(1, round(seconds / 60 / 6)), " min", 60.0


def _bar(top: float, name: str, share: float) -> list[str]:
    width, begin = (WIDTH - LEFT - RIGHT - 60) * share, LEFT + 60
    middle = top + BAR / 2 + 2
    return [
        f'<text x="{begin - 8}" y="{middle:.1f}" text-anchor="end" fill="{_GREY}">{name}</text>',
        f'<rect x="{begin}" y="{top + 2}" width="{width:.1f}" height="{BAR - 8}" rx="2" fill="{_OURS}"/>',
        f'<text x="{begin + width + 8:.1f}" y="{middle:.1f}">{share:.1%}</text>',
    ]


def _round_up(value: float) -> float:
    """To one or two leading digits."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * unit >= value)
