"""Curves of the SQLite frontier: adds, claim+settle, the CPU of one claim, bytes and memory as its file grows.

    python -m benchmarks.curves                                     some minutes for each number of hosts
    python -m benchmarks.curves --most 300000 --folder /tmp/curves  a short look

Each number of hosts has a process of its own. Every figure is durable: synchronous=FULL, one commit per batch. Adds
come in batches of 10,000 with a tenth of duplicates; the rate at a size is that of the last adds before it. Pages are
claimed and settled by 200, with one result row each. Prints a table, and writes curves.svg and curves.json into the
folder. `--document docs/benchmarks.md` puts the table there, too; `--read FILE` shows figures that were written before.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import apsw
import msgspec

from benchmarks.curves.plot import svg
from benchmarks.curves.point import Point, slowdown, table
from benchmarks.fleet.report import fill_in
from benchmarks.frontier import JOB, ROW, cpu, make_tasks
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.model import Done, Settlement
from shoal.sink.jsonl import JsonLines
from shoal.valve import Valve

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)
SHOWN = (10_000, 100_000, 1_000_000, 3_000_000, 5_000_000)  # in a document
HOSTS = (1, 1_000, 100_000)
BATCH = 10_000
MEASURED = 200_000  # URLs before a size whose adds are measured
PAGES, AT_ONCE = 5_000, 200
CLAIMS = 300


async def add(frontier: SqliteFrontier, start: int, end: int, hosts: int) -> tuple[float, float]:
    """Adds a second, and CPU us of one, of the last that are added."""
    wall = used = 0.0
    counted = min(end - start, MEASURED)
    for first in range(start, end, BATCH):
        tasks = make_tasks(first, BATCH, hosts)
        tasks += tasks[: BATCH // 10]
        began, began_cpu = time.perf_counter(), cpu()
        await frontier.add(JOB, tasks)
        if first >= end - counted:
            wall, used = wall + time.perf_counter() - began, used + cpu() - began_cpu
    return counted / wall, used / counted * 1e6


async def work(frontier: SqliteFrontier, journal: JsonLines) -> tuple[float, float, float]:
    """Pages claimed and settled a second, CPU us of one, and the longest wait for a commit in ms."""
    claim = Claim("bench", [JOB], {"normal": AT_ONCE}, AT_ONCE)
    done, longest = 0, 0.0
    began, began_cpu = time.perf_counter(), cpu()
    leases = (await frontier.claim(claim)).leases
    while leases and done < PAGES:
        asked = time.perf_counter()
        settle = frontier.settle([Settlement(lease, Done(), rows=(ROW,)) for lease in leases], journal)
        done += len(leases)
        _, claimed = await asyncio.gather(settle, frontier.claim(claim))
        leases = claimed.leases
        longest = max(longest, time.perf_counter() - asked)
    wall, used = time.perf_counter() - began, cpu() - began_cpu
    await frontier.release(leases)
    return done / wall, used / done * 1e6, longest * 1e3


async def claim_one(frontier: SqliteFrontier) -> float:
    """CPU us of a claim that takes one task, commit included."""
    claim = Claim("bench", [JOB], {"normal": 1}, 1)
    leases = []
    began = cpu()
    for _ in range(CLAIMS):
        leases += (await frontier.claim(claim)).leases
    used = cpu() - began
    await frontier.release(leases)
    return used / CLAIMS * 1e6


def stored_bytes(path: Path) -> int:
    """Of the file, with those of its pages that are still in the log only."""
    db = apsw.Connection(str(path))
    try:
        return int(db.pragma("page_count")) * int(db.pragma("page_size"))
    finally:
        db.close()


def resident() -> float:
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(hosts: int, most: int, folder: Path) -> list[Point]:
    points: list[Point] = []
    size = 0
    path = folder / "curves.db"
    async with SqliteFrontier(path) as frontier:
        journal = JsonLines(folder / "curves.jsonl")
        await frontier.open_job(JobSpec(JOB, valve=Valve(interval=0.0, cap=1_000_000)))
        for target in (size for size in SIZES if size <= most):
            adds, add_cpu = await add(frontier, size, target, hosts)
            size = target
            pages, page_cpu, longest = await work(frontier, journal)
            claim_cpu = await claim_one(frontier)
            stored = stored_bytes(path)
            points.append(
                Point(
                    hosts, size, adds, add_cpu, pages, page_cpu, claim_cpu, longest, stored / size, resident()
                )
            )
            print(points[-1].line(), file=sys.stderr, flush=True)
        journal.close()
    return points


def alone(hosts: int, most: int) -> list[Point]:
    """The points of one number of hosts, measured by a process of its own."""
    command = [sys.executable, "-m", "benchmarks.curves", "--only", str(hosts), "--most", str(most)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return msgspec.json.decode(output, type=list[Point])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=SIZES[-1], help="URLs; larger sizes are left out")
    parser.add_argument("--folder", type=Path, default=Path("docs/img"), help="where the results go")
    parser.add_argument(
        "--read", type=Path, metavar="FILE.json", help="figures of an earlier run, not a new one"
    )
    parser.add_argument("--document", type=Path, metavar="FILE.md", help="put the table into this document")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        folder = Path(tempfile.mkdtemp(prefix="shoal-curves-"))
        try:
            points = asyncio.run(measure(args.only, args.most, folder))
        finally:
            shutil.rmtree(folder)
        sys.stdout.buffer.write(msgspec.json.encode(points))
        return
    points = read(args.read) if args.read else [one for hosts in HOSTS for one in alone(hosts, args.most)]
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "curves.svg").write_text(svg(points), "utf-8")
    (args.folder / "curves.json").write_bytes(msgspec.json.format(msgspec.json.encode(points)))
    print(table(points))
    print(slowdown(points))
    if args.document:
        shown = [one for one in points if one.urls in SHOWN]
        fill_in(args.document, "curves", table(shown) + "\n")


def read(file: Path) -> list[Point]:
    return msgspec.json.decode(file.read_bytes(), type=list[Point])


if __name__ == "__main__":
    main()
