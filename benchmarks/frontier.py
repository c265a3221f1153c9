"""How quick the SQLite frontier is, and how that grows: adds a second, claim+settle a second, CPU a page.

    python -m benchmarks.frontier                      a million URLs
    python -m benchmarks.frontier --urls 5000000       the long run of docs/benchmarks.md

Every figure is durable: synchronous=FULL, one commit per batch. URLs are spread over hosts; a tenth of all adds are
duplicates, as in a crawl. Claim+settle also writes one result row a page through the journal.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.model import Done, Row, Settlement, Task
from shoal.sink.jsonl import JsonLines
from shoal.valve import Valve

JOB = "bench"
ROW = Row(b'{"url": "http://example.test/a/page", "status": 200, "title": "A page of some title"}\n')


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def make_tasks(start: int, count: int, hosts: int) -> list[Task]:
    urls = (
        f"http://host{i % hosts}.test/catalogue/category-{i % 97}/product-{i}.html"
        for i in range(start, start + count)
    )
    return [
        Task(url, handler="page", host=host_key(url), depth=3, fingerprint=fingerprint(url)) for url in urls
    ]


async def measure_adds(
    frontier: SqliteFrontier, start: int, count: int, hosts: int, batch: int
) -> dict[str, float]:
    wall = used = 0.0
    for first in range(start, start + count, batch):
        tasks = make_tasks(first, batch, hosts)
        tasks += tasks[: batch // 10]
        began, began_cpu = time.perf_counter(), cpu()
        await frontier.add(JOB, tasks)
        wall, used = wall + time.perf_counter() - began, used + cpu() - began_cpu
    return {"adds_per_s": count / wall, "add_cpu_us": used / count * 1e6}


async def measure_pages(
    frontier: SqliteFrontier, journal: JsonLines, pages: int, batch: int
) -> dict[str, float]:
    claim = Claim("bench", [JOB], {"normal": batch}, batch)
    done = 0
    began, began_cpu = time.perf_counter(), cpu()
    leases = (await frontier.claim(claim)).leases
    while leases and done < pages:
        settle = frontier.settle([Settlement(lease, Done(), rows=(ROW,)) for lease in leases], journal)
        done += len(leases)
        # Handed in together, as the engine does: both share one commit.
        _, claimed = await asyncio.gather(settle, frontier.claim(claim))
        leases = claimed.leases
    wall, used = time.perf_counter() - began, cpu() - began_cpu
    await frontier.release(leases)
    return {"pages_per_s": done / wall, "page_cpu_us": used / done * 1e6}


async def run(args: argparse.Namespace, folder: Path) -> list[dict[str, float]]:
    steps = []
    async with SqliteFrontier(folder / "bench.db") as frontier:
        journal = JsonLines(folder / "bench.jsonl")
        await frontier.open_job(JobSpec(JOB, valve=Valve(interval=0.0, cap=1000)))
        size = args.urls // args.steps
        for step in range(args.steps):
            adds = await measure_adds(frontier, step * size, size, args.hosts, args.batch)
            pages = await measure_pages(frontier, journal, args.pages, args.claim)
            bytes_a_url = _size(folder / "bench.db") / ((step + 1) * size)
            steps.append({"urls": (step + 1) * size, **adds, **pages, "bytes_a_url": bytes_a_url})
            print(
                "{urls:>9,.0f} URLs  {adds_per_s:>9,.0f} adds/s  {add_cpu_us:5.1f} us CPU   "
                "{pages_per_s:>7,.0f} claim+settle/s  {page_cpu_us:5.1f} us CPU   "
                "{bytes_a_url:4.0f} B/URL".format(**steps[-1]),
                flush=True,
            )
        journal.close()
    return steps


def _size(path: Path) -> int:
    return path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=5, help="how often to measure on the way")
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=25_000, help="URLs in one add")
    parser.add_argument("--claim", type=int, default=200, help="tasks in one claim and settle")
    parser.add_argument("--pages", type=int, default=20_000, help="claim+settle at each step")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    try:
        steps = asyncio.run(run(args, folder))
    finally:
        shutil.rmtree(folder)
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(steps), indent=2))


if __name__ == "__main__":
    main()
