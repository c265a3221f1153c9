"""Add to a job from four shells at once while it runs, while it is paused, and after it has finished; kill some of it.

    python -m benchmarks.adding --store sqlite
    python -m benchmarks.adding --store valkey
    python -m benchmarks.adding --store cluster

In each state, `--adds` commands `shoal add` put `--urls` URLs each into the job, shared by four shells. One of them
reads a pipe and is killed (kill -9) in the middle, and run again; a worker is killed too, and replaced. At the end the
job must have finished by itself, with every URL admitted and done exactly once, and one row for each.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from benchmarks.fleet.processes import Begin, Member, execute
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.runtime.job_actions import pause
from shoal.testing.servers import ValkeyCluster, ValkeyServer
from shoal.testing.servers.server_process import free_port

T = TypeVar("T")

DEADLINE = 300.0
SHELLS = 4
STATES = ("running", "paused", "finished")
HOSTS = 6
SHOAL = (sys.executable, "-c", "from shoal.cli import main; main()")
SPIDER = """
from pathlib import Path
from typing import TypeVar
from shoal import Spider

spider = Spider("adding", start=Path(__file__).with_name("start.txt"), trust_start=True, robots=False, rate=0,
                per_host=4, min_timeout=30, first_timeout=30)  # pages wait until a job is paused


@spider.handler
def page(page):
    yield {"url": page.url}
"""


class Case(Struct, frozen=True):
    adds: int = 20
    urls: int = 100  # of each
    starts: int = 200  # of the spider itself


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adding", description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=("sqlite", "valkey", "cluster"), default="sqlite")
    parser.add_argument("--adds", type=int, default=20)
    parser.add_argument("--urls", type=int, default=100)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder,
        store_of(given.store, folder) as store,
    ):
        return 0 if run(Path(folder), store, Case(given.adds, given.urls)) else 1


@contextmanager
def store_of(kind: str, folder: str) -> Iterator[str]:
    with ExitStack() as stack:
        if kind == "valkey":
            yield stack.enter_context(ValkeyServer(f"{folder}/valkey", appendonly=True)).url
        elif kind == "cluster":
            yield f"{stack.enter_context(ValkeyCluster(f'{folder}/cluster')).url}?shards=6"
        else:
            yield "store.db"


def run(folder: Path, store: str, case: Case, states: Sequence[str] = STATES, begin: Begin = execute) -> bool:
    """Whether all held. `begin`: how commands are begun."""
    with serving() as web, Fleet(folder, store, web, begin) as fleet:
        held = [fleet.try_state(state, case) for state in states]
        return all(held)


# -- the web


class Web(Struct):
    port: int
    asked: Counter[str]
    answers: threading.Event  # else the pages of the start wait for it

    def url(self, name: str, number: int) -> str:
        return f"http://127.0.0.{1 + number % HOSTS}:{self.port}/{name}/{number}"


@contextmanager
def serving() -> Iterator[Web]:
    """A few hosts that answer whatever they are asked for."""
    web = Web(free_port(), Counter(), threading.Event())
    web.answers.set()

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head

        def do_GET(self) -> None:
            web.asked[self.path] += 1
            if "/start/" in self.path:
                time.sleep(0.3)  # so that the job still runs when URLs are added
                web.answers.wait(DEADLINE)
            body = f"<title>{self.path}</title>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a worker was killed

    servers = [Server((f"127.0.0.{n + 1}", web.port), Answer) for n in range(HOSTS)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield web
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


# -- the fleet


class Fleet:
    def __init__(self, folder: Path, store: str, web: Web, begin: Begin) -> None:
        self._begin = begin
        self._begun = itertools.count()
        self._folder = folder
        self._store = store
        self._address = store if "://" in store else str(folder / store)  # as seen from here
        self._web = web
        self._name = ""  # of the job
        self._workers: list[Member] = []

    def __enter__(self) -> Fleet:
        (self._folder / "site.py").write_text(SPIDER)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            end(worker)

    def try_state(self, state: str, case: Case) -> bool:
        began, self._name = time.monotonic(), state
        starts = [self._web.url(f"{state}/start", n) for n in range(case.starts)]
        (self._folder / "start.txt").write_text("\n".join(starts) + "\n")
        if state == "paused":
            self._web.answers.clear()
        self._command("submit", "site.py", "-j", state, "-o", f"{state}.jsonl")
        while len(self._workers) < 2:
            self._workers.append(self._start("worker", "site.py", "-s", "lease=8"))
        self._bring_to(state)
        lists = [[self._web.url(f"{state}/{n}", m) for m in range(case.urls)] for n in range(case.adds)]
        said = self._add_from_shells(lists)
        self._kill_a_worker()
        still = self._job().state
        if state == "paused":
            assert still == "paused", f"it was paused, and is {still}"
            self._command("resume", self._name)
        job = self._until(lambda job: job.state == "finished", "the job to finish")
        return self._verdict(state, [*starts, *(url for one in lists for url in one)], job, said, began)

    def _bring_to(self, state: str) -> None:
        if state == "paused":  # no page ends before, and so no job
            self._until(lambda job: job.counters.leased > 0, "the first page")
            self._ask(lambda frontier: pause(frontier, self._name))
            self._web.answers.set()
            return
        self._until(lambda job: job.counters.done > 0, "the first page")
        if state == "finished":
            self._until(lambda job: job.state == "finished", "the job to finish")

    def _add_from_shells(self, lists: Sequence[Sequence[str]]) -> str:
        def shell(mine: Sequence[int]) -> None:
            for one in mine:
                path = self._folder / f"list-{one}.txt"
                path.write_text("\n".join(lists[one]) + "\n")
                if one == len(lists) // 2:
                    self._add_and_die(lists[one])
                self._add(path.name)

        with ThreadPoolExecutor(SHELLS) as shells:
            list(shells.map(shell, [range(n, len(lists), SHELLS) for n in range(SHELLS)]))
        return f"{len(lists)} adds of {len(lists[0])} from {SHELLS} shells"

    def _add(self, path: str) -> None:
        """Again, as long as the store does not say that the URLs are on its disk: then others keep that busy."""
        for _ in range(20):
            adder = self._start("add", self._name, "-i", path)
            if adder.code(DEADLINE) == 0:
                return
            assert "run the same command again to be sure" in adder.words, adder.words
        raise AssertionError(f"{path} is not confirmed to be on the disk")

    def _add_and_die(self, urls: Sequence[str]) -> None:
        """Half of its list is in the job, the other half has not been read, and it is killed."""
        before = self._job().counters.admitted
        adder = subprocess.Popen(
            [*SHOAL, "add", self._name, "-i", "-", "--store", self._store],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert adder.stdin is not None
        adder.stdin.write("".join(f"{url}\n" for url in urls[: len(urls) // 2]).encode())
        adder.stdin.flush()
        self._until(lambda job: job.counters.admitted > before, "the half that is added")
        adder.kill()
        adder.communicate()

    def _kill_a_worker(self) -> None:
        end(self._workers.pop(0))
        self._workers.append(self._start("worker", "site.py", "-s", "lease=8"))

    def _verdict(self, state: str, wanted: list[str], job: Job, said: str, began: float) -> bool:
        counters = job.counters
        found: Counter[str] = Counter()
        for path in self._folder.glob(f"{state}*.jsonl"):
            found.update(msgspec.json.decode(line)["url"] for line in path.read_bytes().splitlines())
        missing = [url for url in wanted if not found[url]]
        doubled = [url for url, times in found.items() if times > 1]
        strange = found.keys() - set(wanted)
        held = not (missing or doubled or strange) and counters.admitted == counters.done == len(wanted)
        print(
            f"{state:9} {said}, one killed and run again, a worker killed: {len(wanted):,} URLs, "
            f"{counters.admitted:,} admitted, {counters.done:,} done, {found.total():,} rows, "
            f"{len(missing)} missing, {len(doubled)} doubled, {time.monotonic() - began:.0f} s: "
            f"{'held' if held else 'DID NOT HOLD'}",
            flush=True,
        )
        return held

    # -- commands

    def _until(self, what: Callable[[Job], bool], name: str) -> Job:
        until = time.monotonic() + DEADLINE
        while not what(job := self._job()):
            assert time.monotonic() < until, f"waited {DEADLINE:.0f} s for {name}: {job}"
            time.sleep(0.2)
        return job

    def _job(self) -> Job:
        job = self._ask(lambda frontier: frontier.job(self._name))
        assert job is not None
        return job

    def _ask(self, question: Callable[[Frontier], Awaitable[T]]) -> T:
        async def answer() -> T:
            async with open_frontier(self._address) as frontier:
                return await question(frontier)

        return asyncio.run(answer())

    def _start(self, *words: str) -> Member:
        name = f"{words[0]}-{next(self._begun)}"
        return Member(name, [*SHOAL, *words, "--store", self._store], self._folder, {}, self._begin)

    def _command(self, *words: str) -> None:
        member = self._start(*words)
        assert member.code(DEADLINE) == 0, f"shoal {' '.join(words)}: {member.words}"


def end(worker: Member) -> None:
    """A guardian and its child are killed together."""
    if worker.running:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.kill()


if __name__ == "__main__":
    sys.exit(main())
