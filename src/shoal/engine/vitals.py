"""How a process is doing: its slots, what holds it back, and what it uses of its machine.

Vitals are frozen, serialisable and mergeable, so that those of several processes can be added up.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from shoal.engine.event_loop import LoopLag
from shoal.engine.tally import TallyReport


class Vitals(Struct, frozen=True, omit_defaults=True):
    """Of one process, or of several together. Counters first; the rest is the state at this moment."""

    stale: int = 0  # settlements that came after their lease had been given away
    cpu: float = 0.0  # seconds
    processes: int = 0
    slots: int = 0  # how many pages may be worked on at once
    usable: int = 0  # … while backpressure holds some back
    held_by: dict[str, int] = {}  # backpressure rule -> processes that it holds back
    settling_lag: float = 0.0  # seconds the oldest finished page has waited to be committed
    loop_lag: float = 0.0  # seconds the event loop was late, at worst, lately
    memory: int = 0  # bytes; 0: not known
    memory_limit: int = 0
    open_files: int = 0
    file_limit: int = 0
    waiting: int = 0  # pages in flight that hold no slot

    def past(self) -> Vitals:
        """The counters alone, for a process that has ended."""
        return Vitals(self.stale, self.cpu)


def together(parts: Iterable[Vitals]) -> Vitals:
    """The vitals of several processes: sums, and the longest of each wait."""
    parts = list(parts)
    held_by: Counter[str] = Counter()
    for one in parts:
        held_by.update(one.held_by)
    return Vitals(
        stale=sum(one.stale for one in parts),
        cpu=sum(one.cpu for one in parts),
        processes=sum(one.processes for one in parts),
        slots=sum(one.slots for one in parts),
        usable=sum(one.usable for one in parts),
        held_by=dict(held_by),
        settling_lag=max((one.settling_lag for one in parts), default=0.0),
        loop_lag=max((one.loop_lag for one in parts), default=0.0),
        memory=sum(one.memory for one in parts),
        memory_limit=sum(one.memory_limit for one in parts),
        open_files=sum(one.open_files for one in parts),
        file_limit=sum(one.file_limit for one in parts),
        waiting=sum(one.waiting for one in parts),
    )


class StatusSource(Protocol):
    """A process that can be asked how it is doing."""

    def report(self) -> TallyReport: ...

    def vitals(self) -> Vitals: ...

    def hangs(self) -> str:
        """Why it makes no progress, though the store answers; "": it does."""
        ...

    def stopping(self) -> bool: ...


class OwnVitals:
    """The vitals of a process that fetches nothing itself."""

    def __init__(self) -> None:
        self._machine = Machine()
        self._lag = LoopLag()

    def __enter__(self) -> OwnVitals:
        self._lag.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._lag.stop()

    def vitals(self) -> Vitals:
        reading = self._machine.read()
        return Vitals(
            cpu=time.process_time(),
            processes=1,
            loop_lag=self._lag.seconds,
            memory=reading.memory,
            open_files=reading.open_files,
            file_limit=reading.file_limit,
        )


# -- memory and open files

_SHARE = 0.8  # of the machine's or container's memory
_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROOT = Path("/")


class Reading(Struct, frozen=True):
    """Bytes, and numbers of files. 0: not known, and then no backpressure rule uses it. (Without /proc only the peak of
    memory is known. A rule that used it would never end.)"""

    memory: int = 0
    memory_limit: int = 0
    open_files: int = 0
    file_limit: int = 0


class Machine:
    """What this process uses of its machine. Cheap: read twice a second. `memory_limit` is in bytes per process; 0: its
    share of 80 % of the memory of the machine or container."""

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
