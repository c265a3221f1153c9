"""Plots over time, as SVG that is stretched to whatever width there is; its labels are HTML, and are not. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

from msgspec import Struct

from shoal.engine.history import History, Point, Slice
from shoal.text import humanize, without_secrets

WIDE, HIGH = 1000.0, 100.0  # the units of a plot, whatever its size on the screen
_MOST_TICKS = 5
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3600 * n for n in (1, 2, 3, 6, 12)),
    *(86_400 * n for n in (1, 2, 5, 10, 30, 90, 365)),
)


class Series(Struct, frozen=True):
    """One line or layer: a value for each point; None: there is none."""

    name: str
    style: str  # the class that gives it its colour
    values: Sequence[float | None]


class Scale(Struct, frozen=True):
    """From values to heights."""

    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False

    def y(self, value: float) -> float:
        if self.logarithmic:
            value = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            value = (value - self.low) / (self.high - self.low)
        return HIGH * (1 - min(1.0, max(0.0, value)))


def linear(values: Sequence[float | None]) -> Scale:
    """From zero, to a round number above all of them."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    rough = most / 5
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(n * magnitude for n in (1, 2, 2.5, 5, 10) if n * magnitude >= rough)
    count = math.ceil(most / step - 1e-9)
    return Scale(0.0, count * step, [n * step for n in range(count + 1)])


def logarithmic(values: Sequence[float | None]) -> Scale:
    """By decades, for what spans several of them."""
    known = [value for value in values if value] or [0.01, 1.0]
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    high = max(high, low + 1)
    return Scale(10.0**low, 10.0**high, [10.0**n for n in range(low, high + 1)], logarithmic=True)


class Plot:
    """The time axis and the frame that all kinds of plots share."""

    def __init__(self, points: Sequence[Point], scale: Scale, label: Callable[[float], str]) -> None:
        self._points = points
        self._scale = scale
        self._label = label
        self._start = points[0].at
        self._span = points[-1].at + points[-1].seconds - self._start

    # -- kinds

    def area(self, series: Series) -> str:
        line = self._widened([(self._middle(p), self._scale.y(v or 0.0)) for p, v in self._pairs(series)])
        first, last = line[0][0], line[-1][0]
        outline = _path(line)
        return (
            f'<path class="fill {series.style}" d="{outline}L{last:.1f} {HIGH:g}L{first:.1f} {HIGH:g}Z"/>'
            f'<path class="line {series.style}" d="{outline}"/>'
        )

    def line(self, series: Series) -> str:
        """Broken where there is no value."""
        parts: list[list[tuple[float, float]]] = [[]]
        for point, value in self._pairs(series):
            if value is None:
                parts.append([])
            else:
                parts[-1].append((self._middle(point), self._scale.y(value)))
        drawn = "".join(_path(self._widened(part)) for part in parts if part)
        return f'<path class="line {series.style}" d="{drawn}"/>'

    def _widened(self, part: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """What stands alone is as wide as its slice."""
        if len(part) > 1:
            return part
        [(x, y)], half = part, self._width(self._points[0]) / 2
        return [(x - half, y), (x + half, y)]

    def stacked(self, layers: Sequence[Series]) -> str:
        heights = [0.0] * len(self._points)
        drawn = []
        for layer in layers:
            columns = []
            for place, (point, value) in enumerate(self._pairs(layer)):
                if value:
                    below, above = self._scale.y(heights[place]), self._scale.y(heights[place] + value)
                    heights[place] += value
                    columns.append(
                        f"M{self._x(point.at):.1f} {below:.2f}V{above:.2f}h{self._width(point):.1f}V{below:.2f}Z"
                    )
            drawn.append(f'<path class="fill solid {layer.style}" d="{"".join(columns)}"/>')
        return "".join(drawn)

    # -- the frame

    def framed(self, drawn: str, *, about: str, said: Callable[[Point], str]) -> str:
        """The plot with its axes. `about` is for those who cannot see it; `said` is shown under the pointer."""
        return (
            '<div class="plot"><div class="canvas">'
            f'<svg viewBox="0 0 {WIDE:g} {HIGH:g}" preserveAspectRatio="none" role="img" aria-label="{text(about)}">'
            f"{self._grid()}{drawn}{self._hints(said)}</svg>{self._y_labels()}</div>{self._x_labels()}</div>"
        )

    def _grid(self) -> str:
        lines = "".join(f"M0 {self._scale.y(tick):.2f}H{WIDE:g}" for tick in self._scale.ticks)
        return f'<path class="grid" d="{lines}"/>'

    def _hints(self, said: Callable[[Point], str]) -> str:
        return "".join(
            f'<rect class="hint" x="{self._x(p.at):.1f}" width="{self._width(p):.1f}" height="{HIGH:g}">'
            f"<title>{text(elapsed(p.at - self._start))}: {text(said(p))}</title></rect>"
            for p in self._points
        )

    def _y_labels(self) -> str:
        return "".join(
            f'<span class="y" style="top:{self._scale.y(tick):.1f}%">{text(self._label(tick))}</span>'
            for tick in self._scale.ticks
        )

    def _x_labels(self) -> str:
        step = next((step for step in _STEPS if self._span / step <= _MOST_TICKS), _STEPS[-1])
        ticks = [n * step for n in range(int(self._span / step) + 1)]
        labels = "".join(
            f'<span style="left:{tick / self._span:.2%}">{_axis_time(tick, step)}</span>' for tick in ticks
        )
        return f'<div class="x">{labels}</div>'

    def _pairs(self, series: Series) -> Sequence[tuple[Point, float | None]]:
        return list(zip(self._points, series.values, strict=True))

    def _x(self, at: float) -> float:
        return (at - self._start) / self._span * WIDE

    def _width(self, point: Point) -> float:
        return point.seconds / self._span * WIDE

    def _middle(self, point: Point) -> float:
        return self._x(point.at) + self._width(point) / 2


def elapsed(seconds: float) -> str:
    """ "0:42", "1:05:00", "2 d 3:00:00" after the start."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
    return f"{days} d {clock}" if days else clock


def _axis_time(seconds: float, step: float) -> str:
    if not seconds:
        return "0"
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if step >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.2f}" for x, y in points)


# -- text and times


def text(value: object) -> str:
    """Whatever came from the web, or from a person, is text and nothing else; and no secret of a URL is in it."""
    return escape(humanize.printable(without_secrets(str(value))))


def when(at: float) -> str:
    """UTC, as the page says once."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def nothing(sentence: str) -> str:
    return f'<p class="nothing">{text(sentence)}</p>'


# -- pages, latency, errors and retries over time


_COLUMNS = 160  # slices in a plot
_COLOURED = 6  # kinds of errors with a colour of their own
_PERCENTILES = (50, 95, 99)

Legend = Sequence[tuple[str, str, str]]  # name, style, value


def plots(history: History, total: Slice) -> str:
    points = history.coarsened(_COLUMNS).points()
    if not points:
        return nothing("Nothing is known of what happened over time.")
    drawn = [_pages(points), _latency(points), _errors(points, total), _retries(points, total)]
    if total.visits:
        drawn += [_freshness(points), _visits(points, total)]
    return "".join(drawn)


def _pages(points: Sequence[Point]) -> str:
    series = Series("pages/s", "pages", [point.rate for point in points])
    plot = Plot(points, linear(series.values), _number)
    body = plot.framed(
        plot.area(series),
        about="pages a second over time",
        said=lambda point: f"{humanize.rate(point.rate)} pages/s",
    )
    return _figure("Pages a second", (), body)


def _latency(points: Sequence[Point]) -> str:
    lines = [Series(f"p{p}", f"p{p}", [point.slice.percentile(p) for point in points]) for p in _PERCENTILES]
    plot = Plot(points, logarithmic([value for line in lines for value in line.values]), _seconds)

    def said(point: Point) -> str:
        return ", ".join(f"p{p} {humanize.latency(point.slice.percentile(p))}" for p in _PERCENTILES)

    drawn = "".join(plot.line(line) for line in reversed(lines))
    body = plot.framed(drawn, about="median, 95th and 99th percentile of the latency over time", said=said)
    return _figure("Latency", [(line.name, line.style, "") for line in lines], body)


def _errors(points: Sequence[Point], total: Slice) -> str:
    ranked = sorted(total.errors, key=lambda kind: (-total.errors[kind], kind))
    groups = {kind: [kind] for kind in ranked[:_COLOURED]}
    if len(ranked) > _COLOURED:
        groups["others"] = ranked[_COLOURED:]
    layers = [
        Series(name, f"s{place}", [_count(point.slice, kinds) / point.seconds for point in points])
        for place, (name, kinds) in enumerate(groups.items(), 1)
    ]
    legend = [
        (layer.name, layer.style, humanize.count(_count(total, groups[layer.name]))) for layer in layers
    ]
    return _columns(
        "Errors a second",
        points,
        layers,
        legend,
        about="failed attempts a second over time, by class",
        said=lambda point: humanize.by_count(point.slice.errors) or "no errors",
    )


def _retries(points: Sequence[Point], total: Slice) -> str:
    layers = [
        Series("retries", "retries", [point.slice.retries / point.seconds for point in points]),
        Series("dead", "dead", [point.slice.dead / point.seconds for point in points]),
    ]
    return _columns(
        "Retries and dead pages a second",
        points,
        layers,
        [("retries", "retries", humanize.count(total.retries)), ("dead", "dead", humanize.count(total.dead))],
        about="retries and pages that were given up, a second over time",
        said=lambda point: (
            f"{humanize.plural(point.slice.retries, 'retry', 'retries')}, {humanize.count(point.slice.dead)} dead"
        ),
    )


def _freshness(points: Sequence[Point]) -> str:
    """Of a standing job: for how much of the time pages were checked within their interval."""
    series = Series("fresh", "pages", [point.slice.visits.freshness for point in points])
    plot = Plot(points, Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0)), lambda tick: f"{tick * 100:g} %")
    body = plot.framed(
        plot.line(series),
        about="share of the time in which pages were fresh",
        said=lambda point: f"{humanize.percent(point.slice.visits.freshness)} fresh",
    )
    return _figure("Fresh pages", (), body)


_RESULTS = {"changed": "pages", "unchanged": "p50", "missed": "retries", "gone": "dead", "held": "s5"}


def _visits(points: Sequence[Point], total: Slice) -> str:
    layers = [
        Series(name, style, [getattr(point.slice.visits, name) / point.seconds * 60 for point in points])
        for name, style in _RESULTS.items()
        if getattr(total.visits, name)
    ]
    counted = [(one.name, one.style, humanize.count(getattr(total.visits, one.name))) for one in layers]
    return _columns(
        "What visits found, a minute",
        points,
        layers,
        counted,
        about="visits of followed pages a minute over time, by what they found",
        said=lambda point: (
            humanize.by_count(
                {name: number for name in _RESULTS if (number := getattr(point.slice.visits, name))}
            )
            or "no visits"
        ),
    )


def _columns(
    title: str,
    points: Sequence[Point],
    layers: Sequence[Series],
    legend: Legend,
    *,
    about: str,
    said: Callable[[Point], str],
) -> str:
    heights = [sum(layer.values[place] or 0.0 for layer in layers) for place in range(len(points))]
    if not any(heights):
        return _figure(title, (), nothing("There were none."))
    plot = Plot(points, linear(heights), _number)
    return _figure(title, legend, plot.framed(plot.stacked(layers), about=about, said=said))


def _count(slice: Slice, kinds: Sequence[str]) -> int:
    return sum(slice.errors.get(kind, 0) for kind in kinds)


def _number(tick: float) -> str:
    return f"{tick:,.10g}"


def _seconds(tick: float) -> str:
    return f"{tick:g} s" if tick >= 1 else f"{tick * 1000:g} ms"


def _figure(title: str, legend: Legend, body: str) -> str:
    keys = "".join(
        f'<li class="{style}">{text(name)} <b>{text(value)}</b></li>' for name, style, value in legend
    )
    shown = f'<ul class="legend">{keys}</ul>' if legend else ""
    return f'<figure class="card"><figcaption>{text(title)}</figcaption>{shown}{body}</figure>'
