"""Runs fuzzing processes and watches them: one that hangs is killed, one that dies is replaced, both are findings."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.testing.fuzz.trial import Finding, Share, Work, run_child

HANG = 10.0  # CPU seconds for one input
_SILENCE = 90.0  # seconds for one input, whatever it waits for
_LOOK = 0.1
_MOST_DEATHS = 10
_OWN_STAT = Path("/proc/self/stat")

# Each process is forked from one that has everything imported: else a second would go by before its first input.
_context = get_context("forkserver")
_context.set_forkserver_preload(["shoal.testing.fuzz.trial"])


class Report(Struct):
    """What came of fuzzing one target."""

    target: str
    inputs: int
    seconds: float
    findings: list[Path]

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0.0
        found = f"{len(self.findings)} findings" if self.findings else "nothing found"
        return f"{self.target:13} {self.inputs:>9,} inputs in {self.seconds:7.1f} s ({rate:>7,.0f} a second): {found}"


class Watcher:
    """One fuzzing process after another, until its work is done."""

    def __init__(self, work: Work, folder: Path, share: Path) -> None:
        self._work = work
        self._folder = folder
        self._share_path = share
        self._share = Share(share, new=True)
        self._deaths = 0
        self.ended = False
        self._beats = 0
        self._since = self._cpu = 0.0
        self._process = self._started()

    @property
    def done(self) -> int:
        return max(self._share.done, self._work.skip)

    def look(self) -> None:
        """To be called again and again."""
        if self.ended:
            return
        if self._process.exitcode is not None:
            self._process.join()
            if self._process.exitcode == 0:
                self.ended = True
            elif not self._share.beats:
                raise RuntimeError("a fuzzing process cannot start; its standard error says why")
            else:
                self._bury("death", f"the process died: {_death(self._process.exitcode)}")
            return
        if self._share.beats != self._beats:
            self._note(self._process.pid)
            return
        spent = _cpu_seconds(self._process.pid) - self._cpu
        if self._beats and (spent > HANG or time.monotonic() - self._since > _SILENCE):
            self._process.kill()
            self._process.join()
            self._bury("hang", f"not done after {spent:.0f} s of CPU time")

    def end(self) -> None:
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._share.close()

    def _started(self) -> ForkServerProcess:
        process = _context.Process(target=run_child, args=(self._work, self._share_path, self._folder))
        process.start()
        self._note(process.pid)
        return process

    def _note(self, pid: int | None) -> None:
        """That the process has just shown a sign of life."""
        self._beats, self._since, self._cpu = self._share.beats, time.monotonic(), _cpu_seconds(pid)

    def _bury(self, kind: Literal["death", "hang"], what: str) -> None:
        Finding(self._work.target, kind, what, self._share.current).save(self._folder)
        self._deaths += 1
        self._work = replace(self._work, skip=self.done + 1)
        if self._deaths >= _MOST_DEATHS or self._work.skip >= self._work.inputs:
            self.ended = True
        else:
            self._share.finish(self._work.skip)
            self._process = self._started()


def _cpu_seconds(pid: int | None) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        # Where there is no such file, the clock's time counts. Where there is, the process has just ended, and the next
        # look says how: the time of the clock would make a hang of it.
        return 0.0 if _OWN_STAT.exists() else time.monotonic()
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _death(code: int | None) -> str:
    return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


def fuzz(
    work: Work, folder: Path, *, jobs: int = 1, progress: Callable[[int], None] = lambda done: None
) -> Report:
    """Fuzzes one target in `jobs` processes, which share its inputs."""
    known = set(folder.glob("*.bin"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as shares:
        watchers = [
            Watcher(part, folder, Path(shares) / f"share-{number}")
            for number, part in enumerate(_parts(work, jobs))
        ]
        try:
            while not all(watcher.ended for watcher in watchers):
                time.sleep(_LOOK)
                for watcher in watchers:
                    watcher.look()
                progress(sum(watcher.done for watcher in watchers))
            done = sum(watcher.done for watcher in watchers)
        finally:
            for watcher in watchers:
                watcher.end()
    return Report(work.target, done, time.monotonic() - began, sorted(set(folder.glob("*.bin")) - known))


def _parts(work: Work, jobs: int) -> list[Work]:
    """The first one begins with the corpus; each has inputs of its own."""
    share = -(-work.inputs // jobs)
    return [
        replace(
            work,
            inputs=min(share, work.inputs - n * share),
            seed=work.seed + n,
            corpus=work.corpus and n == 0,
        )
        for n in range(jobs)
        if work.inputs > n * share
    ]
