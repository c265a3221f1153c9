"""One time for all processes that share a file.

The machine's monotonic clock is common to its processes but starts anew with every boot, so the file remembers the
boot and how far its own time was ahead of that clock. The first process after a boot anchors it again, never before
the last time known: a wall clock that jumped while nobody looked cannot turn time back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from shoal.clock import Clock, SystemClock
from shoal.frontier.timebase import Timebase


def shared_timebase(db: apsw.Connection, clock: Clock | None = None, boot: str | None = None) -> Timebase:
    clock = clock or SystemClock()
    boot = boot_id() if boot is None else boot
    db.execute("BEGIN IMMEDIATE")
    rows: list[Any] = db.execute(
        "SELECT key, value FROM meta WHERE key IN ('boot', 'offset', 'last')"
    ).fetchall()
    known: dict[str, Any] = dict(rows)
    same_boot = known.get("boot") == boot and clock.monotonic() + known["offset"] >= known["last"]
    if same_boot:
        timebase = Timebase(clock, known["offset"])
    else:
        timebase = Timebase(clock)
        if (last := known.get("last")) is not None and timebase.now() < last:
            timebase = Timebase(clock, last - clock.monotonic())
    facts = (("boot", boot), ("offset", timebase.offset), ("last", timebase.now()))
    db.executemany("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", facts)
    db.execute("COMMIT")
    return timebase


def boot_id() -> str:
    """Names this run of the machine; empty where the system has no such name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
