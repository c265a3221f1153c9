"""The soak as a table and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchmarks.soak.samples import Sample
from benchmarks.soak.verdict import FIGURES, Verdict

_LINES = 16  # of the table
_WIDE, _HIGH, _LEFT, _TOP = 860, 110, 70, 30
_MB = 1024 * 1024
_LABELS = {
    "memory": ("memory, MB", _MB),
    "descriptors": ("open descriptors", 1),
    "threads": ("threads", 1),
    "tasks": ("asyncio tasks", 1),
    "store": ("store, MB", _MB),
}


def markdown(samples: Sequence[Sample], verdict: Verdict) -> str:
    step = max(1, len(samples) // _LINES)
    table = [
        f"| {one.at:.0f} | {one.rows:,} | {one.start} | {one.memory / _MB:.0f} | {one.descriptors} "
        f"| {one.threads} | {one.tasks} | {one.store / _MB:.0f} |"
        for one in [*samples[::step], *samples[-1:]]
    ]
    slopes = ", ".join(
        f"{_LABELS[name][0]} {verdict.slopes[name] / _LABELS[name][1]:+.1f}" for name in FIGURES
    )
    change = verdict.beside / verdict.alone - 1 if verdict.alone else 0.0
    return "\n".join(
        [
            "",
            "| s | rows | start | MB | descriptors | threads | tasks | store MB |",
            "|" + "---|" * 8,
            *table,
            "",
            f"slopes of the second half, by 100,000 rows: {slopes}",
            f"honest pages a second: {verdict.alone:.1f} alone, {verdict.beside:.1f} with hostile ({change:+.1%})",
            f"{verdict.honest_pages:,} honest pages: {verdict.missing} missing, {verdict.doubled} doubled, "
            f"{verdict.honest_letters} dead; {verdict.starts} starts, {verdict.fetched_again} pages fetched again",
            f"{verdict.hostile_rows:,} rows of hostile hosts, {verdict.strange} of them never served; dead letters: "
            + (", ".join(f"{count:,} {kind}" for kind, count in verdict.kinds.items()) or "none"),
            f"{verdict.admitted:,} admitted, {verdict.open} open, counters {_word(verdict.balanced)}",
            "verdict: " + ("nothing lost, nothing doubled" if verdict.adds_up else "FAILED"),
        ]
    )


def _word(balanced: bool) -> str:
    return "add up" if balanced else "DO NOT add up"


def plot(samples: Sequence[Sample]) -> str:
    """Small multiples over the rows, one a figure; a thin line where the crawl was started again."""
    height = _TOP + len(FIGURES) * (_HIGH + _TOP)
    most = max(sample.rows for sample in samples) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{_WIDE}" height="{height}" fill="white"/>',
    ]
    for place, name in enumerate(FIGURES):
        parts += _panel(samples, name, most, _TOP + place * (_HIGH + _TOP))
    parts += [f'<text x="{_LEFT}" y="{height - 6}" fill="#555">0 to {most:,} rows</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def _panel(samples: Sequence[Sample], name: str, most: int, top: int) -> list[str]:
    label, unit = _LABELS[name]
    values = [getattr(sample, name) / unit for sample in samples]
    high = max(values) or 1.0
    wide = _WIDE - _LEFT - 20

    def x(rows: int) -> float:
        return _LEFT + wide * rows / most

    points = " ".join(
        f"{x(one.rows):.1f},{top + _HIGH * (1 - value / high):.1f}"
        for one, value in zip(samples, values, strict=True)
    )
    starts = [later.rows for one, later in pairwise(samples) if later.start != one.start]
    return [
        f'<text x="{_LEFT}" y="{top - 8}" font-weight="600">{label}</text>',
        f'<path d="M{_LEFT} {top + _HIGH}h{wide}M{_LEFT} {top}h{wide}" stroke="#ddd"/>',
        *(
            f'<path d="M{x(rows):.1f} {top}v{_HIGH}" stroke="#e3a008" stroke-dasharray="2 3"/>'
            for rows in starts
        ),
        f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end" fill="#555">{high:,.0f}</text>',
        f'<text x="{_LEFT - 6}" y="{top + _HIGH}" text-anchor="end" fill="#555">0</text>',
        f'<polyline points="{points}" fill="none" stroke="#d6196b" stroke-width="1.5"/>',
    ]
