"""Targets with a fault that the engine must find; in a module of its own, which a fuzzing process can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from shoal.testing.fuzz.target import Run, Target, pure
from shoal.testing.fuzz.trial import Share, Trial, Work, tried


def planted(run: Run) -> Target:
    return Target("planted", "…", pure(run), (b"b",), base=0.01)


def planted_child(work: Work, share_path: Path, folder: Path) -> None:
    """In place of `run_child`: every input kills the process, or never ends, or takes a while."""

    def run(data: bytes) -> None:
        if work.target == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if work.target == "waits":
            time.sleep(0.5)
            return
        while True:
            pass

    share = Share(share_path)
    trial = Trial(planted(run), run, lambda data: share.begin(work.skip, data))
    for done in tried(work, trial, planted(run)):
        share.finish(done)
