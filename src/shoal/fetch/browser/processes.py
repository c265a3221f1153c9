"""The processes of a browser: which there are, what memory they use, and their end.

Known from /proc. Where there is none, the memory is 0 (not known), and the browser's process group stands for them all.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Family:
    """A browser, its children, and the program that drives it."""

    def __init__(self, browser: int) -> None:
        self.browser = browser
        driver = _parent(browser)
        # Somebody else's process is never taken for ours: the driver is our child, the browser the driver's.
        self.driver = driver if driver is not None and _parent(driver) == os.getpid() else None
        self._born = {pid: _born(pid) for pid in (browser, self.driver) if pid is not None}

    def __repr__(self) -> str:
        return f"<Family of {self.browser}: {len(self.pids())} processes>"

    def pids(self) -> list[int]:
        """Those that are running."""
        return descent(*filter(self._is_running, self._born))

    def profile(self) -> Path | None:
        """The folder that was made for this browser alone."""
        for word in _read(f"/proc/{self.browser}/cmdline").split("\0"):
            name, _, path = word.partition("=")
            if name == "--user-data-dir" and is_profile(Path(path)):
                return Path(path)
        return None

    def folders(self) -> list[Path]:
        """Those that were made for it alone: besides the profile, the one of the socket by which it is found."""
        profile = self.profile()
        if profile is None:
            return []
        with suppress(OSError):
            socket = Path(os.readlink(profile / "SingletonSocket")).parent
            if ".chromium." in socket.name.lower():
                return [profile, socket]
        return [profile]

    def memory(self) -> int:
        """Bytes, with what several share counted once. Takes some milliseconds."""
        return sum(map(_memory, self.pids()))

    def kill(self) -> None:
        """All but the driver, which then notices by itself and tidies up."""
        for pid in self.pids():
            if pid != self.driver:
                _kill(pid)
        with suppress(OSError):
            if self._is_running(self.browser):
                os.killpg(self.browser, signal.SIGKILL)

    def kill_driver(self) -> None:
        if self.driver is not None and self._is_running(self.driver):
            _kill(self.driver)

    def _is_running(self, pid: int) -> bool:
        """A number may have been given to another process since."""
        return _born(pid) == self._born[pid] and _state(pid) not in ("Z", "X")


def children_of(pid: int) -> list[int]:
    """Those that are running."""
    return _children().get(pid, [])


def descent(*pids: int) -> list[int]:
    """The processes themselves, their children, and so on."""
    children = _children()
    found = list(dict.fromkeys(pids))
    for pid in found:  # which grows
        found += children.get(pid, ())
    return list(dict.fromkeys(found))


def _children() -> dict[int, list[int]]:
    """All that are running, by their parents: not every kernel keeps lists of children."""
    found: dict[int, list[int]] = {}
    with suppress(OSError):  # there is no /proc
        for pid in filter(str.isdigit, os.listdir("/proc")):
            fields = _stat(int(pid))
            if fields and fields[0] not in ("Z", "X"):
                found.setdefault(int(fields[1]), []).append(int(pid))
    return found


def is_profile(folder: Path) -> bool:
    """Whether it was made by a driver, for one browser."""
    return folder.name.startswith("playwright_")


def _memory(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    # A process in a sandbox does not let us look so closely.
    numbers = _read(f"/proc/{pid}/statm").split()
    return (int(numbers[1]) - int(numbers[2])) * _PAGE if numbers else 0


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _born(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[19] if fields else None


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else "R"


def _stat(pid: int) -> list[str]:
    """What follows the name, which may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
