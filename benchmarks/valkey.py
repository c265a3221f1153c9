"""What the home in Valkey costs: operations per second of the server's own CPU, and memory a URL.

    python -m benchmarks.valkey                     a million URLs
    python -m benchmarks.valkey --urls 100000       a quick look

A server of its own is started. URLs of about 65 characters are added in batches, a tenth of them twice; then a part is
claimed and settled in batches. The server's CPU is what it says itself (used_cpu_user + used_cpu_sys), so what Python
costs is not in the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.model import Done, Settlement, Task
from shoal.testing.servers import ValkeyServer
from shoal.valve import Valve

JOB = "bench"


def make_tasks(start: int, count: int, hosts: int) -> list[Task]:
    urls = (
        f"https://www.host{i % hosts}.test/catalogue/category-{i % 97}/product-{i:07d}.html"
        for i in range(start, start + count)
    )
    return [
        Task(
            url,
            handler="page",
            host=host_key(url),
            depth=3,
            parent=i * 1000 + 7,
            fingerprint=fingerprint(url),
        )
        for i, url in enumerate(urls, start)
    ]


class Meter:
    """The server's own CPU, and the time on the wall, of what is done between two looks."""

    def __init__(self, server: ValkeyServer) -> None:
        self._server = server

    def info(self) -> dict[str, float]:
        return self._server.command("INFO", "everything")

    def cpu(self) -> float:
        info = self.info()
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def memory(self) -> int:
        return int(self.info()["used_memory"])

    async def measure(self, work: Callable[[], Awaitable[int]]) -> dict[str, float]:
        cpu, wall = self.cpu(), time.perf_counter()
        count = await work()
        cpu, wall = self.cpu() - cpu, time.perf_counter() - wall
        return {
            "count": count,
            "per_cpu_second": count / cpu,
            "cpu_us": cpu / count * 1e6,
            "per_second": count / wall,
        }


async def add(frontier: RedisFrontier, args: argparse.Namespace) -> int:
    for first in range(0, args.urls, args.batch):
        tasks = make_tasks(first, args.batch, args.hosts)
        await frontier.add(JOB, tasks + tasks[: args.batch // 10])
    return int(args.urls)


async def work(frontier: RedisFrontier, pages: int, batch: int) -> int:
    claim = Claim("bench", [JOB], {"normal": batch}, batch)
    done = 0
    while done < pages:
        leases = (await frontier.claim(claim)).leases
        if not leases:
            break
        await frontier.settle([Settlement(lease, Done()) for lease in leases])
        done += len(leases)
    return done


async def run(args: argparse.Namespace, server: ValkeyServer) -> dict[str, dict[str, float]]:
    meter = Meter(server)
    rows: dict[str, dict[str, float]] = {}
    async with RedisFrontier(f"{server.url}?shards={args.shards}") as frontier:
        await frontier.open_job(JobSpec(JOB, valve=Valve(interval=0.0, cap=1000)))
        empty = meter.memory()
        rows["add"] = await meter.measure(lambda: add(frontier, args))
        full = meter.memory()
        rows["claim+settle"] = await meter.measure(lambda: work(frontier, args.pages, args.batch))
        await work(frontier, args.urls, 1000)
        seen = meter.memory()
    rows["memory"] = {
        "bytes_a_pending_url": (full - seen) / args.urls,
        "bytes_a_seen_url": (seen - empty) / args.urls,
        "bytes_both": (full - empty) / args.urls,
    }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100, help="tasks in one add, claim and settle")
    parser.add_argument("--pages", type=int, default=100_000, help="claim+settle that are measured")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, ValkeyServer(folder) as server:
        rows = asyncio.run(run(args, server))
    for name in ("add", "claim+settle"):
        print(
            "{:13} {count:>9,.0f}   {per_cpu_second:>8,.0f} per second of the server's CPU   {cpu_us:5.1f} us each   "
            "{per_second:>7,.0f} per second with this one client".format(name, **rows[name])
        )
    print(
        "memory        {bytes_a_pending_url:.1f} B a pending URL, {bytes_a_seen_url:.1f} B a seen URL, "
        "{bytes_both:.1f} B both".format(**rows["memory"])
    )
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2))


if __name__ == "__main__":
    main()
