"""Kill a crawl again and again, run the same command again each time, and count the rows.

    python -m benchmarks.kill --pages 10000 --kills 10
    python -m benchmarks.kill --pages 10000 --kills 10 --processes 2

With one process the crawl itself is killed (kill -9). With several, the victims take turns: a worker process, which
the crawl must replace, and the crawl itself, whose workers must end by themselves. The kills are spread at random
over the crawl, each at a size of the result file. The verdict: exactly one row a page, none missing, none twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

import shoal
from shoal.testing import HostProfile, WebProcess

DEADLINE = 600.0
ROWS = "rows.jsonl"
ROW_BYTES = 280  # about; only spreads the kills


def main() -> int:
    arguments = _arguments()
    site = HostProfile(pages=arguments.pages, links=33, body_bytes=arguments.body_bytes)
    # Below the current directory: /tmp may be memory, where nothing costs a sync.
    with WebProcess({"site": site}) as web, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        killing = Killing(Path(folder), web, arguments)
        try:
            killing.run()
        finally:
            killing.end()
        return 0 if killing.verdict() else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--body-bytes", type=int, default=2_000, help="of each page")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    return parser.parse_args()


class Killing:
    def __init__(self, folder: Path, web: WebProcess, arguments: argparse.Namespace) -> None:
        self._folder, self._web = folder, web
        self._pages, self._kills, self._processes = arguments.pages, arguments.kills, arguments.processes
        self._rng = random.Random(arguments.seed)
        self._started: list[subprocess.Popen[bytes]] = []
        self._began = time.monotonic()

    def run(self) -> None:
        crawl = self._start()
        share = 0.95 * self._pages * ROW_BYTES / self._kills
        for number in range(self._kills):
            size = int((number + self._rng.random()) * share)
            _until(lambda: self._size() >= size or crawl.poll() is not None)  # noqa: B023
            if crawl.poll() is not None:
                print(f"the crawl ended before kill {number + 1}")
                break
            crawl = self._kill(number, crawl)
        _until(lambda: crawl.poll() is not None)
        print(f"ended with exit code {crawl.returncode} after {time.monotonic() - self._began:.1f} s")

    def _kill(self, number: int, crawl: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Kills one process; answers the crawl that goes on."""
        workers = [pid for child in _children(crawl.pid) for pid in _children(child)]  # below the guardian's
        at = f"kill {number + 1:2} at {self._size() / 1024:7.0f} KiB of rows"
        if self._processes > 1 and workers and number % 2 == 0:
            os.kill(self._rng.choice(workers), signal.SIGKILL)
            print(f"{at}: a worker process", flush=True)
            return crawl
        crawl.kill()
        crawl.wait()
        print(f"{at}: the crawl; same command again", flush=True)
        return self._start()

    def verdict(self) -> bool:
        data = (self._folder / ROWS).read_bytes()
        urls = Counter(msgspec.json.decode(line)["url"] for line in data.splitlines())
        expected = self._web.pages_of("site")
        missing, doubled = expected - set(urls), [url for url, count in urls.items() if count > 1]
        hits = Counter(hit.path for hit in self._web.hits_of("site") if hit.path != "/robots.txt")
        again = sum(count - 1 for count in hits.values())
        print(
            f"{urls.total():,} rows for {len(expected):,} pages: {len(missing)} missing, {len(doubled)} doubled"
        )
        print(f"{again:,} pages were fetched again ({again / max(1, len(self._started)):.0f} a start)")
        good = not missing and not doubled and set(urls) == expected and self._started[-1].returncode == 0
        print("verdict: " + ("exactly one row a page" if good else "FAILED"))
        return good

    def _start(self) -> subprocess.Popen[bytes]:
        flags = ["--rate", "0", "--per-host", "50", "--processes", str(self._processes), "-q"]
        shoal_command = [sys.executable, "-c", "from shoal.cli import main; main()"]
        process = subprocess.Popen(
            [*shoal_command, "crawl", self._web.url("site"), "-o", ROWS, *flags],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1])},
            stdin=subprocess.DEVNULL,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _size(self) -> int:
        rows = self._folder / ROWS
        return rows.stat().st_size if rows.exists() else 0


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened for {DEADLINE:.0f} s")
        time.sleep(0.001)


def _children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = (line.split() for line in listed.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


if __name__ == "__main__":
    sys.exit(main())
