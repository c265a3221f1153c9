"""Do plain pages wait behind pages in a browser, does the browser grow, and does its death cost anything?

    python -m benchmarks.browser                    2,000 plain pages, 200 in a browser; then 500 pages in one
    python -m benchmarks.browser --costs            CPU of a start and of a page: Chromium and its headless shell

The same plain pages are crawled alone, and in one crawl with pages whose scripts make them; by turns, so that a busy
machine is busy for both. Then one browser opens many pages, with its memory (PSS of all its processes) read on the
way. Last, Chromium is killed (kill -9) again and again while it works. Times come from the server's log.

With --costs the two browsers open the same pages by turns. CPU is that of a browser's processes and of its driver, from
/proc, so what else the machine does hardly counts; compare the two within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from msgspec import Struct

from shoal import Page, Request, Spider, crawl
from shoal.clock import SystemClock
from shoal.engine.event_loop import run_loop
from shoal.fetch.browser.chromium import BrowserProcesses
from shoal.fetch.browser.executable import find_full, find_headless_shell
from shoal.fetch.browser.transport import BrowserTransport
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.guard import Guard
from shoal.fetch.transport import FetchRequest
from shoal.settings import Settings
from shoal.spider.rendering import Rendered, Rendering
from shoal.testing import HostProfile, WebProcess

SCRIPTED = "scripted"
_SAMPLE = 0.25  # seconds
_TICK = 1 / os.sysconf("SC_CLK_TCK")


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
    """Every Chromium below this process, the oldest first: the numbers of processes start anew at some time."""
    parents: dict[int, list[int]] = {}
    programs: dict[int, str] = {}
    started: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            started[int(entry.name)] = int(fields[19])
            # Not the name of the process: a script that starts a browser has the same.
            programs[int(entry.name)] = (entry / "exe").readlink().name
        except OSError:
            continue
    found, left = [], [os.getpid()]
    while left:
        below = parents.get(left.pop(), [])
        left += below
        found += [pid for pid in below if re.search("chrom|headless", programs.get(pid, ""))]
    return sorted(found, key=started.__getitem__)


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


# -- what a page costs


class Cost(Struct, frozen=True):
    """CPU seconds, and bytes of memory with the last page open."""

    start: float  # with its first page
    page: float  # one more page beside it
    context: float  # a page of a new session: with a context of its own
    memory: float


def cpu_of(processes: BrowserProcesses) -> float:
    """Of those that run, and of those that they have waited for."""
    ticks = 0
    for pid in processes.pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks * _TICK


async def cost_of(path: Path, url: str, pages: int) -> Cost:
    settings = Settings(browser_path=str(path), browser_wait="h1")
    transport = BrowserTransport(settings, Guard(["127.0.0.0/8"]), SystemClock())

    async def spent(*jars: CookieJar | None) -> tuple[float, float]:
        """CPU so far, and memory."""
        for jar in jars:
            answer = await transport.fetch(FetchRequest(url, rendering=Rendering(), jar=jar))
            if not isinstance(answer, Rendered):
                raise RuntimeError(f"{path}: {answer}")
            browser = transport._browsers._current
            assert browser is not None
            memory = float(await browser.measure())
            await answer.close()
        assert browser is not None
        return cpu_of(browser.processes), memory

    try:
        start, _ = await spent(None)
        page, memory = await spent(*[None] * pages)
        context, _ = await spent(*(CookieJar() for _ in range(pages)))
    finally:
        await transport.close()
    return Cost(start, (page - start) / pages, (context - page) / pages, memory)


def show_costs(args: argparse.Namespace) -> None:
    full, shell = find_full(), find_headless_shell()
    if full is None or shell is None:
        raise SystemExit("two browsers are compared: apt install chromium chromium-headless-shell")
    costs: dict[Path, list[Cost]] = {full: [], shell: []}
    with web_of(args, 1) as web:
        for _ in range(args.rounds):
            for path, found in costs.items():
                found.append(run_loop(cost_of(path, web.url(SCRIPTED, "/p/0"), args.cost_pages)))
    print(f"{'':28}{'chromium':>12}{'shell':>12}{'ratio':>8}   ({full}, {shell})")
    for name, said, unit, scale in (
        ("start", "start and first page", "CPU ms", 1e3),
        ("page", "a page", "CPU ms", 1e3),
        ("context", "a page of a new session", "CPU ms", 1e3),
        ("memory", "memory, one page open", "MB", 1e-6),
    ):
        one, other = (median(getattr(cost, name) for cost in found) * scale for found in costs.values())
        print(f"{said + ', ' + unit:32}{one:8.0f}{other:12.0f}{one / other:8.1f}")


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
    parser.add_argument("--costs", action="store_true", help="only what a page costs, in two browsers")
    parser.add_argument("--cost-pages", type=int, default=20)
    args = parser.parse_args()
    if args.costs:
        show_costs(args)
        return
    show_mixed(args)
    if args.memory_pages:
        show_growth(args)
    if args.kills:
        kills, rows = deaths(args)
        print(f"Chromium killed {kills} times: {rows} rows for {args.kill_pages} pages")


if __name__ == "__main__":
    main()
