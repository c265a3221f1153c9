"""Pages obtained over time, one line a contender, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.patterns.figures import Curve, Figures

WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 60, 165, 46, 52
FIRST = 1.0  # seconds, where the time axis begins
TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
COLOURS = {
    "gather": "#b8b8b8",
    "semaphore": "#e3a008",
    "workers": "#d9622b",
    "per_domain": "#8a63d2",
    "bucket": "#2f9e62",
    "scrapy": "#5b7fa6",
    "shoal": "#d6196b",
}
_LABEL_GAP = 22


def svg(results: Mapping[str, Figures]) -> str:
    last = max(one.end for one in results.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">Pages obtained over time</text>',
        *_grid(last),
        *[_line(name, one.curve, last) for name, one in results.items()],
        *_labels(results),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(seconds: float, last: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(max(seconds, FIRST) / FIRST) / math.log(last / FIRST)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _grid(last: float) -> list[str]:
    lines = []
    for percent in (0, 25, 50, 75, 95, 100):
        y = _y(percent / 100)
        lines += [
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e6e6e6"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{percent} %</text>',
        ]
    for tick in (tick for tick in TICKS if tick <= last):
        x = _x(tick, last)
        lines += [
            f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#f0f0f0"/>',
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#555">{tick:,}</text>',
        ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    caption = "seconds since its first request (unscaled, logarithmic)"
    return [*lines, f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle" fill="#555">{caption}</text>']


def _line(name: str, curve: Curve, last: float) -> str:
    points = " ".join(f"{_x(at, last):.1f},{_y(share):.1f}" for at, share in curve)
    end_at, end_share = curve[-1]
    width = 3 if name == "shoal" else 1.8
    return (
        f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="{width}"/>\n'
        f'<circle cx="{_x(end_at, last):.1f}" cy="{_y(end_share):.1f}" r="4" fill="{COLOURS[name]}"/>'
    )


def _labels(results: Mapping[str, Figures]) -> list[str]:
    """Beside the plot, in the order in which they ended, with how long it took."""
    lines = []
    for number, (name, one) in enumerate(sorted(results.items(), key=lambda item: item[1].end)):
        y = TOP + 10 + number * _LABEL_GAP
        x = WIDTH - RIGHT + 12
        weight = ' font-weight="600"' if name == "shoal" else ""
        lines.append(
            f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{COLOURS[name]}"/>'
            f'<text x="{x + 9}" y="{y}"{weight}>{name} {one.end:,.0f} s</text>'
        )
    return lines
