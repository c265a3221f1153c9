"""What it costs to remember URLs in Valkey, and how often a new one is taken for known.

    python -m benchmarks.dedupe                  100,000 and a million URLs, some minutes
    python -m benchmarks.dedupe --urls 20000     a quick look

Shoal's two ways, by adding URLs to a job; a Redis set of the URLs themselves; and a set of their SHA-1 in hexadecimal
digits, which is what scrapy-redis keeps. Every URL is new and is added once; then a tenth of them is added again. Bytes
are those that the server itself names (MEMORY USAGE), of the keys that remember and of no others.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.fleet.report import fill_in
from benchmarks.valkey import JOB, make_tasks
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import JobSpec
from shoal.model import Task
from shoal.settings import Settings
from shoal.testing.servers import ValkeyServer
from shoal.valve import Valve

BATCH = 1_000
HOSTS = 1_000
DEFAULT = Settings().dedupe_capacity
BYTES_OF = """
local sum = 0
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
end
return sum
"""


class Kept(Struct, frozen=True):
    way: str
    urls: int
    stored: int  # bytes
    refused: int  # of the URLs, although they were new
    refused_late: int  # of the last tenth of them, when there is most to confuse them with
    forgotten: int  # of those that were added again: taken for new

    def line(self) -> str:
        return (
            f"| {self.way} | {self.urls:,} | {self.stored / self.urls:.1f} | {self.refused:,} |"
            f" {100 * self.refused / self.urls:.4f} % | {1_000 * self.refused_late / self.urls:.4f} % |"
            f" {self.forgotten:,} |"
        )


def table(rows: Sequence[Kept]) -> str:
    head = (
        "",
        "URLs",
        "bytes a URL",
        "new URLs refused",
        "share",
        "of the last tenth",
        "known URLs taken again",
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(row.line() for row in rows)]
    return "\n".join(lines) + "\n"


def by_shoal(server: ValkeyServer, way: str, urls: int, spec: JobSpec) -> Kept:
    fresh, again = asyncio.run(_add(server.url, urls, spec))
    pattern = "*:bloom:*" if spec.dedupe == "bloom" else "*:seen:*"
    return _kept(way, fresh, again, stored_bytes(server, pattern))


async def _add(address: str, urls: int, spec: JobSpec) -> tuple[list[int], list[int]]:
    async with RedisFrontier(address) as frontier:
        await frontier.open_job(spec)
        fresh = [(await frontier.add(JOB, tasks)).new for tasks in _batches(urls)]
        again = [(await frontier.add(JOB, tasks)).new for tasks in _batches(urls // 10)]
    return fresh, again


def by_set(server: ValkeyServer, way: str, urls: int, mark: Callable[[str], str]) -> Kept:
    def add(tasks: Sequence[Task]) -> int:
        return int(server.command("SADD", "set", *(mark(task.url) for task in tasks)))

    fresh, again = [*map(add, _batches(urls))], [*map(add, _batches(urls // 10))]
    return _kept(way, fresh, again, stored_bytes(server, "set"))


def _batches(urls: int) -> Iterator[list[Task]]:
    return (make_tasks(at, BATCH, HOSTS) for at in range(0, urls, BATCH))


def _kept(way: str, fresh: Sequence[int], again: Sequence[int], stored: int) -> Kept:
    """`fresh`, `again`: of each batch, how many URLs were taken for new."""
    late = fresh[-len(fresh) // 10 :]
    return Kept(way, BATCH * len(fresh), stored, _refused(fresh), _refused(late), forgotten=sum(again))


def _refused(fresh: Sequence[int]) -> int:
    return BATCH * len(fresh) - sum(fresh)


def stored_bytes(server: ValkeyServer, pattern: str) -> int:
    return int(server.command("EVAL", BYTES_OF, 0, pattern))


def sha1(url: str) -> str:
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _spec(dedupe: str, capacity: int = 0) -> JobSpec:
    valve = Valve(interval=0.0, cap=1_000)
    return JobSpec(JOB, valve=valve, dedupe=dedupe, capacity=capacity)  # type: ignore[arg-type]


def compare(urls: int) -> Iterator[Kept]:
    """Every way has a server of its own."""
    ways: list[Callable[[ValkeyServer], Kept]] = [
        lambda server: by_shoal(
            server, "Shoal, Bloom filter for as many URLs", urls, _spec("bloom", capacity=urls)
        ),
        lambda server: by_shoal(
            server, f"Shoal, Bloom filter for {DEFAULT:,} URLs", urls, _spec("bloom", capacity=DEFAULT)
        ),
        lambda server: by_shoal(server, "Shoal, exact", urls, _spec("exact")),
        lambda server: by_set(server, "Redis set of SHA-1", urls, sha1),
        lambda server: by_set(server, "Redis set of URLs", urls, str),
    ]
    for way in ways:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, ValkeyServer(folder) as server:
            yield way(server)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--document", type=Path, metavar="FILE.md", help="put the table into this document")
    arguments = parser.parse_args()
    rows = []
    for urls in arguments.urls:
        for kept in compare(-(-urls // BATCH) * BATCH):
            rows.append(kept)
            print(kept.line(), flush=True)
    if arguments.document is not None:
        fill_in(arguments.document, "dedupe", table(rows))


if __name__ == "__main__":
    main()
