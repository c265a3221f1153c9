"""A second visit of unchanged pages against the first: CPU, and what the server sends.

    python -m benchmarks.revisits                    5,000 pages
    python -m benchmarks.revisits --pages 1000 --rounds 3

A site on loopback, whose pages have an ETag, is crawled by `shoal crawl --once`. Then the time of the store is moved by
an hour, and the same command runs again. The server counts requests, conditional ones, and bytes of bodies. What the
command takes for a single page, which is mostly to start, is taken off its CPU time. There are two kinds of pages:

small     15 KB, 20 links, two selectors
product   100 KB, as shops have them: 20 links, and the product from its structured data
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from benchmarks.extract import Cost, run
from shoal.testing.changing_site import later

SITE = """
import asyncio, sys, json
from aiohttp import web

pages, reviews = int(sys.argv[1]), int(sys.argv[2])
WORDS = 'a page-turner with surprises, well worth reading. ' * 6
FILLER = ''.join(f'<div class=review><p>Reader {n}: <span>{WORDS}</span></p></div>' for n in range(reviews))
DATA = '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Product", "name": "Book %d", '
DATA += '"sku": "%d", "offers": {"@type": "Offer", "price": "%d.50", "priceCurrency": "EUR"}}</script>'
seen = {"requests": 0, "conditional": 0, "unchanged": 0, "bytes": 0}

async def answer(request):
    if request.path == "/counts":
        told = dict(seen)
        seen.update(dict.fromkeys(seen, 0))
        return web.json_response(told)
    number = int(request.path.strip("/") or 0)
    tag = f'"{number}"'
    asked = request.headers.get("If-None-Match")
    seen["requests"] += 1
    seen["conditional"] += asked is not None
    if asked == tag:
        seen["unchanged"] += 1
        return web.Response(status=304, headers={"ETag": tag})
    links = "".join(f'<li><a href="/{(number * 7 + n) % pages}">Book {n}</a></li>' for n in range(20))
    text = f"<html><title>Book {number}</title><h1>Book {number}</h1><b class=price>{number}.50</b><ul>{links}</ul>"
    text += DATA % (number, number, number) + FILLER
    seen["bytes"] += len(text)
    return web.Response(text=text, content_type="text/html", headers={"ETag": tag})

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

spider = Spider(
    "books", start="http://127.0.0.1:{port}/0", rate=0, per_host=32, robots=False, revisit="1h", depth={depth}
)

@spider.handler(key="name")
def book(page):
    {rows}
    yield from page.follow_all("li a", book)
"""
KINDS = {
    "small": (40, 'yield {"name": page.text("h1"), "price": page.text(".price"), "url": page.url}'),
    "product": (260, 'yield from page.data("product")'),
}


def visits(port: int, folder: Path, rows: str, depth: str) -> list[tuple[Cost, dict[str, int]]]:
    """Two runs of the same command, an hour apart."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "books.py").write_text(SPIDER.format(port=port, depth=depth, rows=rows))
    found = []
    for _ in range(2):
        cost = run(folder, "crawl", "books.py", "--store", "store.db", "-o", "rows.jsonl", "--once")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts") as answer:
            found.append((cost, json.load(answer)))
        later(folder / "store.db", hours=1.1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    for kind, (reviews, rows) in KINDS.items():
        words = [sys.executable, "-c", SITE, str(asked.pages), str(reviews)]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as site,
            tempfile.TemporaryDirectory() as folder,
        ):
            try:
                assert site.stdout is not None
                print(f"{kind} pages")
                compare(int(site.stdout.readline()), Path(folder), rows, asked.pages, asked.rounds)
            finally:
                site.kill()


def compare(port: int, folder: Path, rows: str, pages: int, rounds: int) -> None:
    print(
        f"{'visit':<8} {'requests':>9} {'conditional':>12} {'304':>7} {'body bytes':>12} {'CPU ms a page':>14}"
    )
    for number in range(rounds):
        start = visits(port, folder / "one", rows, "0")
        whole = visits(port, folder / "all", rows, "None")
        costs = []
        for name, (cost, counts), (empty, _) in zip(("first", "second"), whole, start, strict=True):
            net = cost.without(empty).cpu / pages * 1000
            costs.append(net)
            print(
                f"{name:<8} {counts['requests']:>9,} {counts['conditional']:>12,} {counts['unchanged']:>7,}"
                f" {counts['bytes']:>12,} {net:>14.3f}"
            )
        print(f"round {number + 1}: the second visit takes {costs[1] / costs[0]:.2f} of the CPU of the first")


if __name__ == "__main__":
    main()
