"""The shop scraped by `examples/shop.py`, killed again and again: every row once, files whole, one login at a time.

    python -m benchmarks.shop                              300 products, ten kills: one process, two, a fleet of three
    python -m benchmarks.shop --products 40 --kills 3 --only fleet

Processes are killed with kill -9 at random moments, and started again. With two processes the victims take turns: one
of the two, and the crawl itself. What is judged is the result file, the folder of files, and what the shop saw.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
from msgspec import Struct

import shoal
from benchmarks.kill import _children as children_of
from shoal.frontier import open_frontier
from shoal.testing.servers import ValkeyServer
from shoal.testing.shop import ShopLog, ShopProcess, ShopSpec
from shoal.testing.shop.catalogue import Catalogue

EXAMPLE = Path(__file__).parents[1] / "examples" / "shop.py"
ROWS, FILES = "rows.jsonl", "files"
MODES = ("one", "two", "fleet")
WORKERS = 3
DEADLINE = 600.0
SECONDS = 1.5  # between two kills: longer than a process takes to start
WINDOW = 2.0  # seconds in which requests are counted, to compare with the rate


class Running(Protocol):
    """A command that was started."""

    pid: int

    @property
    def running(self) -> bool: ...

    def kill(self) -> None: ...


Start = Callable[..., Running]


class Killing:
    """Kills a crawl of the shop `kills` times; `start` starts a `shoal` command in the folder of the results."""

    def __init__(self, shop: ShopProcess, start: Start, kills: int, seed: int = 0) -> None:
        self._shop, self._start = shop, start
        self._rng = random.Random(seed)
        visits = self._least_visits()
        self._moments = sorted(self._rng.uniform(0.02, 0.9) * visits for _ in range(kills))
        self.rate = visits / (kills + 1) / SECONDS
        self._speed = ("--rate", f"{self.rate:.2f}", "--per-host", "8", "-s", "retry_base=0.05")
        self.killed = 0

    def _least_visits(self) -> int:
        catalogue = self._shop.catalogue
        return 3 * catalogue.products + len(catalogue.all_files())

    def crawl(self, processes: int) -> Running:
        """Kills, and starts the same command again; answers the last one, which has ended by itself."""
        command = ("crawl", str(EXAMPLE), "-o", ROWS, "--processes", str(processes), "-q", *self._speed)
        crawl = self._start(*command)
        for number, moment in enumerate(self._moments):
            if not self._wait(moment, lambda: not crawl.running):  # noqa: B023
                break
            workers = [pid for child in children_of(crawl.pid) for pid in children_of(child)]
            if processes > 1 and workers and number % 2 == 0:
                kill_if_alive(self._rng.choice(workers))
            else:
                crawl.kill()
                crawl = self._start(*command)
            self.killed += 1
        until(lambda: not crawl.running, "the end of the crawl")
        return crawl

    def fleet(self, store: str) -> None:
        """Kills workers of a fleet, each of which is replaced, until the job has finished."""
        submit = self._start(
            "submit", str(EXAMPLE), "--store", store, "-o", ROWS, "-s", "total_timeout=5", *self._speed
        )
        until(lambda: not submit.running, "the job to be submitted")
        workers = [self._worker(store) for _ in range(WORKERS)]
        for moment in self._moments:
            if not self._wait(moment, lambda: finished(store)):
                break
            victim = self._rng.randrange(WORKERS)
            workers[victim].kill()
            workers[victim] = self._worker(store)
            self.killed += 1
        until(lambda: finished(store), "the end of the job")
        for (
            worker
        ) in workers:  # one that is killed while it removes what it kept of downloads would leave that
            os.kill(worker.pid, signal.SIGTERM)
        until(lambda: not any(worker.running for worker in workers), "the end of the workers")

    def _worker(self, store: str) -> Running:
        return self._start("worker", str(EXAMPLE), "--store", store, "-s", "lease=5")

    def _wait(self, moment: float, ended: Callable[[], bool]) -> bool:
        """Until the shop has seen so many requests, and one that is new. False if the crawl has ended before."""
        visits = max(int(moment), len(self._shop.log().visits) + 1)
        until(lambda: len(self._shop.log().visits) >= visits or ended(), "more visits")
        return not ended()


def finished(store: str) -> bool:
    async def ask() -> bool:
        async with open_frontier(store) as frontier:
            return any(job.state == "finished" for job in await frontier.jobs())

    return asyncio.run(ask())


# -- the verdict


class Verdict(Struct):
    faults: list[str]  # each a sentence; none is right
    rows: int
    files: int
    visits: int
    logins: int

    def __str__(self) -> str:
        return "; ".join(self.faults) or "all right"


def judge(folder: Path, catalogue: Catalogue, log: ShopLog, killing: Killing) -> Verdict:
    """Compares what is in the folder with what the shop sells, and with what it saw."""
    rows = [msgspec.json.decode(line) for line in (folder / ROWS).read_bytes().splitlines()]
    faults = [
        *wrong_rows(rows, catalogue),
        *wrong_files(rows, folder, catalogue),
        *wrong_visits(log, killing),
    ]
    files = sum(len(row.get("files", ())) for row in rows)
    return Verdict(faults, len(rows), files, len(log.visits), len(log.logins))


def wrong_rows(rows: Sequence[dict[str, Any]], catalogue: Catalogue) -> list[str]:
    """Also a row that was made of a login page: it has another name, or none."""
    faults = []
    for kind, expected in (("product", products_of(catalogue)), ("stock", stock_of(catalogue))):
        of_kind = [row for row in rows if row["kind"] == kind]
        counted = Counter(row["sku"] for row in of_kind)
        if missing := expected.keys() - counted.keys():
            faults.append(f"{len(missing)} rows of {kind} are missing, such as {min(missing)}")
        if doubled := [sku for sku, count in counted.items() if count > 1]:
            faults.append(f"{len(doubled)} rows of {kind} are doubled, such as {doubled[0]}")
        if wrong := [row for row in of_kind if plain(row) != expected.get(row["sku"])]:
            faults.append(f"{len(wrong)} rows of {kind} are wrong, such as {wrong[0]['sku']}")
    return faults


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Without where files are."""
    files = [
        {name: file[name] for name in ("name", "size", "sha256", "type")} for file in row.get("files", ())
    ]
    return {**row, "files": files} if "files" in row else row


def products_of(catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    found = {}
    for product in catalogue.all_products():
        files = [
            {"name": file.name, "size": file.size, "sha256": file.sha256, "type": file.media_type}
            for file in product.files
        ]
        variants = [msgspec.to_builtins(variant) for variant in product.variants]
        row = {"kind": "product", "sku": product.sku, "name": product.name, "price": float(product.price)}
        found[product.sku] = row | {"variants": variants, "files": files}
    return found


def stock_of(catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    return {
        product.sku: {"kind": "stock", "sku": product.sku, "stock": catalogue.stock(product.number)}
        for product in catalogue.all_products()
    }


def wrong_files(rows: Sequence[dict[str, Any]], folder: Path, catalogue: Catalogue) -> list[str]:
    """Every file of a row is there and whole, and there are no others."""
    named = {
        (folder / file["path"]).resolve(): file["sha256"] for row in rows for file in row.get("files", ())
    }
    there = {path.resolve() for path in (folder / FILES).rglob("*") if path.is_file() and path.name[0] != "."}
    faults = []
    if missing := named.keys() - there:
        faults.append(f"{len(missing)} files are missing, such as {min(missing).name}")
    torn = [path for path, sha in named.items() if path in there and sha256(path) != sha]
    if torn:
        faults.append(f"{len(torn)} files are not whole, such as {torn[0].name}")
    known = {file.sha256 for file in catalogue.all_files()}
    if strange := [path for path in there if sha256(path) not in known]:
        faults.append(f"{len(strange)} files are none of the shop's, such as {strange[0].name}")
    return faults


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wrong_visits(log: ShopLog, killing: Killing) -> list[str]:
    """One login at a time; a good one only where there was no session, or where one was lost with its process."""
    faults, counted = [], log.count()
    if log.logins_at_once() > 1:
        faults.append(f"{log.logins_at_once()} logins of an account at once")
    needless = sum(login.alive > 0 for login in log.logins)
    if needless > killing.killed:
        faults.append(f"{needless} logins though there was a session")
    # Requests are sent in time, and may arrive together on a busy machine.
    if log.most_in(WINDOW) > 1.5 * WINDOW * killing.rate + 10:
        faults.append(
            f"{log.most_in(WINDOW)} requests in {WINDOW:.0f} s, at a rate of {killing.rate:.0f} a second"
        )
    if refused := sum(not login.good for login in log.logins):
        faults.append(f"{refused} logins were refused")
    if counted["unsigned"]:
        faults.append(f"{counted['unsigned']} calls of the API without a good signature")
    if basket := sum(visit.path.startswith("/basket") for visit in log.visits):
        faults.append(f"{basket} visits to the basket, which robots.txt forbids")
    return faults


# -- by command


class Command:
    """A `shoal` command in a process of its own."""

    def __init__(self, folder: Path, url: str, argv: Sequence[str]) -> None:
        with (folder / "commands.log").open("ab") as log:
            self._popen = self._run(folder, url, argv, log)
        self.pid = self._popen.pid

    def _run(self, folder: Path, url: str, argv: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", "from shoal.cli import main; main()", *argv],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1]), "SHOP_URL": url},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def kill(self) -> None:
        """With its family, which ends by itself."""
        family = [pid for child in children_of(self.pid) for pid in (child, *children_of(child))]
        self._popen.kill()
        self._popen.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), "the end of its processes")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {DEADLINE:.0f} s in vain: {what}")
        time.sleep(0.02)


def kill_if_alive(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(mode: str, folder: Path, spec: ShopSpec, kills: int, seed: int) -> tuple[Verdict, int]:
    """What is left, and how often something was killed."""
    with ShopProcess(spec) as shop:
        started: list[Command] = []

        def start(*argv: str) -> Command:
            started.append(Command(folder, shop.url, argv))
            return started[-1]

        killing = Killing(shop, start, kills, seed)
        try:
            if mode == "fleet":
                with ValkeyServer(folder / "valkey", appendonly=True, fsync="always") as valkey:
                    killing.fleet(valkey.url)
            else:
                killing.crawl(2 if mode == "two" else 1)
        finally:
            for command in started:
                if command.running:
                    command.kill()
        return judge(folder, shop.catalogue, shop.log(), killing), killing.killed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shop", description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", choices=MODES, action="append", help="one of the three; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    spec = ShopSpec(options.products, session_pages=150, latency=0.01, login_latency=0.1, file_seconds=0.1)
    print(
        f"{'mode':6} {'kills':>5} {'rows':>5} {'files':>5} {'requests':>8} {'logins':>6} {'seconds':>7}  verdict"
    )
    good = True
    for mode in options.only or MODES:
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
            began = time.monotonic()
            verdict, killed = run(mode, Path(folder).resolve(), spec, options.kills, options.seed)
            figures = f"{killed:5} {verdict.rows:5} {verdict.files:5} {verdict.visits:8} {verdict.logins:6}"
            print(f"{mode:6} {figures} {time.monotonic() - began:7.1f}  {verdict}", flush=True)
            good = good and not verdict.faults
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
