"""The plots of a report: pages, latency, errors and retries over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal import humanize
from shoal.engine.history import History, Point, Slice
from shoal.report.plots import Plot, Series, linear, logarithmic, nothing, text

_COLUMNS = 160  # slices in a plot
_COLOURED = 6  # kinds of errors with a colour of their own
_PERCENTILES = (50, 95, 99)

Legend = Sequence[tuple[str, str, str]]  # name, style, value


def plots(history: History, total: Slice) -> str:
    points = history.coarsened(_COLUMNS).points()
    if not points:
        return nothing("Nothing is known of what happened over time.")
    drawn = [_pages(points), _latency(points), _errors(points, total), _retries(points, total)]
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
