"""Medians and ratios, as a table and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from statistics import median

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.crawl.measure import Run


class Summary(msgspec.Struct, frozen=True):
    """What one crawler took; medians over its runs."""

    cpu_ms_per_page: float
    cpu_ratio_to_scrapy: float | None
    startup_cpu: float  # seconds, on a site of one page
    wall: float  # seconds
    pages_per_second: float
    peak_rss_mb: float
    runs: Sequence[Run]


def summarise(runs: Mapping[str, Sequence[Run]], startups: Mapping[str, Sequence[Run]]) -> dict[str, Summary]:
    costs = {name: _median(of, lambda run: run.cpu / run.pages) for name, of in runs.items()}
    summaries = {}
    for name, of in runs.items():
        wall = _median(of, lambda run: run.wall)
        summaries[name] = Summary(
            cpu_ms_per_page=costs[name] * 1e3,
            cpu_ratio_to_scrapy=costs[name] / costs["scrapy"] if "scrapy" in costs else None,
            startup_cpu=_median(startups[name], lambda run: run.cpu),
            wall=wall,
            pages_per_second=of[0].pages / wall,
            peak_rss_mb=_median(of, lambda run: run.peak_rss) / 1e6,
            runs=of,
        )
    return summaries


def table(summaries: Mapping[str, Summary]) -> Table:
    result = Table()
    for heading in (
        "crawler",
        "CPU ms/page",
        "of Scrapy's",
        "start-up CPU s",
        "wall s",
        "pages/s",
        "peak MB",
    ):
        result.add_column(heading, justify="left" if heading == "crawler" else "right")
    for name, summary in summaries.items():
        ratio = summary.cpu_ratio_to_scrapy
        result.add_row(
            name,
            f"{summary.cpu_ms_per_page:.3f}",
            f"1/{1 / ratio:.1f}" if ratio else "–",
            f"{summary.startup_cpu:.2f}",
            f"{summary.wall:.2f}",
            f"{summary.pages_per_second:.0f}",
            f"{summary.peak_rss_mb:.0f}",
        )
    return result


def as_json(summaries: Mapping[str, Summary]) -> bytes:
    about = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "scrapy": version("scrapy") if "scrapy" in summaries else None,
        "aiohttp": version("aiohttp"),
    }
    return msgspec.json.format(msgspec.json.encode({"about": about, "crawlers": summaries}), indent=2)


def show(summaries: Mapping[str, Summary]) -> None:
    Console().print(table(summaries))


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return median(of(run) for run in runs)
