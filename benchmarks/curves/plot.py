"""Six small plots over the number of URLs, one line a number of hosts, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchmarks.curves.point import Point

COLUMNS, WIDTH, HEIGHT = 3, 300, 210  # of one plot
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 34, 30
HEAD = 34
COLOURS = ("#2f9e62", "#d6196b", "#5b7fa6")
TICKS = ((10_000, "10k"), (100_000, "100k"), (1_000_000, "1M"), (5_000_000, "5M"))
PLOTS: tuple[tuple[str, Callable[[Point], float]], ...] = (
    ("adds a second", lambda point: point.adds),
    ("claim+settle a second", lambda point: point.pages),
    ("CPU µs of one claim", lambda point: point.claim_cpu),
    ("CPU µs an add", lambda point: point.add_cpu),
    ("bytes a URL", lambda point: point.stored),
    ("memory of the process (MB)", lambda point: point.memory),
)


def svg(points: Sequence[Point]) -> str:
    rows = math.ceil(len(PLOTS) / COLUMNS)
    width, height = COLUMNS * WIDTH, HEAD + rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_legend(points),
    ]
    for number, (title, value) in enumerate(PLOTS):
        x, y = number % COLUMNS * WIDTH, HEAD + number // COLUMNS * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_plot(title, value, points), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _hosts(points: Sequence[Point]) -> list[int]:
    return sorted({point.hosts for point in points})


def _legend(points: Sequence[Point]) -> list[str]:
    lines = []
    for number, hosts in enumerate(_hosts(points)):
        x = LEFT + number * 140
        name = f"{hosts:,} hosts" if hosts > 1 else "1 host"
        lines.append(
            f'<circle cx="{x}" cy="18" r="4" fill="{COLOURS[number]}"/><text x="{x + 9}" y="22">{name}</text>'
        )
    return lines


def _plot(title: str, value: Callable[[Point], float], points: Sequence[Point]) -> list[str]:
    step = _step(max(map(value, points)))
    top = step * math.ceil(max(map(value, points)) / step)
    first, last = math.log(points[0].urls), math.log(max(point.urls for point in points))

    def x(urls: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(urls) - first) / max(last - first, 1e-9)

    def y(number: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * number / top

    lines = [f'<text x="{LEFT}" y="18" font-weight="600">{title}</text>']
    for tick in (number * step for number in range(round(top / step) + 1)):
        lines += [
            f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#e6e6e6"/>',
            f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#555">{tick:,.0f}</text>',
        ]
    for urls, name in TICKS:
        if first <= math.log(urls) <= last:
            lines.append(
                f'<text x="{x(urls):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" fill="#555">{name}</text>'
            )
    for colour, hosts in zip(COLOURS, _hosts(points), strict=False):
        own = [point for point in points if point.hosts == hosts]
        path = " ".join(f"{x(point.urls):.1f},{y(value(point)):.1f}" for point in own)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [
            f'<circle cx="{x(point.urls):.1f}" cy="{y(value(point)):.1f}" r="2.5" fill="{colour}"/>'
            for point in own
        ]
    return lines


def _step(most: float) -> float:
    """A round number of which three to six make up the axis."""
    size = 10.0 ** math.floor(math.log10(most))
    return next(size * part for part in (0.2, 0.25, 0.5, 1, 2) if most / (size * part) <= 5.5)
