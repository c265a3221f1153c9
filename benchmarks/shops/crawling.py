"""The crawl as a command in a process of its own, which can be killed and started again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import shoal

ROWS = "rows.jsonl"
DEADLINE = 600.0


def command(folder: Path, argv: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A `shoal` command. What it says goes to `commands.log` in the folder."""
    with (folder / "commands.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "from shoal.cli import main; main()", *argv],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1]), **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


class Crawl:
    """`shoal crawl` with a file of rows, killed `kills` times at random sizes of that file."""

    def __init__(
        self,
        folder: Path,
        target: Sequence[str],
        environment: Mapping[str, str],
        kills: int = 0,
        seed: int = 0,
    ) -> None:
        self._folder, self._environment = folder, environment
        # Politeness is for others to measure; what counts here is that no host is given up on a busy machine.
        self._argv = ("crawl", *target, "-o", ROWS, "-q", "--rate", "0", "--per-host", "4")
        self._kills, self._rng = kills, random.Random(seed)

    def run(self, rows: int) -> int:
        """Until it has ended by itself; `rows`: how many are expected. Returns the exit code."""
        moments = sorted(self._rng.uniform(0.02, 0.95) * rows for _ in range(self._kills))
        process = self._start()
        try:
            for moment in moments:
                self._until(lambda: len(self.rows()) >= moment or process.poll() is not None)  # noqa: B023
                if process.poll() is not None:
                    raise SystemExit(
                        f"the crawl ended before all kills, with {process.returncode}: {self.log()}"
                    )
                process.kill()
                process.wait()
                process = self._start()
            self._until(lambda: process.poll() is not None)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return process.returncode

    def rows(self) -> list[dict[str, Any]]:
        """Those that are complete; a process that was killed may have left half a line, which the next one removes."""
        path = self._folder / ROWS
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        return [msgspec.json.decode(line) for line in whole.splitlines()]

    def log(self) -> str:
        return (self._folder / "commands.log").read_text(errors="replace")[-2_000:]

    def _start(self) -> subprocess.Popen[bytes]:
        return command(self._folder, self._argv, self._environment)

    def _until(self, condition: Any) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"waited {DEADLINE:.0f} s in vain: {self.log()}")
            time.sleep(0.02)
