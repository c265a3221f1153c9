"""Runs one contender as a child process against a web of its own, and collects what both sides saw."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TypeVar

import msgspec

import shoal
from benchmarks.patterns.terms import ATTEMPTS, ROWS, TERMS, URLS, Attempt, Terms
from benchmarks.patterns.world import Order, in_order
from shoal.testing import Hit, HostProfile, WebProcess

OPEN_FILES = 32_768  # so that nobody fails by a limit that one line lifts; a plain shell gives 1,024
_GRACE = 10.0  # seconds to end in, once told
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_ROOT = Path(__file__).parents[2]
_LOG = "log.txt"

T = TypeVar("T")


class ContenderError(Exception):
    pass


class _Row(msgspec.Struct):
    url: str


class Race(msgspec.Struct, frozen=True):
    """What is known after a contender has ended. Times are real seconds."""

    obtainable: set[str]
    obtained: set[str]
    attempts: list[Attempt]
    hits: list[Hit]  # in the server's log
    ended: float  # monotonic
    cut_short: bool  # its time was up
    cpu: float  # user and system
    peak_rss: int  # bytes


def race(
    name: str,
    hosts: dict[str, HostProfile],
    terms: Terms,
    order: Order,
    seed: int,
    deadline: float,
    files: int = OPEN_FILES,
) -> Race:
    """A fresh web for every contender, so that all meet it in the same state. `deadline` is in real seconds."""
    # Below the current directory: /tmp may be memory, where nothing costs a sync.
    with WebProcess(hosts, seed) as web, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        directory = Path(folder)
        urls = [web.url(host, f"/p/{n}") for host, profile in hosts.items() for n in range(profile.pages)]
        (directory / URLS).write_text("\n".join(in_order(urls, order, seed)) + "\n")
        (directory / TERMS).write_bytes(msgspec.json.encode(terms))
        status, usage, cut_short = _run(name, directory, deadline, files)
        ended = time.monotonic()
        if status != 0 and not cut_short:
            log = (directory / _LOG).read_text(errors="replace").strip()
            raise ContenderError(f"{name} ended with status {status}; its last words:\n{log[-2000:]}")
        return Race(
            obtainable={url for host in hosts for url in web.pages_of(host)},
            obtained={row.url for row in _lines(directory / ROWS, _Row)},
            attempts=_lines(directory / ATTEMPTS, Attempt),
            hits=web.hits(),
            ended=ended,
            cut_short=cut_short,
            cpu=usage.ru_utime + usage.ru_stime,
            peak_rss=usage.ru_maxrss * _RSS_UNIT,
        )


def _run(name: str, directory: Path, deadline: float, files: int) -> tuple[int, resource.struct_rusage, bool]:
    source = str(Path(shoal.__file__).parents[1])
    with open(directory / _LOG, "wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.patterns.contenders.{name}"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([source, str(_ROOT)])},
            preexec_fn=lambda: _limit_open_files(files),
        )
    cut_short = threading.Event()

    def cut() -> None:
        cut_short.set()
        child.send_signal(signal.SIGTERM)

    timers = [threading.Timer(deadline, cut), threading.Timer(deadline + _GRACE, child.kill)]
    for timer in timers:
        timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        for timer in timers:
            timer.cancel()
        if child.returncode is None:
            child.kill()
            child.wait()
    return child.returncode, usage, cut_short.is_set()


def _limit_open_files(files: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = files if hard == resource.RLIM_INFINITY else min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def _lines(path: Path, kind: type[T]) -> list[T]:
    if not path.exists():
        return []
    decode = msgspec.json.Decoder(kind).decode
    # A contender that had to be killed may have left half a line.
    whole = path.read_bytes().rpartition(b"\n")[0]
    return [decode(line) for line in whole.splitlines()]
