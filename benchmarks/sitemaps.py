"""A sitemap index with a million URLs: memory, backpressure, kills, and a second run that takes only what has changed.

    python -m benchmarks.sitemaps                       all three parts
    python -m benchmarks.sitemaps --part admit --urls 1000000 --kills 3
    python -m benchmarks.sitemaps --part feed --seconds 90
    python -m benchmarks.sitemaps --part changes

admit    every sitemap is read and every URL queued, while the crawl is killed (kill -9) again and again. No page is
         fetched: to fetch a million takes an hour. The verdict: every URL is queued exactly once
feed     pages are fetched, too, for a while, with the usual high water: how long the queue gets
changes  a first run fetches all of 20,000 pages; 200 are changed; a second run takes only those

The site is on loopback. Sitemaps are made as they are asked for, half of them as gzip files.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from shoal.frontier import open_frontier

ENTRIES = 50_000  # of a sitemap, as the protocol has it
JOB = "bench"
OLD = "2020-01-01"
SPIDER = """
from shoal import Sitemap, Spider

spider = Spider("bench", start=Sitemap("{site}/sitemap.xml", since="last"), rate=0, per_host={per_host})

@spider.handler
def page(page):
    pass
"""


# -- the site


class Site:
    """/sitemap.xml is an index, /map/N.xml (or .gz) lists pages, /p/N is one. /touch?N changes the first N of the first
    and the last file."""

    def __init__(self, port: int, urls: int, entries: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self._urls, self._entries = urls, entries
        self._changed: frozenset[int] = frozenset()
        self._now = ""
        self.pages = self.maps = 0

    def answer(self, path: str) -> tuple[str, bytes]:
        if path.startswith("/p/"):
            self.pages += 1
            return "text/html", b"<title>x</title>"
        if path.startswith("/map/"):
            self.maps += 1
            number = int(path[5:].split(".")[0])
            body = self._map(number).encode()
            return (
                ("application/gzip", gzip.compress(body, 1)) if path.endswith(".gz") else ("text/xml", body)
            )
        if path == "/sitemap.xml":
            return "text/xml", self._index().encode()
        if path == "/counts":
            return "text/plain", f"{self.pages} {self.maps}".encode()
        if path.startswith("/touch?"):
            half = int(path.partition("?")[2]) // 2
            self._changed = frozenset([*range(half), *range(self._urls - half, self._urls)])
            self._now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.pages = self.maps = 0
            return "text/plain", b"ok"
        return "text/plain", b""  # robots.txt

    def _index(self) -> str:
        files = range(0, self._urls, self._entries)
        return "".join(
            ["<sitemapindex>"]
            + [
                f"<sitemap><loc>{self.base}/map/{number}.xml{'.gz' if number % 2 else ''}</loc>"
                f"<lastmod>{self._lastmod(range(at, at + self._entries))}</lastmod></sitemap>"
                for number, at in enumerate(files)
            ]
            + ["</sitemapindex>"]
        )

    def _map(self, number: int) -> str:
        first = number * self._entries
        own = range(first, min(first + self._entries, self._urls))
        return "".join(
            ["<urlset>"]
            + [
                f"<url><loc>{self.base}/p/{page}</loc><lastmod>{self._lastmod([page])}</lastmod></url>\n"
                for page in own
            ]
            + ["</urlset>"]
        )

    def _lastmod(self, pages: range | list[int]) -> str:
        return self._now if any(page in self._changed for page in pages) else OLD

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                kind, body = self.answer(head.split(b" ", 2)[1].decode())
                writer.write(
                    f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _serve(port: int, urls: int, entries: int) -> None:
    site = Site(port, urls, entries)
    server = await asyncio.start_server(site.connection, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


@contextmanager
def serving(urls: int, entries: int = ENTRIES) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--serve", str(port), "--urls", str(urls), "--entries", str(entries)]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.sitemaps", *words])
    try:
        base = f"http://127.0.0.1:{port}"
        _until(lambda: _answers(base), 30)
        yield base
    finally:
        process.kill()
        process.wait()


def _answers(base: str) -> bool:
    try:
        return bool(urlopen(f"{base}/counts", timeout=5).read())
    except OSError:
        return False


def _until(condition: object, seconds: float = 3600.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


# -- the crawl, as a person starts it


class Crawl:
    def __init__(self, folder: Path, site: str, *settings: str, per_host: int = 4) -> None:
        (folder / "bench.py").write_text(SPIDER.format(site=site, per_host=per_host))
        self._folder, self._settings = folder, settings
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        words = [sys.executable, "-m", "shoal", "crawl", "bench.py", "-q", "--store", "store.db", *more]
        for setting in self._settings:
            words += ["-s", setting]
        self.process = subprocess.Popen(words, cwd=self._folder, start_new_session=True)

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)
        self.process.wait()

    def memory(self) -> int:
        """MB of the process that crawls: the largest of its group."""
        assert self.process is not None
        sizes = [0]
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.getpgid(int(entry.name)) == self.process.pid:
                    status = (entry / "status").read_text()
                    sizes.append(int(status.partition("VmRSS:")[2].split()[0]) // 1024)
            except (OSError, IndexError):
                continue
        return max(sizes)

    def look(self) -> tuple[int, int, int, dict[str, int], dict[str, int]]:
        """Admitted, pending, done; pending by lane; the job's counters."""

        async def look() -> tuple[int, int, int, dict[str, int], dict[str, int]]:
            async with open_frontier(str(self._folder / "store.db")) as frontier:
                job = await frontier.job(JOB)
                if job is None:
                    return 0, 0, 0, {}, {}
                lanes = dict(await frontier.lanes(JOB))
                c = job.counters
                return c.admitted, c.pending, c.done, lanes, dict(job.counts)

        if not (self._folder / "store.db").exists():
            return 0, 0, 0, {}, {}
        return asyncio.run(look())


def admit(urls: int, kills: int) -> bool:
    print(f"admit: {urls:,} URLs in {-(-urls // ENTRIES)} sitemaps, {kills} kills")
    with serving(urls) as site, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        crawl = Crawl(Path(name), site, f"high_water={10 * urls}", "serve=discovery")
        crawl.start()
        began = told = time.monotonic()
        marks = [urls * (number + 1) // (kills + 1) for number in range(kills)]
        sizes: list[int] = []
        while True:
            time.sleep(1.0)
            admitted, _, done, lanes, counts = crawl.look()
            sizes.append(crawl.memory())
            if time.monotonic() >= told + 10:
                told = time.monotonic()
                print(f"  {told - began:5.0f} s  {admitted:>9,} admitted  {sizes[-1]:4} MB", flush=True)
            if marks and admitted >= marks[0]:
                marks.pop(0)
                crawl.signal(signal.SIGKILL)
                print(f"  killed at {admitted:,}", flush=True)
                crawl.start()
            is_all = not marks and not lanes.get("discovery") and lanes.get("normal", 0) >= urls
            if is_all or time.monotonic() > began + 3600:
                break
        seconds = time.monotonic() - began
        crawl.signal(signal.SIGTERM)
        admitted, _, done, lanes, counts = crawl.look()
        maps = urlopen(f"{site}/counts", timeout=5).read().decode().split()[1]
        print(
            f"  {lanes.get('normal', 0):,} pages queued of {urls:,} in {seconds:.0f} s, {maps} files sent, {done} read"
        )
        print(f"  memory: {min(sizes[5:])} to {max(sizes)} MB; {counts}")
        return lanes.get("normal", 0) == urls and admitted == urls + done


def feed(urls: int, seconds: float) -> bool:
    high = 20_000
    print(f"feed: {urls:,} URLs, pages fetched for {seconds:.0f} s, high water {high:,}")
    with serving(urls) as site, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        crawl = Crawl(Path(name), site, f"high_water={high}")
        crawl.start()
        began, told, most, sizes = time.monotonic(), 0.0, 0, list[int]()
        while (now := time.monotonic() - began) < seconds:
            time.sleep(0.5)
            _, pending, done, _, _ = crawl.look()
            most = max(most, pending)
            sizes.append(crawl.memory())
            if now >= told + 5:
                told = now
                print(f"  {now:5.0f} s  {pending:>7,} pending  {done:>7,} done  {sizes[-1]:4} MB", flush=True)
        crawl.signal(signal.SIGTERM)
        print(
            f"  the queue held {most:,} at most ({most / high:.2f} of the high water); memory to {max(sizes)} MB"
        )
        return most <= 2.5 * high


def changes(urls: int = 20_000, changed: int = 200) -> bool:
    print(f"changes: {urls:,} pages in 20 sitemaps, then {changed} of them changed")
    with serving(urls, urls // 20) as site, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        crawl = Crawl(Path(name), site, per_host=16)
        fetched = list[int]()
        for run in (1, 2):
            began = time.monotonic()
            crawl.start(*(["--fresh"] if run == 2 else []))
            assert crawl.process is not None
            crawl.process.wait()
            pages, maps = map(int, urlopen(f"{site}/counts", timeout=5).read().split())
            print(
                f"  run {run}: {pages:,} pages and {maps} sitemaps in {time.monotonic() - began:.1f} s",
                flush=True,
            )
            fetched.append(pages)
            urlopen(f"{site}/touch?{changed}", timeout=5).read()
        return fetched == [urls, changed]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sitemaps", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--part", choices=("admit", "feed", "changes", "all"), default="all")
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=90.0, help="of the part feed")
    parser.add_argument("--entries", type=int, default=ENTRIES, help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(_serve(given.serve, given.urls, given.entries))
        return 0
    parts = {
        "changes": lambda: changes(),
        "feed": lambda: feed(given.urls, given.seconds),
        "admit": lambda: admit(given.urls, given.kills),
    }
    chosen = [part for name, part in parts.items() if given.part in (name, "all")]
    verdicts = [part() for part in chosen]
    print("as it should be" if all(verdicts) else "NOT as it should be")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
