"""What this process uses of its machine, and how much of it there is. Read twice a second, so it is cheap.

What a platform does not tell is 0, and then no rule goes by it. (Without /proc only the most memory ever used is
known. A rule that went by that would never let go.)
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_SHARE = 0.8  # of the machine's or container's memory
_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 0.25
_WINDOW = 1.0
_ROOT = Path("/")


class Reading(Struct, frozen=True):
    """Bytes, and numbers of files; 0: not known."""

    memory: int = 0
    memory_limit: int = 0
    open_files: int = 0
    file_limit: int = 0


class Machine:
    """`memory_limit` is in bytes per process; 0: its share of 80 % of what the machine or container has."""

    def __init__(self, memory_limit: int = 0, *, processes: int = 1, root: Path = _ROOT) -> None:
        self._memory_limit = memory_limit or int(memory_available(root) * _SHARE / processes)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._file_limit = soft if 0 < soft < _UNLIMITED else 0
        self._statm = str(root / "proc/self/statm")
        self._proc_fd, self._dev_fd = str(root / "proc/self/fd"), str(root / "dev/fd")

    def read(self) -> Reading:
        return Reading(self._memory(), self._memory_limit, self._open_files(), self._file_limit)

    def _memory(self) -> int:
        try:
            with open(self._statm, "rb") as file:
                return int(file.read().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0

    def _open_files(self) -> int:
        try:
            if count := os.stat(self._proc_fd).st_size:  # since Linux 6.2; spares listing thousands of names
                return count
        except OSError:
            pass
        for folder in (self._proc_fd, self._dev_fd):
            try:
                return len(os.listdir(folder)) - 1  # without the one that lists them
            except OSError:
                continue
        return 0


def memory_available(root: Path = _ROOT) -> int:
    """Bytes that the machine has, or that its container may use if that is less."""
    return min([os.sysconf("SC_PHYS_PAGES") * _PAGE, *_cgroup_limits(root)])


def _cgroup_limits(root: Path) -> Iterator[int]:
    """The memory limits of the process's control group and of those around it; version 1 and 2."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        inner = mount / group.lstrip("/")
        for folder in (inner, *inner.parents):
            limit = _text(folder / name).strip()
            if limit.isdigit() and 0 < int(limit) < _UNLIMITED:
                yield int(limit)
            if folder == mount:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


class LoopLag:
    """How late the event loop is with its timers: the maximum of the last one to two seconds."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._window_ends = 0.0
        self._current = self._previous = 0.0

    @property
    def seconds(self) -> float:
        return max(self._current, self._previous)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._window_ends = loop.time() + _WINDOW
        self._wait(loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + _TICK
        self._timer = loop.call_at(self._due, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if now >= self._window_ends:
            self._previous, self._current = self._current, 0.0
            self._window_ends = now + _WINDOW
        self._current = max(self._current, now - self._due)
        self._wait(loop)
