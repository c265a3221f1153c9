"""CPU a page of every contender on one shape, as bars in an SVG.

It has a ground of its own, light or dark as the reader's system is, so that it can be read on any page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import Struct

from benchmarks.peers.contenders import PEERS
from benchmarks.peers.report import TITLES, to_floor
from benchmarks.peers.results import Figures, Results
from benchmarks.peers.shapes import Shape

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 190, 150, 74, 46
ROW, BAR = 32, 17
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # between two lines of the axis

STYLE = """
.ground { fill: #ffffff; stroke: #d9e0e6 }
.ink { fill: #1c2833 }
.dim { fill: #5c6b78 }
.line { stroke: #e4e9ed }
.ours { fill: #d6196b }
.peer { fill: #6d8fb3 }
.floor { fill: #9aa5ad }
.valkey { opacity: .42 }
.start { fill: #000000; opacity: .28 }
.dot { fill: #ffffff; stroke: #1c2833 }
@media (prefers-color-scheme: dark) {
  .ground { fill: #16202a; stroke: #2c3a47 }
  .ink { fill: #e9eff4 }
  .dim { fill: #9db0bf }
  .line { stroke: #2a3743 }
  .ours { fill: #f0468c }
  .peer { fill: #7ea6d0 }
  .floor { fill: #7f8d98 }
  .dot { fill: #16202a; stroke: #e9eff4 }
}
"""


class Bar(Struct, frozen=True):
    name: str
    pages: int
    figures: Figures
    rounds: Sequence[float]  # ms, each
    times: float | None  # of the floor

    @property
    def end(self) -> float:
        return self.figures.cpu_ms + (self.figures.valkey_ms or 0.0)

    @property
    def kind(self) -> str:
        if self.name in ("aiohttp", "httptools"):
            return "floor"
        return "ours" if PEERS[self.name].ours else "peer"


def svg(results: Results, shape: Shape) -> str:
    bars = sorted(_bars(results, shape), key=lambda bar: bar.figures.cpu_ms)
    height = TOP + ROW * len(bars) + BOTTOM
    top = max(max(bar.end, *bar.rounds) for bar in bars)
    scale = (WIDTH - LEFT - RIGHT) / top
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<title>CPU a page, {escape(shape.title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        '<text class="ink" x="20" y="30" font-size="16" font-weight="600">CPU a page</text>',
        f'<text class="dim" x="20" y="50">{escape(shape.title)}; {shape.pages:,} pages, start-up included</text>',
        *_axis(top, scale, height),
        *[line for number, bar in enumerate(bars) for line in _bar(bar, TOP + ROW * number, scale)],
        *_legend(bars, height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bars(results: Results, shape: Shape) -> list[Bar]:
    return [
        Bar(
            name,
            shape.pages,
            results.figures(shape.name, name),
            [run.cpu_ms for run in results.runs[shape.name][name]],
            to_floor(results, shape.name, name),
        )
        for name in results.finished(shape.name)
    ]


def _axis(top: float, scale: float, height: int) -> list[str]:
    step = next((step for step in _STEPS if top / step <= 6), _STEPS[-1])
    lines = []
    for number in range(int(top / step) + 1):
        x = LEFT + number * step * scale
        label = f"{number * step:g}" + (" ms" if number == 0 else "")
        lines += [
            f'<path class="line" d="M{x:.1f} {TOP - 6}V{height - BOTTOM}"/>',
            f'<text class="dim" x="{x:.1f}" y="{height - BOTTOM + 17}" '
            f'text-anchor="middle" font-size="12">{label}</text>',
        ]
    return lines


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    width, middle = bar.figures.cpu_ms * scale, y + BAR / 2
    weight = ' font-weight="600"' if bar.kind == "ours" else ""
    label = f'x="{LEFT - 10}" y="{middle + 4.5:.1f}" text-anchor="end"{weight}'
    lines = [
        f'<text class="ink" {label}>{escape(TITLES[bar.name])}</text>',
        f'<rect class="{bar.kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>',
    ]
    if bar.figures.startup:
        share = 1e3 * bar.figures.startup / bar.pages
        lines.append(
            f'<rect class="start" x="{LEFT}" y="{y}" width="{share * scale:.1f}" height="{BAR}" rx="2"/>'
        )
    if bar.figures.valkey_ms:
        lines.append(
            f'<rect class="{bar.kind} valkey" x="{LEFT + width:.1f}" y="{y}" '
            f'width="{bar.figures.valkey_ms * scale:.1f}" height="{BAR}" rx="2"/>'
        )
    lines += [
        f'<circle class="dot" cx="{LEFT + cost * scale:.1f}" cy="{middle:.1f}" r="2.6"/>'
        for cost in (bar.rounds if len(bar.rounds) > 1 else ())
    ]
    times = "" if bar.times is None else f"{bar.times:.{2 if bar.times < 10 else 1}f} ×"
    end = LEFT + max(bar.end, *bar.rounds) * scale + 10
    lines.append(
        f'<text class="ink" x="{end:.1f}" y="{middle + 4.5:.1f}"{weight}>{bar.figures.cpu_ms:.2f} ms'
        f'<tspan class="dim" dx="7" font-weight="400">{times}</tspan></text>'
    )
    return lines


def _legend(bars: Sequence[Bar], height: int) -> list[str]:
    words = "× bare aiohttp; dark: start-up"
    if any(len(bar.rounds) > 1 for bar in bars):
        words += "; circles: single rounds"
    if any(bar.figures.valkey_ms for bar in bars):
        words += "; pale: Valkey's own"
    return [
        f'<text class="dim" x="{WIDTH - 20}" y="{height - 10}" text-anchor="end" font-size="12">{escape(words)}</text>'
    ]
