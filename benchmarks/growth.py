"""Whether a store grows with its history: many short jobs one after the other, and after every so many of them its size
and the calls a second of a fleet that has nothing to do.

    python -m benchmarks.growth                         # 1,000 jobs on Valkey, 1,000 on SQLite
    python -m benchmarks.growth --jobs 200 --store sqlite
    python -m benchmarks.growth --keep 0                # nothing is pruned, as if there were no retention

Valkey: one worker with its coordinator; jobs are submitted by twenties. SQLite: one crawl after the other, and then the
time that one look at all jobs takes. What is measured is the store, so pages are small and hosts are not limited.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import shoal
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.runtime.fleet_worker import serve
from shoal.runtime.job_plan import JobPlan
from shoal.runtime.signals import Stoppable
from shoal.runtime.submit import submit
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.servers import ValkeyServer

AT_ONCE = 20
PAGES = 5  # of a job
IDLE = 4.0  # seconds in which calls are counted
DEADLINE = 120.0

SPIDER = """
from shoal import Spider

spider = Spider("short", {start!r}, rate=0, per_host=16, robots=False)

@spider.handler
def page(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a", page_)

page_ = page
"""


def table(title: str, *columns: str) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def row(*cells: object) -> None:
    print(
        f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |", flush=True
    )


class Guidance:
    """Ends a worker that was begun in this process."""

    def __init__(self) -> None:
        self.engine: Stoppable | None = None

    @contextlib.contextmanager
    def __call__(self, engine: Stoppable) -> Iterator[None]:
        self.engine = engine
        yield


@contextlib.asynccontextmanager
async def worker(plan: WorkerPlan) -> AsyncIterator[None]:
    guidance = Guidance()
    serving = asyncio.create_task(serve(plan, guidance))
    try:
        yield
    finally:
        if guidance.engine is not None:
            guidance.engine.stop()
        await serving


async def until_finished(frontier: Frontier, names: set[str]) -> None:
    """One that is not there any more was pruned."""
    async with asyncio.timeout(DEADLINE):
        while names & {job.spec.name for job in await frontier.jobs("running")}:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def calls(server: ValkeyServer) -> int:
    stats = server.command("INFO", "commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


async def valkey(jobs: int, every: int, folder: Path, settings: dict[str, Any]) -> None:
    table("Valkey", "jobs so far", "jobs kept", "keys", "in them (KB)", "memory (KB)", "calls a second, idle")
    async with ChaoticWeb({"site": HostProfile(pages=PAGES)}) as web:
        spider_file = folder / "short.py"
        spider_file.write_text(SPIDER.format(start=web.start_urls))
        with ValkeyServer(folder / "valkey") as server:
            plan = WorkerPlan((str(spider_file),), server.url, flags={"trust": "store", **settings})
            async with open_frontier(server.url) as frontier, worker(plan):
                spider = next(iter(plan.load_spiders().values()))
                await look_at_valkey(0, server, frontier)
                done = 0
                while done < jobs:
                    names = {f"job-{number:05d}" for number in range(done, min(jobs, done + AT_ONCE))}
                    for name in sorted(names):
                        output = folder / f"{name}.jsonl"
                        job = JobPlan(
                            spider, Settings(rate=0), name, server.url, output, fed_by="coordinator"
                        )
                        await submit(job, frontier)
                    await until_finished(frontier, names)
                    done += len(names)
                    if done % every == 0 or done >= jobs:
                        await look_at_valkey(done, server, frontier)


async def look_at_valkey(done: int, server: ValkeyServer, frontier: Frontier) -> None:
    await asyncio.sleep(6.0)  # the coordinator prunes every few seconds
    before = calls(server)
    await asyncio.sleep(IDLE)
    rate = (calls(server) - before) / IDLE
    memory = server.command("INFO", "memory")["used_memory_dataset"] // 1024
    keys = server.command("KEYS", "*")
    in_keys = sum(server.command("MEMORY", "USAGE", key, "SAMPLES", "0") or 0 for key in keys) // 1024
    row(done, len(await frontier.jobs()), len(keys), in_keys, memory, f"{rate:.0f}")


async def sqlite(jobs: int, every: int, folder: Path, settings: dict[str, Any]) -> None:
    table("SQLite", "jobs so far", "jobs kept", "size (KB)", "of it in use", "a look at all jobs (ms)")
    store = folder / "store.db"
    async with ChaoticWeb({"site": HostProfile(pages=PAGES)}) as web:
        spider = shoal.Spider("short", web.start_urls, rate=0, per_host=16, robots=False, **settings)

        def page(page: shoal.Page) -> Iterator[object]:
            yield {"url": page.url}
            yield from page.follow_all("a", "page")

        spider.add_handler(page, name="page")
        for done in range(1, jobs + 1):
            name = f"job-{done:05d}"
            await shoal.crawl(spider, store=store, output=folder / f"{name}.jsonl", job=name)
            if done % every == 0 or done == jobs:
                await look_at_sqlite(done, store)


async def look_at_sqlite(done: int, store: Path) -> None:
    import apsw

    async with open_frontier(str(store)) as frontier:
        started = time.perf_counter()
        kept = len(await frontier.jobs())
        took = (time.perf_counter() - started) * 1000
    db = apsw.Connection(str(store))
    pages, free, size = (db.pragma(name) for name in ("page_count", "freelist_count", "page_size"))
    db.close()
    row(done, kept, pages * size // 1024, (pages - free) * size // 1024, f"{took:.1f}")


async def run(arguments: argparse.Namespace) -> None:
    settings: dict[str, Any] = {}
    if arguments.keep is not None:
        settings = {"keep_jobs": arguments.keep, "keep_dead_jobs": arguments.keep}
    homes = {"valkey": valkey, "sqlite": sqlite}
    for name in homes if arguments.store == "both" else [arguments.store]:
        with tempfile.TemporaryDirectory(prefix="shoal-growth-") as folder:
            await homes[name](arguments.jobs, arguments.every, Path(folder), settings)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__.partition(":")[0]
    )
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--every", type=int, default=100, help="jobs between two looks; a multiple of 20")
    parser.add_argument("--store", choices=("valkey", "sqlite", "both"), default="both")
    parser.add_argument("--keep", type=int, help="jobs that are kept, instead of the default; 0: all")
    logging.getLogger("shoal").setLevel(logging.ERROR)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
