"""One crawl as a user would start it, pinned to one core, its memory watched; and what was seen of it.

The limit of memory is checked from outside: a limit of the address space says little about a Python program, and a
group of the kernel's (cgroup) is not everybody's to make. Four times a second the resident memory of the process and
its children is added up. Above the limit the crawl is killed, as a small machine would do it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import shoal
from benchmarks.small_machine.account import Account, read_account
from benchmarks.small_machine.proxies import ProxyProcess
from benchmarks.small_machine.run import Run, Visit, summarize
from benchmarks.small_machine.world import ProxyPlan, as_toml, crawl_settings, names_of, urls_of
from shoal.fetch.browser.chromium import descent
from shoal.frontier.sqlite import SqliteFrontier
from shoal.testing import HostProfile, WebProcess

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY = 0.25  # seconds between two looks
_GRACE = 60.0  # seconds that a crawl has to end, once told
_SHOAL = (sys.executable, "-m", "shoal")


def crawl(
    hosts: dict[str, HostProfile],
    plans: tuple[ProxyPlan, ...],
    pace: float,
    seed: int,
    *,
    folder: Path,
    deadline: float,
    memory: int,
    core: int | None,
) -> Run:
    """`deadline`: seconds after which it is told to stop. `memory`: bytes above which it is killed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with WebProcess(hosts, seed, folder / "hits.jsonl") as web, ProxyProcess(plans) as proxies:
        (folder / "shoal.toml").write_text(as_toml(crawl_settings(pace, urls_of(plans, proxies.addresses))))
        (folder / "starts.txt").write_text("".join(f"{url}\n" for url in web.start_urls))
        spider = f"{Path(__file__).with_name('spider.py')}:small_machine"
        began = time.monotonic()
        with (folder / "crawl.log").open("wb") as log:
            process = subprocess.Popen(
                [*_SHOAL, "crawl", spider, "-o", "rows.jsonl", "--quiet"],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
            )
        watched, cut_short, killed, cpu = _watch(process, began, deadline, memory)
        ended = time.monotonic()
        if process.returncode and not killed:
            raise RuntimeError(f"the crawl failed:\n{(folder / 'crawl.log').read_text()[-2000:]}")
        hits = web.hits()
        expected = {host: web.pages_of(host) for host in hosts}
        store = folder / ".shoal" / "shoal.db"
        return summarize(
            seconds=ended - began,
            visits=[
                Visit(hit.ended - began, hit.host, web.url(hit.host, hit.path), hit.status) for hit in hits
            ],
            rows=read_rows(folder / "rows.jsonl"),
            expected=expected,
            memory=[(at - began, rss) for at, rss in watched],
            cut_short=cut_short,
            killed=killed,
            cpu=cpu,
            account=asyncio.run(_account(store, names_of(plans, proxies.addresses))),
            store=store.stat().st_size,
        )


async def _account(store: Path, names: dict[str, str]) -> Account:
    async with SqliteFrontier(store) as frontier:
        return await read_account(frontier, names)


def _watch(
    process: subprocess.Popen[bytes], began: float, deadline: float, memory: int
) -> tuple[list[tuple[float, int]], bool, bool, float]:
    watched: list[tuple[float, int]] = []
    cut_short = killed = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return watched, cut_short, killed, usage.ru_utime + usage.ru_stime
        at = time.monotonic()
        if rss := resident(process.pid):
            watched.append((at, rss))
        if rss > memory or at > began + deadline + _GRACE:
            killed = True
            process.kill()
        elif at > began + deadline and not cut_short:
            cut_short = True
            process.terminate()
        time.sleep(_EVERY)


def resident(pid: int) -> int:
    """Bytes that a process and its descendants have in memory; pages that they share count for each."""
    return sum(map(own_memory, descent(pid)))


def own_memory(pid: int) -> int:
    """Bytes; 0 if the process ended meanwhile."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def read_rows(path: Path) -> list[str]:
    """The URLs of an output; a row that was cut off does not count."""
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [msgspec.json.decode(line)["url"] for line in whole.splitlines()]


def _environment() -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return {**mine, "PYTHONPATH": str(Path(shoal.__file__).parents[1])}
