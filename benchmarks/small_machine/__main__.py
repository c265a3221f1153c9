"""A crawl on one small machine: one core, 512 MB, ten proxies of mixed quality, 100 hosts of which some misbehave.

    python -m benchmarks.small_machine              five minutes of it
    python -m benchmarks.small_machine --hours 1    an hour
    python -m benchmarks.small_machine --day        a day in virtual time, at a request every 30 s and host

Real sockets on loopback, HTTP and SOCKS5 proxies, a durable crawl with its usual settings and a rate. The day has no
sockets: the real engine and store, the same hosts and proxies, and a clock that jumps. Pages an hour, memory, the share
of the obtainable pages, and what a page costs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.small_machine import day, measure, plot, report
from benchmarks.small_machine.run import Run
from benchmarks.small_machine.world import make_hosts, make_proxies

MINUTES, DAY = 5.0, 24.0  # in hours, the second
PACE, SLOW_PACE = 1.0, 1 / 30  # requests a second and host
FULL = 0.5  # of the pages that the pace allows in the time are there: hosts that fail half of the time end as well


def main(given: Sequence[str] | None = None) -> int:
    args = _arguments(given)
    run = msgspec.json.decode(args.read.read_bytes(), type=Run) if args.read else _measure(args)
    _write(args, run)
    print(report.markdown(run))
    claims = report.claims(run)
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'FAILS'}  {claim}")
    return 0 if all(claims.values()) else 1


def _measure(args: argparse.Namespace) -> Run:
    pace = args.pace or (SLOW_PACE if args.day else PACE)
    hours = args.hours or (DAY if args.day else MINUTES / 60)
    pages = max(2, round(FULL * pace * 3600 * hours))
    folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=_folder(args.day)))
    try:
        return _run(args, pace, hours, pages, folder)
    finally:
        if args.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder)


def _run(args: argparse.Namespace, pace: float, hours: float, pages: int, folder: Path) -> Run:
    hosts, proxies = make_hosts(args.hosts, pages, pace, args.seed), make_proxies(pace)
    if args.day:
        return day.play(hosts, proxies, pace, args.seed, folder=folder, seconds=3600 * hours)
    return measure.crawl(
        hosts,
        proxies,
        pace,
        args.seed,
        folder=folder,
        deadline=3600 * hours,
        memory=report.MOST_MEMORY * 1024 * 1024,
        core=_last_core(),
    )


def _write(args: argparse.Namespace, run: Run) -> None:
    name = "day" if args.day else "run"
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))
    if args.plot:
        args.plot.write_text(plot.svg(run, "A day in virtual time" if args.day else "One core"))
    if args.document:
        args.document.write_text(report.fill_in(args.document.read_text(), name, run))


def _folder(in_memory: bool) -> str:
    """A crawl in real time pays for its disk. One in virtual time need not: a sync takes none of its time."""
    return "/dev/shm" if in_memory and os.access("/dev/shm", os.W_OK) else "."


def _last_core() -> int | None:
    """The core that the crawl runs on; None where a process cannot be pinned. The web and the proxies run on any."""
    if sys.platform != "linux":
        return None
    return max(os.sched_getaffinity(0))


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--day", action="store_true", help="in virtual time")
    parser.add_argument("--hours", type=float, help="how long; 5 minutes, or 24 h in virtual time")
    parser.add_argument("--pace", type=float, help="requests a second and host; 1, or 1/30 in virtual time")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument(
        "--read", type=Path, metavar="FILE", help="instead of a run, the figures of such a file"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    parser.add_argument("--document", type=Path, metavar="FILE.md", help="put the figures into this document")
    parser.add_argument("--keep", action="store_true", help="the folder of the crawl")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
