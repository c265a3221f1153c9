"""Do plain pages wait behind pages in a browser, does the browser grow, and does its death cost anything?

    python -m benchmarks.browser                    2,000 plain pages, 200 in a browser; then 500 pages in one

The same plain pages are crawled alone, and in one crawl with pages whose scripts make them; by turns, so that a busy
machine is busy for both. Then one browser opens many pages, with its memory (PSS of all its processes) read on the
way. Last, Chromium is killed (kill -9) again and again while it works. Times come from the server's log.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from msgspec import Struct

from shoal import Page, Request, Spider, crawl
from shoal.engine.event_loop import run_loop
from shoal.testing import HostProfile, WebProcess

SCRIPTED = "scripted"
_SAMPLE = 0.25  # seconds


class Mixed(Struct, frozen=True):
    seconds: float  # from the first plain page to the last
    rendered: int  # rows from the browser lane
    total: float  # the whole crawl


# -- the crawl


def spider_of(web: WebProcess, plain: bool, scripted: int, args: argparse.Namespace) -> Spider:
    hosts = [name for name in web.spec.hosts if name != SCRIPTED]

    def start() -> Iterator[Request]:
        for number in range(scripted):
            yield Request(web.url(SCRIPTED, f"/p/{number}"), "rendered", lane="browser")
        if plain:
            for number in range(args.plain // len(hosts)):
                yield from (Request(web.url(name, f"/p/{number}"), "plain") for name in hosts)

    spider = Spider(
        "browser", start, trust_start=True, rate=args.rate, per_host=args.tabs, browser_tabs=args.tabs
    )

    @spider.handler(name="plain", key="url")
    def plain_page(page: Page) -> Iterator[dict[str, object]]:
        yield {"url": page.url, "title": page.text("h1"), "rendered": False}

    @spider.handler(name="rendered", key="url", lane="browser", wait_for="h1")
    def rendered_page(page: Page) -> Iterator[dict[str, object]]:
        yield {"url": page.url, "title": page.text("h1"), "rendered": True}

    return spider


def web_of(args: argparse.Namespace, scripted: int) -> WebProcess:
    hosts = {f"plain-{n}": HostProfile("fast", pages=args.plain // args.hosts) for n in range(args.hosts)}
    return WebProcess({**hosts, SCRIPTED: HostProfile("scripted", pages=max(1, scripted), shells=1.0)})


def measure(scripted: int, args: argparse.Namespace) -> Mixed:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, web_of(args, scripted) as web:
        began = time.monotonic()
        results = run_loop(crawl(spider_of(web, True, scripted, args), store=Path(folder) / "store.db"))
        total = time.monotonic() - began
        plain = [hit for hit in web.hits() if hit.host != SCRIPTED]
    titled = [row for row in results if row["title"]]
    if len(titled) != args.plain + scripted:
        raise RuntimeError(f"{len(titled)} of {args.plain + scripted} pages came with their title")
    seconds = max(hit.ended for hit in plain) - min(hit.started for hit in plain)
    return Mixed(seconds, sum(row["rendered"] for row in results), total)


# -- the browser's processes


def browser_pids() -> list[int]:
    """Every Chromium below this process."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
        parents.setdefault(int(rest[1]), []).append(int(entry.name))
        names[int(entry.name)] = name
    found, left = [], [os.getpid()]
    while left:
        below = parents.get(left.pop(), [])
        left += below
        found += [pid for pid in below if "chrom" in names[pid]]
    return sorted(found)


def memory() -> int:
    """PSS of all of them, in bytes: what would be free without them."""
    total = 0
    for pid in browser_pids():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


# -- memory, and deaths


async def _sampled(
    spider: Spider, folder: Path, seen: list[int], args: argparse.Namespace
) -> list[tuple[int, int]]:
    """(pages so far, memory) while the crawl runs."""
    samples: list[tuple[int, int]] = []
    crawling = asyncio.create_task(crawl(spider, store=folder / "store.db", browser_pages=args.recycle))
    while not crawling.done():
        await asyncio.sleep(_SAMPLE)
        if used := await asyncio.to_thread(memory):
            samples.append((len(seen), used))
    results = await crawling
    if len(results) != args.memory_pages:
        raise RuntimeError(f"{len(results)} of {args.memory_pages} pages")
    return samples


def growth(args: argparse.Namespace) -> list[tuple[int, int]]:
    seen: list[int] = []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, web_of(args, args.memory_pages) as web:
        start = [Request(web.url(SCRIPTED, f"/p/{n}"), lane="browser") for n in range(args.memory_pages)]
        spider = Spider("memory", start, rate=0, per_host=args.tabs, browser_tabs=args.tabs)

        @spider.handler(lane="browser", wait_for="h1")
        def rendered(page: Page) -> Iterator[dict[str, str]]:
            seen.append(1)
            yield {"title": page.text("h1")}

        return run_loop(_sampled(spider, Path(folder), seen, args))


async def _killed(spider: Spider, folder: Path, seen: list[int], kills: int, pages: int) -> tuple[int, int]:
    crawling = asyncio.create_task(crawl(spider, store=folder / "store.db"))
    done = 0
    while not crawling.done() and done < kills:
        await asyncio.sleep(0.05)
        if len(seen) >= (done + 1) * pages // (kills + 1) and (pids := browser_pids()):
            os.kill(pids[0], signal.SIGKILL)  # the oldest: the browser itself
            done += 1
    results = await crawling
    return done, len({row["url"] for row in results})


def deaths(args: argparse.Namespace) -> tuple[int, int]:
    """(kills, rows)"""
    seen: list[int] = []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, web_of(args, args.kill_pages) as web:
        start = [Request(web.url(SCRIPTED, f"/p/{n}"), lane="browser") for n in range(args.kill_pages)]
        spider = Spider("deaths", start, rate=0, per_host=args.tabs, browser_tabs=args.tabs, retry_base=0.1)

        @spider.handler(lane="browser", wait_for="h1", key="url")
        def rendered(page: Page) -> Iterator[dict[str, str]]:
            seen.append(1)
            yield {"url": page.url, "title": page.text("h1")}

        return run_loop(_killed(spider, Path(folder), seen, args.kills, args.kill_pages))


# -- the report


def show_mixed(args: argparse.Namespace) -> None:
    alone, mixed = [], []
    for number in range(args.rounds):
        alone.append(measure(0, args))
        mixed.append(measure(args.scripted, args))
        print(
            f"round {number + 1}: {args.plain:,} plain pages alone {alone[-1].seconds:.2f} s, beside "
            f"{args.scripted} in a browser {mixed[-1].seconds:.2f} s (all through after {mixed[-1].total:.1f} s)",
            flush=True,
        )
    ratio = median(one.seconds for one in mixed) / median(one.seconds for one in alone)
    print(f"plain pages beside the browser: {ratio - 1:+.1%} time", flush=True)


def show_growth(args: argparse.Namespace) -> None:
    samples = growth(args)
    print(f"\nmemory of the browser over {args.memory_pages} pages (replaced after {args.recycle}):")
    step = max(1, args.memory_pages // 10)
    for low in range(0, args.memory_pages, step):
        part = [used for pages, used in samples if low <= pages < low + step]
        if part:
            print(
                f"  {low:>4}-{low + step:<4} median {median(part) / 1e6:6.0f} MB, most {max(part) / 1e6:6.0f} MB"
            )
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plain", type=int, default=2_000)
    parser.add_argument("--scripted", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=10, help="of the plain pages")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second and host")
    parser.add_argument("--tabs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--memory-pages", type=int, default=500)
    parser.add_argument("--recycle", type=int, default=200)
    parser.add_argument("--kill-pages", type=int, default=100)
    parser.add_argument("--kills", type=int, default=3)
    args = parser.parse_args()
    show_mixed(args)
    if args.memory_pages:
        show_growth(args)
    if args.kills:
        kills, rows = deaths(args)
        print(f"Chromium killed {kills} times: {rows} rows for {args.kill_pages} pages")


if __name__ == "__main__":
    main()
