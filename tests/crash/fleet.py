"""A fleet as child processes: the spider, the stores it may run on, and the words its tests are told in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from crash.harness import Desk, Process, until
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, Job
from shoal.model import DeadLetter

T = TypeVar("T")

SQLITE = ".shoal/shoal.db"
SPIDER = """
from pathlib import Path
from shoal import Spider

spider = Spider("site", start=Path(__file__).with_name("start.txt"), trust_start=True, robots=False, rate=0,
                per_host=20)


@spider.handler
def page(page):
    page.count("pages")
    yield {"url": page.url}
    yield from page.follow_all("a", page_of)


@spider.handler(name="page_of")
def page_of(page):
    page.count("pages")
    yield {"url": page.url}
    yield from page.follow_all("a", page_of)
"""


class Fleet:
    """The commands of a fleet on one store, in the folder of a desk."""

    def __init__(self, desk: Desk, store: str) -> None:
        self.desk = desk
        self.store = store
        desk.file("site.py", SPIDER)

    def start_at(self, *urls: str) -> None:
        self.desk.file("start.txt", "\n".join(urls) + "\n")

    def submit(self, *options: str, job: str = "site") -> Process:
        rows = () if "-o" in options else ("-o", f"{job}.jsonl")
        return self.desk.finish("submit", "site.py", "--store", self.store, "-j", job, *rows, *options)

    def worker(self, *options: str) -> Process:
        return self.desk.start("worker", "site.py", "--store", self.store, *options)

    def coordinator(self, *options: str) -> Process:
        return self.desk.start("coordinator", "site.py", "--store", self.store, *options)

    def run(self, *argv: str) -> Process:
        return self.desk.run(*argv, "--store", self.store)

    def sight(self) -> dict[str, Any]:
        """`shoal status --json`."""
        return msgspec.json.decode(self.desk.finish("status", "--json", "--store", self.store).out)

    # -- asked directly, which is quicker than a command

    def ask(self, question: Callable[[Frontier], Awaitable[T]]) -> T:
        async def answer() -> T:
            store = self.store if "://" in self.store else str(self.desk.folder / self.store)
            async with open_frontier(store, patient=True) as frontier:  # a busy machine may take long
                return await question(frontier)

        return asyncio.run(answer())

    def job(self, name: str = "site") -> Job:
        job = self.ask(lambda frontier: frontier.job(name))
        assert job is not None
        return job

    def letters(self, name: str = "site") -> list[DeadLetter]:
        return list(self.ask(lambda frontier: frontier.dead(DeadFilter(job=name))))

    def reaches(self, condition: Callable[[Job], object], what: str, name: str = "site") -> Job:
        job = self.job(name)
        if not condition(job):
            until(lambda: condition(self.job(name)), what)
            job = self.job(name)
        return job

    def finishes(self, name: str = "site") -> Job:
        return self.reaches(lambda job: job.state == "finished", f"the end of {name}", name)

    def urls(self, name: str = "site") -> list[str]:
        data = (self.desk.folder / f"{name}.jsonl").read_bytes()
        assert not data or data.endswith(b"\n"), "the last line is torn"
        return sorted(msgspec.json.decode(line)["url"] for line in data.splitlines())
