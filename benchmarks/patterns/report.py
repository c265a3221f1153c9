"""The figures as a table for people, as Markdown for the document and as JSON."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.patterns.figures import Figures, claims

Races = Mapping[str, Mapping[str, Figures]]  # by the order of the URLs, and by contender

COLUMNS: dict[str, Callable[[Figures], str]] = {
    "obtained": lambda f: f"{f.share:.1%}",
    "pages/min": lambda f: f"{f.pages_per_minute:,.0f}",
    "95 % s": lambda f: "–" if f.to_95 is None else f"{f.to_95:,.0f}",
    "end s": lambda f: ("> " if f.cut_short else "") + f"{f.end:,.0f}",
    "requests": lambda f: f"{f.requests:,}",
    "429": lambda f: f"{f.rate_429:.2%}",
    "timeout": lambda f: f"{f.timeout_rate:.2%}",
    "unsent": lambda f: f"{f.unsent:.2%}",
    "mean s": lambda f: f"{f.mean:.2f}",
    "p95 s": lambda f: f"{f.p95:.1f}",
    "slots waited s": lambda f: f"{f.waited:,.0f}",
    "CPU s": lambda f: f"{f.cpu:.1f}",
    "load": lambda f: f"{f.cpu_load:.0%}",
    "peak MB": lambda f: f"{f.peak_rss / 1e6:.0f}",
}
_PLACE = r"(?<=<!-- table {order} -->\n).*?(?=<!-- end of table -->)"


def show(results: Mapping[str, Figures]) -> None:
    table = Table("")
    for heading in COLUMNS:
        table.add_column(heading, justify="right")
    for name, row in _rows(results).items():
        table.add_row(name, *row)
    # Into a file it is not cut to the eighty columns of a terminal that is not there.
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for claim, holds in claims(results).items():
        print(f"{'holds' if holds else 'FAILS'}  {claim}")


def markdown(results: Mapping[str, Figures]) -> str:
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| `{name}` | {' | '.join(row)} |" for name, row in _rows(results).items()]
    return "\n".join(lines) + "\n"


def fill_in(document: Path, races: Races) -> None:
    """Puts each table where the document has a place for it."""
    text = document.read_text("utf-8")
    for order, results in races.items():
        table = markdown(results)
        place = re.compile(_PLACE.format(order=order), re.DOTALL)
        text, places = place.subn(table.replace("\\", r"\\"), text)
        if places != 1:
            raise SystemExit(
                f"{document} must have one <!-- table {order} --> and <!-- end of table --> after it"
            )
    document.write_text(text, "utf-8")


def as_json(races: Races, about: Mapping[str, Any]) -> bytes:
    machine = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        **{package: _version(package) for package in ("aiohttp", "scrapy", "shoal")},
    }
    orders = {order: {"contenders": results, "claims": claims(results)} for order, results in races.items()}
    everything = {"about": {**machine, **about}, "orders": orders}
    return msgspec.json.format(msgspec.json.encode(everything), indent=1)


def read(path: Path) -> dict[str, dict[str, Figures]]:
    """The races of such a file; none if there is no file."""
    if not path.exists():
        return {}
    orders = msgspec.json.decode(path.read_bytes())["orders"]
    return {order: msgspec.convert(one["contenders"], dict[str, Figures]) for order, one in orders.items()}


def in_turn(results: Mapping[str, Figures], names: Sequence[str]) -> dict[str, Figures]:
    """The same in the order of the names."""
    return {name: results[name] for name in names if name in results}


def _rows(results: Mapping[str, Figures]) -> dict[str, list[str]]:
    return {name: [cell(one) for cell in COLUMNS.values()] for name, one in results.items()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
