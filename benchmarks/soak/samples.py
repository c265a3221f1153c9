"""What a crawl uses while it runs: memory, descriptors, threads, tasks, and the size of its store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from shoal.fetch.browser.chromium import descent

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TASKS = "SOAK_TASKS"  # the folder in which each process of the crawl writes how many tasks it has
_HOOK = Path(__file__).with_name("hook")


class Sample(Struct, frozen=True):
    at: float  # seconds since the crawl began
    rows: int
    start: int  # how often the crawl had been started
    memory: int  # bytes, of all its processes
    descriptors: int
    threads: int
    tasks: int
    store: int  # bytes


class Sampler:
    """Looks at a process and its children. How many tasks a loop has, only its own process can tell."""

    def __init__(self, folder: Path, store: Path) -> None:
        self._folder = folder.resolve() / "tasks"
        self._folder.mkdir(exist_ok=True)
        self._store = store
        self._pid = 0

    def environment(self) -> dict[str, str]:
        return {_TASKS: str(self._folder), "PYTHONPATH": str(_HOOK)}

    def watch(self, pid: int) -> None:
        self._pid = pid

    def sample(self, at: float, rows: int, start: int) -> Sample | None:
        """None if the process ended meanwhile."""
        pids = descent(self._pid)
        try:
            memory = sum(int(_proc(pid, "statm").split()[1]) * _PAGE for pid in pids)
            descriptors = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
            threads = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)
        except OSError:
            return None
        if not memory:  # it has ended, and nobody has noticed yet
            return None
        return Sample(
            at, rows, start, memory, descriptors, threads, sum(map(self._tasks, pids)), _size(self._store)
        )

    def _tasks(self, pid: int) -> int:
        try:
            return int((self._folder / str(pid)).read_text() or 0)
        except (OSError, ValueError):
            return 0


def slope(samples: Sequence[Sample], field: str) -> float:
    """How much a figure grows with every 100,000 rows: of the line that fits best."""
    points = [(sample.rows, float(getattr(sample, field))) for sample in samples]
    if len(points) < 2:
        return 0.0
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0
    return 1e5 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def second_half(samples: Sequence[Sample]) -> Sequence[Sample]:
    """From half of the rows on, without the last tenth: towards the end only hostile hosts are left, and hardly a row
    comes any more."""
    if not samples:
        return samples
    most = samples[-1].rows
    return [sample for sample in samples if 0.5 * most <= sample.rows <= 0.9 * most]


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _size(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        try:
            size += path.stat().st_size
        except OSError:
            continue
    return size
