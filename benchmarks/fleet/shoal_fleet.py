"""A fleet of Shoal's, by its own commands: `shoal worker`, `shoal coordinator`, `shoal submit`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.fleet.processes import Member, Members
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, Job

SHOAL = (sys.executable, "-c", "from shoal.cli import main; main()")
SPIDER = str(Path(__file__).with_name("spider.py"))
JOB = "fleet"
ROWS = "rows.jsonl"

T = TypeVar("T")


class ShoalFleet:
    """Each worker has a folder of its own, as if it were on a machine of its own, unless it shares one with others."""

    name = "shoal"

    def __init__(
        self, members: Members, store: str, start_urls: Sequence[str], settings: Path | None = None
    ) -> None:
        """`settings`: a file of settings for all commands."""
        self._members = members
        self._settings = {} if settings is None else {"SHOAL_CONFIG": str(settings)}
        self._store = store
        self._start = members.folder / "start.txt"
        self._start.write_text("\n".join(start_urls) + "\n")
        self._submitted: Member | None = None

    def worker(self, number: int, *flags: str, machine: str | None = None) -> Member:
        """Also the one that takes the place of one that was killed, with the same number."""
        trusting = ("-s", "trust=store")  # whoever can write to this store may name the database
        return self._run(f"worker-{number}", "worker", SPIDER, *trusting, *flags, machine=machine)

    def coordinator(self, number: int = 0) -> Member:
        return self._run(f"coordinator-{number}", "coordinator", SPIDER)

    def submit(self, *flags: str, output: str = ROWS) -> Member:
        """Hands the job in, and waits for its end."""
        self._submitted = self._run("submit", "submit", SPIDER, "-j", JOB, "-o", output, "--wait", *flags)
        return self._submitted

    def _run(self, name: str, *words: str, machine: str | None = None) -> Member:
        command = [*SHOAL, *words, "--store", self._store]
        folder = self._members.folder / (machine or name)
        return self._members.start(name, command, folder, FLEET_START=str(self._start), **self._settings)

    def ask(self, question: Callable[[Frontier], Awaitable[T]]) -> T:
        """Opens the store as another process would, and awaits the answer."""

        async def answer() -> T:
            async with open_frontier(self._store) as frontier:
                return await question(frontier)

        return asyncio.run(answer())

    def job(self) -> Job:
        job = self.ask(lambda frontier: frontier.job(JOB))
        assert job is not None
        return job

    def buried(self) -> list[str]:
        """Why pages were given up: of some of them."""
        letters = self.ask(lambda frontier: frontier.dead(DeadFilter(limit=5)))
        return [f"{letter.task.url}: {letter.task.history[-1].detail}" for letter in letters]

    def said(self, words: str) -> int:
        """How often workers said so, those that were killed among them."""
        logs = self._members.folder.glob("*/worker-*.log")
        return sum(log.read_text(errors="replace").count(words) for log in logs)

    def rows(self) -> list[dict[str, object]]:
        """Those of all workers' files, every line of which must be whole."""
        return [row for path in sorted(self._members.folder.glob(f"*/{ROWS}")) for row in _lines(path)]


def _lines(path: Path) -> Iterator[dict[str, object]]:
    for line in path.read_bytes().splitlines():
        yield msgspec.json.decode(line)
