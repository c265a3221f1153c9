"""The figures of a run as Markdown, and as claims that hold or fail."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.small_machine.run import Run
from benchmarks.small_machine.world import HOPELESS

# What others have published of such a machine: a server for six dollars a month.
PUBLISHED_HOUR, PUBLISHED_DAY = 4_200, 100_000
PUBLISHED_MEMORY, PUBLISHED_SUCCESS = 180, 0.94  # MB, share
MOST_MEMORY = 512  # MB, of the machine
_MB = 1024 * 1024


def markdown(run: Run) -> str:
    parts = [_figures(run), _hosts(run), _proxies(run), _errors(run)]
    return "\n\n".join(parts) + "\n"


def _figures(run: Run) -> str:
    hours = run.seconds / 3600
    rows = {
        "pages an hour": (f"{PUBLISHED_HOUR:,}", f"{run.per_hour:,.0f}"),
        "… while hosts had pages left": ("", f"{run.steady_per_hour:,.0f}"),
        "pages in a day of it": (f"{PUBLISHED_DAY:,}", f"{24 * run.per_hour:,.0f}"),
        "of the obtainable pages": (f"{PUBLISHED_SUCCESS:.0%}", f"{run.success:.1%}"),
        "of the requests, brought a page": ("", f"{run.obtained / max(1, run.requests):.1%}"),
        "most memory, MB": (f"{PUBLISHED_MEMORY}", f"{run.peak / _MB:.0f}"),
        "memory after a tenth of the time, and later, MB": (
            "",
            f"{(run.memory[-1][1] - run.growth) / _MB:.0f}, {run.growth / _MB:+.1f}",
        ),
        "store on disk, MB": ("", f"{run.store / _MB:.1f}"),
        "cost of 1,000 pages": ("", f"{1000 * run.cost:.2f}"),
        "CPU, ms a page": ("", f"{1000 * run.cpu / max(1, run.obtained):.2f}"),
    }
    lines = [f"| {run.obtained:,} pages in {hours:.2f} h | published | Shoal |", "|---|---|---|"]
    lines += [f"| {name} | {theirs} | {ours} |" for name, (theirs, ours) in rows.items()]
    return "\n".join(lines)


def _hosts(run: Run) -> str:
    lines = [
        "| hosts | number | pages there | obtained | share | requests | 429 or 403 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, kind in sorted(run.kinds.items(), key=lambda item: -item[1].there):
        share = "–" if name in HOPELESS else f"{kind.share:.1%}"
        lines.append(
            f"| {name} | {kind.hosts} | {kind.there:,} | {kind.obtained:,} | {share} "
            f"| {kind.requests:,} | {kind.refused:,} |"
        )
    return "\n".join(lines)


def _proxies(run: Run) -> str:
    lines = ["| proxy | pool | requests | at the end |", "|---|---|---|---|"]
    lines += [
        f"| {one.name} | {one.pool} | {one.requests:,} | {one.condition} |"
        for one in sorted(run.account.proxies, key=lambda proxy: (proxy.pool, -proxy.requests))
    ]
    return "\n".join(lines)


def _errors(run: Run) -> str:
    failed, dead = _counted(run.account.errors), _counted(run.account.dead)
    return f"Failed requests that count as attempts: {failed}.\n\nPages given up: {dead}."


def _counted(kinds: Mapping[str, int]) -> str:
    ordered = sorted(kinds.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {kind}" for kind, number in ordered) or "none"


def claims(run: Run) -> dict[str, bool]:
    """What must hold of a run."""
    return {
        f"{PUBLISHED_HOUR:,} pages an hour": run.per_hour >= PUBLISHED_HOUR,
        f"{PUBLISHED_SUCCESS:.0%} of the obtainable pages": run.success >= PUBLISHED_SUCCESS,
        f"at most {PUBLISHED_MEMORY} MB": run.peak <= PUBLISHED_MEMORY * _MB,
        f"never more than {MOST_MEMORY} MB": not run.killed,
        "no row twice, none of a page that is not there": not (run.doubled or run.strange),
    }


def fill_in(text: str, name: str, run: Run) -> str:
    """The document with the figures of this run between its two marks."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(start)
    _, ends, after = rest.partition(end)
    if not (found and ends):
        raise SystemExit(f"the document must have {start.strip()} and {end} after it")
    return f"{before}{start}{markdown(run)}{end}{after}"
