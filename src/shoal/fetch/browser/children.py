"""Which processes a process has started, told by their parents in /proc: not every kernel keeps lists of children."""

from __future__ import annotations

import os
from contextlib import suppress


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
    found: dict[int, list[int]] = {}
    with suppress(OSError):  # there is no /proc
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]  # the name may hold anything
                if state not in ("Z", "X"):
                    found.setdefault(int(parent), []).append(int(name))
    return found
