"""Kill a standing crawl again and again: no visit is lost, and every change is told once.

    python -m benchmarks.standing                          one crawl on SQLite, ten kills
    python -m benchmarks.standing --home valkey            three workers on a Valkey server, ten kills

A site on loopback whose pages change by a known script is visited every two seconds, and logs what it has served. One
process after the other is killed (kill -9) at a random moment, and started again. The verdict, from the log of the
server, the rows and the change feed:

lost       a page that was not visited any more, or has no task in the store
doubled    a page was asked for before its time more often than pages were in flight at the kills (at least once)
feed       of each page: every change goes on from the one before, none is there twice, and the last one is the last row
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import shoal
from shoal.frontier import open_frontier
from shoal.frontier.values import Job
from shoal.testing.servers import ValkeyServer

PACE, CAP, LEASE = 2.0, 4, 6.0
_SLACK = 0.1  # seconds: between the request's time and the server's log
_QUIET = 6 * PACE + LEASE  # seconds at the end in which nobody is killed
DEADLINE = 60.0

SITE = """
import asyncio, sys, time
from aiohttp import web

pages, log, began = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1), time.time()

def version(number):
    return int((time.time() - began + number) / (1.5 + number % 13))

async def answer(request):
    name = request.path.strip("/")
    if not name:
        text = "".join(f'<a href="/{n}">{n}</a>' for n in range(pages))
        return web.Response(text=text, content_type="text/html")
    now = version(int(name))
    tag = f'"{now}"'
    same = request.headers.get("If-None-Match") == tag
    print(time.time(), name, now, 304 if same else 200, file=log)
    if same:
        return web.Response(status=304, headers={"ETag": tag})
    text = f"<h1>{name}</h1><b>{now}</b>"
    return web.Response(text=text, content_type="text/html", headers={"ETag": tag})

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

SPIDER = f"""
from shoal import Spider

spider = Spider("standing", start="http://127.0.0.1:PORT/", trust_start=True, robots=False, rate=0, per_host={CAP},
                lease={LEASE:g}, total_timeout=3, retry_base=0.2)


@spider.handler(revisit="never")
def listing(page):
    yield from page.follow_all("a", product)


@spider.handler(key="name", revisit="{PACE:g}s")
def product(page):
    yield {{"name": page.text("h1"), "version": int(page.text("b"))}}
"""


class Standing:
    def __init__(self, folder: Path, store: str, workers: int, seed: int) -> None:
        self._folder, self._store, self._workers = folder, store, workers
        self._rng = random.Random(seed)
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        if self._workers > 1:
            subprocess.run(
                self._words("submit", *self._outputs()), cwd=self._folder, env=_environ(), check=True
            )
        for _ in range(self._workers):
            self._start()

    def _outputs(self) -> tuple[str, ...]:
        return ("-o", "rows.jsonl", "-o", "changes=changes.jsonl")

    def _words(self, command: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "shoal", command, "standing.py", "--store", self._store, *more]

    def _start(self) -> None:
        words = (
            self._words("worker", "-q") if self._workers > 1 else self._words("crawl", "-q", *self._outputs())
        )
        self._running.append(subprocess.Popen(words, cwd=self._folder, env=_environ()))

    def kill_one(self) -> None:
        process = self._running.pop(self._rng.randrange(len(self._running)))
        assert process.poll() is None, f"it ended by itself, with {process.returncode}"
        process.kill()
        process.wait()
        self._start()

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(60)

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()

    def hits(self) -> list[tuple[float, str, int, int]]:
        lines = [line.split() for line in (self._folder / "log").read_text().splitlines()]
        return [(float(at), name, int(version), int(status)) for at, name, version, status in lines]

    def rows(self, name: str) -> list[dict[str, Any]]:
        path = self._folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def job(self) -> Job:
        store = self._store if "://" in self._store else str(self._folder / self._store)
        async with open_frontier(store) as frontier:
            job = await frontier.job("standing")
        assert job is not None
        return job


def _environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1]), "SHOAL_GUARDIAN": "off"}


def lost_pages(standing: Standing, job: Job, pages: int, until: float) -> list[str]:
    """Pages without a task, or without a visit at the end."""
    last = {name: at for at, name, _, _ in standing.hits()}
    late = [name for name in map(str, range(pages)) if last.get(name, 0.0) < until - 3 * PACE]
    counters = job.counters
    if counters.admitted != pages + 1 or counters.open != pages or counters.dead:
        late.append(f"{counters}")
    return late


def early_visits(standing: Standing) -> int:
    """Requests that came sooner than a page's pace after the one before."""
    early, last = 0, dict[str, float]()
    for at, name, _, _ in standing.hits():
        early += at - last.get(name, 0.0) < PACE - _SLACK
        last[name] = at
    return early


def faults_of_feed(standing: Standing) -> list[str]:
    served: dict[str, set[int]] = {}
    for _, name, version, status in standing.hits():
        if status == 200:
            served.setdefault(name, set()).add(version)
    rows: dict[str, list[int]] = {}
    for row in standing.rows("rows.jsonl"):
        rows.setdefault(row["name"], []).append(row["version"])
    feed: dict[str, list[tuple[int, int]]] = {}
    for change in standing.rows("changes.jsonl"):
        assert change["field"] == "version", change
        feed.setdefault(change["key"], []).append((change["old"], change["new"]))
    faults = []
    for name, versions in rows.items():
        wanted = list(pairwise(versions))
        if feed.get(name, []) != wanted:
            faults.append(f"{name}: rows {versions}, changes {feed.get(name)}")
        if versions != sorted(set(versions)) or not set(versions) <= served[name]:
            faults.append(f"{name}: rows {versions} of served {sorted(served[name])}")
    return faults


def run(standing: Standing, pages: int, kills: int, rng: random.Random) -> bool:
    standing.begin()
    _until(lambda: len({name for _, name, _, _ in standing.hits()}) == pages)
    for number in range(kills):
        before = len(standing.hits())
        _until(lambda: len(standing.hits()) > before + pages // 2)  # noqa: B023
        time.sleep(rng.uniform(0, 2 * PACE))
        standing.kill_one()
        print(f"kill {number + 1}: {len(standing.hits()):,} visits so far", flush=True)
    time.sleep(_QUIET)
    until = time.time()
    standing.stop()
    lost = lost_pages(standing, asyncio.run(standing.job()), pages, until)
    early, faults = early_visits(standing), faults_of_feed(standing)
    changes = len(standing.rows("changes.jsonl"))
    print(f"{len(standing.hits()):,} visits of {pages} pages, {changes:,} changes, {kills} kills")
    print(f"lost: {len(lost)} {lost[:3]}")
    print(f"before their time: {early}; up to {kills * CAP} pages were in flight at the kills")
    print(f"faults of the change feed: {len(faults)} {faults[:3]}")
    good = not lost and not faults and early <= kills * CAP and changes > 0
    print("verdict: " + ("no visit lost, every change told once" if good else "FAILED"))
    return good


def _until(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened for {DEADLINE:.0f} s")
        time.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", choices=["sqlite", "valkey"], default="sqlite")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir="."))).resolve()
        (folder / "log").touch()
        words = [sys.executable, "-c", SITE, str(asked.pages), str(folder / "log")]
        site = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        stack.callback(site.kill)
        assert site.stdout is not None
        (folder / "standing.py").write_text(SPIDER.replace("PORT", site.stdout.readline().strip()))
        store, workers = "store.db", 1
        if asked.home == "valkey":
            server = stack.enter_context(ValkeyServer(folder / "valkey"))
            store, workers = f"{server.url}?shards={asked.shards}", 3
        standing = Standing(folder, store, workers, asked.seed)
        stack.callback(standing.end)
        return 0 if run(standing, asked.pages, asked.kills, random.Random(asked.seed)) else 1


if __name__ == "__main__":
    sys.exit(main())
