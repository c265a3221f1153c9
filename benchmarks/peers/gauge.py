"""Runs a command and says what it took, with all processes that come of it:

python -I gauge.py RESULT SECONDS -- COMMAND …

Writes CPU, time and peak memory to RESULT, as JSON. What is still there after so many SECONDS is killed. It needs
nothing but the standard library, and is a process of its own for two reasons: what it has waited for is the crawler
and nothing else, and orphans of the crawler become its children (on Linux), so that none is forgotten.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_SAMPLE = 0.2  # seconds between two looks at the memory
_GRACE = 5.0  # seconds for what outlives the command
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Watch:
    """Looks at the memory of all descendants, and ends them when their time is over."""

    def __init__(self, seconds: float) -> None:
        self.peak = 0  # bytes
        self.killed = False
        self.deadline = time.monotonic() + seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_SAMPLE):
            pids = list(descendants(os.getpid()))
            self.peak = max(self.peak, sum(map(memory_of, pids)))
            if time.monotonic() > self.deadline:
                self.killed = True
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass


def descendants(pid: int) -> Iterator[int]:
    """Children of every thread, and theirs."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children = file.read().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def memory_of(pid: int) -> int:
    """Bytes, where what processes share is split among them; else each fork would count its parent's memory again."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # it has ended
    return 0


def main() -> None:
    result, seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[4:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    watch = Watch(seconds)
    started = time.monotonic()
    child = subprocess.Popen(command)
    code = None
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            wall = time.monotonic() - started
            watch.deadline = min(watch.deadline, time.monotonic() + _GRACE)
    child.returncode = code
    watch.close()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = {
        "code": code,
        "killed": watch.killed,
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": wall,
        "memory": watch.peak or usage.ru_maxrss * _RSS_UNIT,
    }
    with open(result, "w") as file:
        json.dump(taken, file)


if __name__ == "__main__":
    main()
