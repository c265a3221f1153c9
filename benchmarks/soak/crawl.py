"""One crawl to its end: started, sampled while it runs, killed, and started again."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import shoal
from benchmarks.soak.samples import Sample, Sampler
from benchmarks.soak.world import World
from shoal.testing import WebProcess

ROWS = "rows.jsonl"
_SHOAL = (sys.executable, "-c", "from shoal.cli import main; main()")
_DEADLINE = 3600.0
# A hostile page must fail soon, or the end of the crawl would be spent on waiting for it …
_SETTINGS = {
    "connect_timeout": 5,
    "read_timeout": 2,
    "total_timeout": 4,
    "max_body": 2_000_000,
    "max_attempts": 3,  # an honest page may be in hand at two kills
    "retry_base": 0.5,
    "retry_cap": 2,
    "breaker_failures": 1_000_000,  # nor may a breaker spare us the attacks
    "breaker_rate": 2,
    "concurrency": 128,
}


class Crawl:
    def __init__(self, folder: Path, web: WebProcess, world: World, arguments: argparse.Namespace) -> None:
        folder.mkdir()
        self._folder = folder
        self._web = web
        self._pages = len(world.honest) * (
            world.pages if set(world.hostile) & set(web.spec.hosts) else world.alone
        )
        self._per_host = max(world.pages, arguments.hostile_pages) + 10
        self._rate, self._every = arguments.rate, arguments.every
        self._rng = random.Random(arguments.seed)
        self._seen = self._lines = 0
        self.starts = 0

    def run(self, kills: int) -> list[Sample]:
        """Every sample, until the crawl has ended by itself."""
        moments = sorted(self._rng.uniform(0.02, 0.45) * self._pages for _ in range(kills))
        began = time.monotonic()
        samples: list[Sample] = []
        process, sampler = self._start()
        try:
            while process.poll() is None:
                time.sleep(self._every / 10 if moments else self._every)
                rows = self.rows_written()
                if moments and rows >= moments[0]:
                    moments.pop(0)
                    process.kill()
                    process.wait()
                    print(f"  killed after {rows:,} rows; the same command again", flush=True)
                    process, sampler = self._start()
                elif not samples or time.monotonic() - began - samples[-1].at >= self._every:
                    sample = sampler.sample(time.monotonic() - began, rows, self.starts)
                    samples += [sample] if sample is not None else []
                if time.monotonic() - began > _DEADLINE:
                    raise SystemExit(f"the crawl did not end within {_DEADLINE:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode not in (0, 1):  # 1: some pages are dead letters
            raise SystemExit(f"the crawl ended with exit code {process.returncode}; see {self._folder}")
        return samples

    def _start(self) -> tuple[subprocess.Popen[bytes], Sampler]:
        self.starts += 1
        sampler = Sampler(self._folder, self._folder / ".shoal")
        settings = {**_SETTINGS, "max_pages_per_host": self._per_host}
        options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        log = (self._folder / f"crawl-{self.starts}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [
                    *(*_SHOAL, "crawl", "-i", "starts.txt", "-o", ROWS, "-q"),
                    *("--rate", str(self._rate), "--allow-network", "127.0.0.0/8", *options),
                ],
                cwd=self._prepared(),
                env=_environment(sampler),
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        sampler.watch(process.pid)
        return process, sampler

    def _prepared(self) -> Path:
        """Hostile hosts first, as a villain would have it."""
        (self._folder / "starts.txt").write_text("".join(f"{url}\n" for url in self._web.start_urls))
        return self._folder

    # -- what is left behind

    def rows_written(self) -> int:
        """Counted from where the last look ended; from the start if the file is shorter now, as after a kill."""
        path = self._folder / ROWS
        size = path.stat().st_size if path.exists() else 0
        if size < self._seen:
            self._seen = self._lines = 0
        if size > self._seen:
            with path.open("rb") as file:
                file.seek(self._seen)
                new = file.read(size - self._seen)
            self._lines += new.count(b"\n")
            self._seen = size
        return self._lines

    def urls(self) -> list[str]:
        lines = (self._folder / ROWS).read_bytes().splitlines()
        return [msgspec.json.decode(line)["url"] for line in lines]

    def ask(self, *words: str) -> Any:
        """A command's answer as JSON."""
        ran = subprocess.run(
            [*_SHOAL, *words, "--json"], cwd=self._folder, env=_environment(), capture_output=True, check=True
        )
        return msgspec.json.decode(ran.stdout)


def _environment(sampler: Sampler | None = None) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    source = str(Path(shoal.__file__).parents[1])
    more = sampler.environment() if sampler is not None else {}
    path = os.pathsep.join([*([more.pop("PYTHONPATH")] if "PYTHONPATH" in more else []), source])
    return {**mine, **more, "PYTHONPATH": path}
