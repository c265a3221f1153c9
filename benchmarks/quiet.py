"""How often a fleet calls its store: with nothing to do, while all hosts wait, and at work.

    python -m benchmarks.quiet                          1, 5, 20 and 50 workers, ten in a process
    python -m benchmarks.quiet --workers 20 --apart     twenty processes
    python -m benchmarks.quiet --workers 5 --seconds 3  a quick look

Four hosts that each may get two requests a second, as many workers as you like, one Valkey. Calls and CPU are what the
server counts itself; the last column names the scripts that are called most. The time from adding a URL to an idle
fleet until the web server gets the request is measured one URL at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from benchmarks.fleet.processes import Members, until
from benchmarks.fleet.shoal_fleet import SPIDER
from shoal.admit.identity import fingerprint, host_key
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.redis import script_loader
from shoal.frontier.values import Cursor, JobSpec
from shoal.jobs.note import write_note
from shoal.model import Task
from shoal.runtime.fleet_worker import serve
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer
from shoal.valve import Valve

SCRIPTS = Path(script_loader.__file__).parent / "scripts"

T = TypeVar("T")


class Calls(Struct, frozen=True):
    """What the server counted in a span of time."""

    seconds: float
    calls: int  # of scripts
    cpu: float  # seconds
    pages: int = 0
    scripts: dict[str, int] = {}

    def row(self) -> str:
        per_page = f"{self.calls / self.pages:.1f}" if self.pages else "–"
        cpu_page = f"{1000 * self.cpu / self.pages:.2f}" if self.pages else "–"
        often = ", ".join(
            f"{name} {count / self.seconds:.1f}" for name, count in Counter(self.scripts).most_common(5)
        )
        return (
            f"{self.pages / self.seconds:.1f} | {self.calls / self.seconds:.1f} | {per_page} | "
            f"{100 * self.cpu / self.seconds:.2f} | {cpu_page} | {often}"
        )


class Meter:
    def __init__(self, server: ValkeyServer, web: WebProcess) -> None:
        self._server, self._web = server, web
        self._names = {script_loader.script(path.stem).sha: path.stem for path in SCRIPTS.glob("*.lua")}

    def _read(self) -> tuple[float, int, float, int]:
        info = self._server.command("INFO", "everything")
        calls = sum(int(info.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))
        return (
            time.monotonic(),
            calls,
            float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
            len(self._web.hits()),
        )

    def watch(self, seconds: float) -> Calls:
        """Counts; then, apart, listens which scripts they are, as listening costs the server something."""
        before = self._read()
        time.sleep(seconds)
        after = self._read()
        named = self._monitor(seconds)
        spent = after[0] - before[0]
        scripts = {name: round(count * spent / seconds) for name, count in named.items()}
        return Calls(spent, after[1] - before[1], after[2] - before[2], after[3] - before[3], scripts)

    def _monitor(self, seconds: float) -> Counter[str]:
        counted: Counter[str] = Counter()
        deadline = time.monotonic() + seconds
        with socket.create_connection(("127.0.0.1", self._server.port)) as wire:
            wire.sendall(b"MONITOR\r\n")
            wire.settimeout(0.2)
            rest = b""
            while time.monotonic() < deadline:
                with contextlib.suppress(TimeoutError):
                    rest += wire.recv(1 << 20)
                *lines, rest = rest.split(b"\r\n")
                for line in lines:
                    words = line.split(b'"', 4)
                    if len(words) > 3 and words[1].upper() == b"EVALSHA":
                        counted[self._names.get(words[3].decode(), "?")] += 1
        return counted


def workers(count: int, apart: bool) -> list[int]:
    """How many in each process."""
    if apart:
        return [1] * count
    return [min(10, count - first) for first in range(0, count, 10)]


async def crew(store: str, count: int) -> None:
    """So many workers in this process, until it is killed."""
    plan = WorkerPlan(spiders=(SPIDER,), store=store, flags={"trust": "store"})
    await asyncio.gather(*(serve(plan, lambda _: contextlib.nullcontext()) for _ in range(count)))


async def open_job(frontier: Frontier, name: str, rate: float) -> None:
    settings = Settings(rate=rate, domain_rate=0, per_domain=0, robots=False, allow_network=["127.0.0.0/8"])
    note = write_note(b"", settings, "submit")
    await frontier.open_job(
        JobSpec(name, spider="fleet", settings=note, valve=Valve(interval=1 / rate, cap=2))
    )


def tasks(urls: Sequence[str]) -> list[Task]:
    return [Task(url, handler="page", host=host_key(url), fingerprint=fingerprint(url)) for url in urls]


class Scene:
    """A store, a web, and a fleet that serves it, until the block ends."""

    def __init__(self, stack: contextlib.ExitStack, count: int, args: argparse.Namespace) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-quiet-")))
        (folder / "start.txt").write_text("")
        pages = HostProfile("fast", pages=100_000, links=12, body_bytes=2_000)
        self.server = stack.enter_context(ValkeyServer(folder / "valkey", appendonly=True))
        self.web = stack.enter_context(WebProcess({f"host-{n}": pages for n in range(2 * args.hosts)}))
        # Some wait, and the others are for the rest: how long a host is left alone does not end with a job.
        self._urls, self._waiting = self.web.start_urls[: args.hosts], self.web.start_urls[args.hosts :]
        self._members = stack.enter_context(Members(folder / "fleet"))
        self._members.folder.mkdir()
        self._folder, self._seconds, self._settle = folder, args.seconds, args.settle
        self._meter = Meter(self.server, self.web)
        for number, many in enumerate(workers(count, args.apart)):
            command = [sys.executable, "-m", "benchmarks.quiet", "--serve", str(many), self.server.url]
            self._members.start(
                f"crew-{number}", command, folder / f"crew-{number}", FLEET_START=str(folder / "start.txt")
            )
        until(
            lambda: len(self.ask(lambda frontier: frontier.workers())) == count, "workers", *self._members.all
        )

    def ask(self, question: Callable[[Frontier], Awaitable[T]]) -> T:
        async def answer() -> T:
            async with open_frontier(self.server.url, create=False) as frontier:
                return await question(frontier)

        return asyncio.run(answer())

    def count(self) -> Calls:
        time.sleep(self._settle)
        return self._meter.watch(self._seconds)

    def idle(self) -> Calls:
        return self.count()

    def finished(self) -> Calls:
        async def some(frontier: Frontier) -> None:
            for name in ("old-1", "old-2", "old-3"):
                await open_job(frontier, name, 1.0)
                await frontier.add(name, [], Cursor(fed_all=True))

        self.ask(some)
        until(lambda: not self.ask(lambda frontier: frontier.jobs("running")), "the end of the jobs")
        return self.count()

    def waiting(self) -> Calls:
        """Every host has had its page, and the next is due in twenty minutes."""

        async def begin(frontier: Frontier) -> None:
            await open_job(frontier, "waiting", 1 / 1200)
            await frontier.add("waiting", tasks(self._waiting))

        self.ask(begin)
        until(lambda: len(self.web.hits()) == len(self._waiting), "all hosts", *self._members.all)
        calls = self.count()
        self.ask(lambda frontier: frontier.set_state("waiting", "cancelled"))
        return calls

    def latency(self, many: int) -> list[float]:
        """Seconds from adding a URL until it arrives at its server, with an idle fleet that serves its job."""

        async def add(frontier: Frontier) -> list[float]:
            await open_job(frontier, "latency", 50.0)
            await asyncio.sleep(self._settle)
            found = []
            for number in range(many):
                before = len(self.web.hits())
                began = time.monotonic()
                await frontier.add("latency", tasks([f"{self._urls[number % len(self._urls)]}?{number}"]))
                while len(hits := self.web.hits()) == before:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                found.append(max(0.0, hits[before].started - began))
                await asyncio.sleep(0.3)
            return found

        return self.ask(add)

    def work(self, rate: float) -> Calls:
        async def begin(frontier: Frontier) -> None:
            await open_job(frontier, "work", rate)
            await frontier.add("work", tasks(self._urls))

        self.ask(begin)
        return self.count()


def measure(count: int, args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    with contextlib.ExitStack() as stack:
        scene = Scene(stack, count, args)
        yield "no jobs", scene.idle().row()
        yield "three finished", scene.finished().row()
        yield "all hosts wait", scene.waiting().row()
        took = scene.latency(args.urls)
        middle, worst = statistics.median(took), max(took)
        yield "a URL is added", f"{1000 * middle:.0f} ms until it is fetched, {1000 * worst:.0f} at most"
        yield "at work", scene.work(args.rate).row()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 5, 20, 50])
    parser.add_argument("--apart", action="store_true", help="a process for every worker")
    parser.add_argument("--seconds", type=float, default=8.0, help="that are counted, for each figure")
    parser.add_argument("--settle", type=float, default=4.0, help="seconds before that")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2.0, help="requests a second to each host, at work")
    parser.add_argument("--urls", type=int, default=10, help="that are added one by one")
    parser.add_argument("--serve", nargs=2, metavar=("N", "STORE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(crew(args.serve[1], int(args.serve[0])))
        return
    print("| workers | | pages/s | calls/s | calls a page | Valkey CPU % | ms a page | scripts a second |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for count in args.workers:
        for name, row in measure(count, args):
            print(f"| {count} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
