"""One crawl as a child process: what it took, and whether its output is right."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

import shoal
from benchmarks.crawl.contenders import OUTPUT

_LOG = "log.txt"
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Run(msgspec.Struct, frozen=True):
    pages: int
    cpu: float  # seconds, user and system
    wall: float  # seconds
    peak_rss: int  # bytes, of the largest process


class _Row(msgspec.Struct):
    url: str


class CrawlError(Exception):
    pass


def measure(name: str, command: Sequence[str], expected: set[str]) -> Run:
    """Runs the command in a fresh directory below the current one: /tmp may be memory, where nothing costs a sync."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as directory:
        status, run = _run(command, Path(directory), len(expected))
        if status != 0:
            log = (Path(directory) / _LOG).read_text(errors="replace").strip()
            raise CrawlError(f"{name} ended with status {status}; its last words:\n{log[-2000:]}")
        _check(name, Path(directory) / OUTPUT, expected)
        return run


def _run(command: Sequence[str], directory: Path, pages: int) -> tuple[int, Run]:
    source = os.pathsep.join([str(Path(shoal.__file__).parent.parent), str(Path(__file__).parent)])
    with open(directory / _LOG, "wb") as log:
        started = time.monotonic()
        child = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": source},
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, Run(pages, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * _RSS_UNIT)


def _check(name: str, output: Path, expected: set[str]) -> None:
    """A fast crawl that loses or repeats a page is no result."""
    decode = msgspec.json.Decoder(_Row).decode
    urls = [decode(line).url for line in output.read_bytes().splitlines()]
    missing, doubled = len(expected - set(urls)), len(urls) - len(set(urls))
    if missing or doubled or len(urls) != len(expected):
        raise CrawlError(
            f"{name} wrote {len(urls)} rows for {len(expected)} pages: {missing} missing, {doubled} doubled"
        )
