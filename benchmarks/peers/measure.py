"""One crawl as a child process: what it took, and whether it did all of its work and no other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

import shoal
from benchmarks.peers.asked import Asked
from benchmarks.peers.contenders import OUTPUT, STARTS, Contender, Task
from benchmarks.peers.shapes import Shape
from benchmarks.peers.site_process import SiteProcess
from shoal.testing.servers import ValkeyServer

_GAUGE = Path(__file__).with_name("gauge.py")
_LOG, _RESULT = "log.txt", "taken.json"
_AGAIN = 0.01  # of the pages may be asked for again
_TICKS = os.sysconf("SC_CLK_TCK")


class Run(msgspec.Struct, frozen=True):
    pages: int
    cpu: float  # seconds, user and system, of the crawler and all its processes
    wall: float  # seconds
    memory: int  # bytes, of all its processes at their peak
    asked: Asked
    valkey_cpu: float | None = None  # seconds
    others: float | None = None  # cores that were busy with something else meanwhile

    @property
    def cpu_ms(self) -> float:
        """Of a page, start-up included."""
        return 1e3 * self.cpu / self.pages


class CrawlError(Exception):
    pass


class _Taken(msgspec.Struct):
    """What gauge.py writes."""

    code: int
    killed: bool
    cpu: float
    wall: float
    memory: int


class Row(msgspec.Struct):
    url: str
    status: int
    title: str | None = None
    links: int | None = None


def measure(contender: Contender, site: SiteProcess, concurrency: int, seconds: float) -> Run:
    """Runs in a fresh folder below the current one: /tmp may be memory, where nothing costs a sync."""
    with (
        tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name,
        _valkey(contender, Path(name).absolute()) as valkey,
    ):
        folder = Path(name).absolute() / "crawl"
        folder.mkdir()
        (folder / STARTS).write_text("\n".join(site.start_urls) + "\n")
        address = valkey.url if valkey is not None else ""
        task = Task(site.start_urls, concurrency, site.shape.follow, address)
        site.take()
        valkey_before, busy_before, began = _cpu_of(valkey), _busy(), time.monotonic()
        taken = _run(contender, task, site, folder, seconds)
        passed, busy = time.monotonic() - began, _busy()
        asked, valkey_cpu = site.take(), _cpu_of(valkey)
        check_asked(contender.name, asked)
        check_rows(contender.name, list(_rows(folder, contender)), site.pages(), site.shape)
        spent = None if valkey_cpu is None else valkey_cpu - (valkey_before or 0.0)
        others = None
        if busy is not None and busy_before is not None:
            known = taken.cpu + asked.cpu + (spent or 0.0)
            others = max(0.0, (busy - busy_before - known) / passed)
        return Run(site.shape.pages, taken.cpu, taken.wall, taken.memory, asked, spent, others)


def _run(contender: Contender, task: Task, site: SiteProcess, folder: Path, seconds: float) -> _Taken:
    gauge = [sys.executable, "-I", str(_GAUGE), str(folder.parent / _RESULT), str(seconds), "--"]
    with open(folder.parent / _LOG, "wb") as log:
        subprocess.run(
            [*gauge, *contender.command(task)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(site),
            check=True,
        )
    taken = msgspec.json.decode((folder.parent / _RESULT).read_bytes(), type=_Taken)
    words = (folder.parent / _LOG).read_text(errors="replace").strip()[-2000:]
    if taken.killed:
        raise CrawlError(f"{contender.name} was not through after {seconds:.0f} s; its last words:\n{words}")
    if taken.code != 0:
        raise CrawlError(f"{contender.name} ended with status {taken.code}; its last words:\n{words}")
    return taken


def _environment(site: SiteProcess) -> dict[str, str]:
    """The same for all. Bytecode is kept: else every start would compile the whole crawler."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    mine.pop("PYTHONDONTWRITEBYTECODE", None)
    source = [str(Path(shoal.__file__).parent.parent), str(Path(__file__).parents[1] / "crawl")]
    trusted = {"SSL_CERT_FILE": str(site.certificates.authority)} if site.certificates else {}
    return {**mine, "PYTHONPATH": os.pathsep.join(source), **trusted}


@contextmanager
def _valkey(contender: Contender, folder: Path) -> Iterator[ValkeyServer | None]:
    """One of its own for every run, with nothing in it; durable, to a second."""
    if not contender.valkey:
        yield None
        return
    with ValkeyServer(folder / "valkey", appendonly=True) as server:
        yield server


def _cpu_of(valkey: ValkeyServer | None) -> float | None:
    if valkey is None:
        return None
    info = valkey.command("INFO", "cpu")
    names = ("used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children")
    return sum(float(info[name]) for name in names)


def _busy() -> float | None:
    """Seconds for which the machine's cores have been busy since its start, or were kept from us by its host."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, first[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS


# -- whether it is a result at all


def _rows(folder: Path, contender: Contender) -> Iterator[Row]:
    decode = msgspec.json.Decoder(Row).decode
    for path in sorted(folder.glob(contender.rows)):
        content = path.read_bytes()
        yield from map(decode, content.splitlines() if path.name == OUTPUT else [content])


def check_asked(name: str, asked: Asked) -> None:
    """By the server's count."""
    if asked.missing:
        raise CrawlError(
            f"{name} never asked for {asked.missing} of {asked.missing + asked.pages} pages, says the server"
        )
    if asked.again > _AGAIN * asked.pages:
        raise CrawlError(f"{name} asked for pages again {asked.again} times, says the server")
    if asked.other:
        raise CrawlError(f"{name} asked {asked.other} times for what is not there, says the server")


def check_rows(name: str, rows: list[Row], pages: Mapping[str, int], shape: Shape) -> None:
    """A fast crawl that loses or repeats a page, or does not look into it, is no result."""
    urls = {row.url for row in rows}
    missing, doubled = len(pages.keys() - urls), len(rows) - len(urls)
    if missing or doubled or len(rows) != len(pages):
        raise CrawlError(
            f"{name} wrote {len(rows)} rows for {len(pages)} pages: {missing} missing, {doubled} doubled"
        )
    for row in rows:
        right = row.status == 200
        if shape.follow:
            title = f"Page {pages[row.url]}:"
            right = right and row.links == shape.links and (row.title or "").startswith(title)
        if not right:
            raise CrawlError(f"{name} wrote a wrong row: {row}")
