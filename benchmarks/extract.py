"""`shoal extract` against crawling the same pages: pages a second of one core.

    python -m benchmarks.extract                     5,000 pages of 15 KB
    python -m benchmarks.extract --pages 20000 --rounds 3

A site on loopback is crawled with the archive on, and without; then the spider runs on the archive. The crawls have the
site to themselves, without a limit of their rate. Each command is a process of its own; what the same command takes for
a single page, which is mostly to start, is taken off its CPU time. Commands take turns, so that a busy machine is the
same for all.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

SITE = """
import asyncio, sys
from aiohttp import web

pages = int(sys.argv[1])
WORDS = 'a page-turner with surprises, well worth reading. ' * 6
FILLER = ''.join(f'<p class=review>Reader {n}: {WORDS}' for n in range(40))

async def answer(request):
    number = int(request.path.strip("/") or 0)
    links = "".join(f'<li><a href="/{(number * 7 + n) % pages}">Book {n}</a></li>' for n in range(20))
    text = f"<html><title>Book {number}</title><h1>Book {number}</h1><b class=price>{number}.50</b><ul>{links}</ul>"
    text += FILLER
    return web.Response(text=text, content_type="text/html")

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

SPIDER = """
from shoal import Spider

spider = Spider("books", start=[{urls}], rate=0, per_host=32, robots=False)

@spider.handler(key="title")
def book(page):
    yield {{"title": page.text("h1"), "price": page.text(".price"), "url": page.url}}
    yield from page.follow_all("li a", book)
"""


class Cost(Struct):
    seconds: float
    cpu: float

    def without(self, other: Cost) -> Cost:
        return Cost(self.seconds, self.cpu - other.cpu)


def run(folder: Path, *words: str) -> Cost:
    """One command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "shoal", *words, "-q"], cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - began, cpu)


def measure(folder: Path, pages: int, round_: int) -> dict[str, Cost]:
    """What so many pages take, by command."""
    name = f"{pages}-{round_}"
    crawl = ["crawl", "books.py", "--max-pages", str(pages), "--store", f"{name}.db"]
    extract = ["extract", "books.py", "--limit", str(pages), "--from", f"pages-{name}"]
    return {
        "crawl": run(folder, *crawl, "-o", f"crawl-{name}.jsonl", "--job", f"a{name}"),
        "crawl --archive": run(
            folder, *crawl, "-o", f"kept-{name}.jsonl", "--job", f"b{name}", "--archive", f"pages-{name}"
        ),
        "extract, 1 process": run(folder, *extract, "-o", f"one-{name}.jsonl", "--processes", "1"),
        "extract": run(folder, *extract, "-o", f"all-{name}.jsonl"),
    }


def check(folder: Path, pages: int, round_: int) -> None:
    """All have the same rows."""
    crawled, *others = [
        sorted((folder / f"{name}-{pages}-{round_}.jsonl").read_bytes().splitlines())
        for name in ("kept", "one", "all")
    ]
    assert len(crawled) == pages, len(crawled)
    assert all(rows == crawled for rows in others)


def report(pages: int, rounds: Sequence[dict[str, Cost]]) -> None:
    base = min(one["crawl"].cpu for one in rounds)
    print(f"{pages:,} pages, the best of {len(rounds)} rounds, {os.cpu_count()} cores")
    print(f"{'':20} {'pages/s':>9} {'CPU ms/page':>12} {'pages/s a core':>15} {'x crawl':>8}")
    for name in rounds[0]:
        cpu, seconds = min(one[name].cpu for one in rounds), min(one[name].seconds for one in rounds)
        print(
            f"{name:20} {pages / seconds:9,.0f} {cpu / pages * 1e3:12.3f} {pages / cpu:15,.0f} {base / cpu:8.1f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extract", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as made,
        subprocess.Popen(
            [sys.executable, "-c", SITE, str(options.pages)], stdout=subprocess.PIPE, text=True
        ) as site,
    ):
        assert site.stdout is not None
        folder, port = Path(made).resolve(), int(site.stdout.readline())
        urls = f'f"http://127.0.0.1:{port}/{{n}}" for n in range({options.pages})'
        (folder / "books.py").write_text(SPIDER.format(urls=urls))
        rounds = []
        try:
            for round_ in range(options.rounds):
                start, all_ = measure(folder, 1, round_), measure(folder, options.pages, round_)
                check(folder, options.pages, round_)
                rounds.append({name: cost.without(start[name]) for name, cost in all_.items()})
        finally:
            site.kill()
    report(options.pages, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
