"""The results as tables: for the terminal, and in Markdown for docs/peers.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.peers.contenders import OWN, PEERS
from benchmarks.peers.results import Figures, Results, ratio

FLOORS = ("aiohttp", "bare")  # what costs are compared with, by the name it has in a run
TITLES = {name: contender.title for name, contender in {**OWN, **PEERS}.items()}


class Table(Struct, frozen=True):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Aim(Struct, frozen=True):
    """That CPU a page of `ours` is at most so many times that of `peer`."""

    ours: str
    peer: str
    most: float | None = None


# What Shoal wants to be; and what else is worth comparing.
AIMS = (
    Aim("shoal", "aiohttp", 1.0),
    Aim("shoal", "httptools"),
    Aim("shoal", "crawlee", 1 / 6),
    Aim("shoal", "crawlee-files"),
    Aim("shoal", "scrapy"),
    Aim("shoal", "scrapy-jobdir", 1 / 10),
    Aim("shoal-valkey", "scrapy-redis", 1 / 15),
    Aim("shoal-valkey", "shoal"),
    Aim("shoal-2", "shoal"),
)

_COLUMNS: Mapping[str, Callable[[Figures], str]] = {
    "CPU ms a page": lambda f: f"{f.cpu_ms:.2f}",
    "lowest – highest": lambda f: f"{f.lowest_ms:.2f} – {f.highest_ms:.2f}",
    "one page more": lambda f: _number(f.more_ms, 2),
    "start-up CPU s": lambda f: _number(f.startup, 2),
    "pages/s": lambda f: f"{f.pages_per_second:,.0f}",
    "peak MB": lambda f: f"{f.memory_mb:.0f}",
    "Valkey CPU ms": lambda f: _number(f.valkey_ms, 2),
}


def shape_table(results: Results, shape: str) -> Table:
    names = results.finished(shape)
    rows = []
    for name in names:
        cells = [column(results.figures(shape, name)) for column in _COLUMNS.values()]
        cells.insert(1, times(to_floor(results, shape, name)))
        rows.append([TITLES[name], *cells])
    failed = [failure.contender for failure in results.failures if failure.shape == shape]
    rows += [[TITLES[name], "failed", *[""] * len(_COLUMNS)] for name in failed]
    first, *others = _COLUMNS
    return Table(["crawler", first, "of bare aiohttp", *others], rows)


def ratio_table(results: Results, *, startup: bool = True) -> Table:
    """CPU a page of Shoal as a part of each peer's, on every shape; with start-up, or for one page more."""
    compare = relative if startup else relative_more
    rows = []
    for aim in AIMS:
        found = [compare(results, shape.name, aim.ours, aim.peer) for shape in results.shapes]
        if any(one is not None for one in found):
            wanted = "" if aim.most is None else f"≤ {times(aim.most)}"
            cells = [_cell(aim, one) for one in found]
            rows.append([f"{TITLES[aim.ours]} : {TITLES[aim.peer]}", wanted, *cells])
    first = "CPU a page" if startup else "CPU of one page more"
    return Table([first, "aim", *[shape.name for shape in results.shapes]], rows)


def _cell(aim: Aim, found: float | None) -> str:
    reached = found is not None and aim.most is not None and found <= aim.most
    return f"**{times(found)}**" if reached else times(found)


def relative(results: Results, shape: str, name: str, to: str) -> float | None:
    if not {name, to} <= set(results.finished(shape)):
        return None
    return ratio(results.runs[shape][name], results.runs[shape][to])


def relative_more(results: Results, shape: str, name: str, to: str) -> float | None:
    if not {name, to} <= set(results.finished(shape)):
        return None
    mine, other = results.figures(shape, name).more_ms, results.figures(shape, to).more_ms
    # With few pages the noise of a start is more than all of them cost.
    return mine / other if mine and other and mine > 0 and other > 0 else None


def to_floor(results: Results, shape: str, name: str) -> float | None:
    floor = next((floor for floor in FLOORS if floor in results.contenders), FLOORS[0])
    return relative(results, shape, name, floor)


def times(found: float | None) -> str:
    """1.75, or 1/8.2."""
    if found is None:
        return "–"
    return f"{found:.2f}" if found >= 0.8 else f"1/{1 / found:.1f}".removesuffix(".0")


def _number(value: float | None, places: int) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def markdown(table: Table) -> str:
    lines = ["| " + " | ".join(table.head) + " |", "|---" * len(table.head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def conditions(results: Results) -> str:
    """What was measured where, as a sentence."""
    about = dict(results.about)
    where = f"{about.pop('system')}, CPython {about.pop('python')}"
    versions = ", ".join(f"{name} {version}" for name, version in about.items())
    pages = ", ".join(f"{shape.name} {shape.pages:,}" for shape in results.shapes)
    others = results.others()
    busy = (
        ""
        if others is None
        else f" Others kept {others:.1f} cores busy meanwhile, in the middle of all runs."
    )
    many = "1 round" if results.rounds == 1 else f"{results.rounds} rounds"
    terms = f"{many}, {results.concurrency} requests at once; pages: {pages}."
    return f"{terms} {where}; {versions}.{busy}\n"


def show(results: Results) -> None:
    # Into a file it is not cut to the eighty columns of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 160)
    for shape in results.shapes:
        console.print(
            _rich(f"{shape.name}: {shape.title}; {shape.pages:,} pages", shape_table(results, shape.name))
        )
    for startup in (True, False):
        if (table := ratio_table(results, startup=startup)).rows:
            title = "Shoal and its peers" + (", start-up included" if startup else ", without start-up")
            console.print(_rich(title, table))
    console.print(conditions(results))
    for failure in results.failures:
        console.print(f"FAILED on {failure.shape}: {failure.reason}", markup=False)


def _rich(title: str, table: Table) -> RichTable:
    rich = RichTable(title=title)
    for heading in table.head:
        rich.add_column(heading, justify="right" if rich.columns else "left")
    for row in table.rows:
        rich.add_row(*[cell.replace("**", "") for cell in row])
    return rich
