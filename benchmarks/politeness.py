"""Are many hosts crawled as politely as configured, and does one with a huge queue hold up the others?

    python -m benchmarks.politeness                    100 hosts, 100,000 URLs queued on one of them

The same hosts, a fifth of them slow, are crawled twice on a durable store: alone, and together with one host on which
very many URLs are queued first. Gaps and concurrency come from the server's own log, robots.txt included. A gap is
the time between two arrivals, so it is shorter than the interval by as much as the earlier request took longer to get
there.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from msgspec import Struct

from shoal import Page, Request, Spider, crawl
from shoal.engine.event_loop import run_loop
from shoal.testing import Hit, HostProfile, WebProcess

BIG = "big"


class Figures(Struct, frozen=True):
    seconds: float  # from the first hit on a small host to the last
    hits: int
    gaps: list[float]  # between hits on the same host, shortest first
    peak: int  # requests under way at once on one host
    big_hits: int


def figures(hits: list[Hit]) -> Figures:
    by_host: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: hit.started):
        by_host.setdefault(hit.host, []).append(hit)
    small = [hit.started for hit in hits if hit.host != BIG]
    gaps = [b.started - a.started for one in by_host.values() for a, b in pairwise(one)]
    return Figures(
        max(small) - min(small),
        len(hits),
        sorted(gaps),
        max(hit.concurrent for hit in hits),
        len(by_host.get(BIG, ())),
    )


def spider_for(web: WebProcess, queued: int, finished: asyncio.Event, args: argparse.Namespace) -> Spider:
    """Ends (`finished`) when every page of the small hosts was handled."""
    small = [name for name in web.spec.hosts if name != BIG]
    missing = {url for name in small for url in web.pages_of(name)}

    def start() -> Iterator[str]:
        yield from (web.url(BIG, f"/p/{number}") for number in range(queued))
        yield from (web.url(name) for name in small)

    limits = {"rate": args.rate, "per_host": args.per_host, "concurrency": args.concurrency}
    spider = Spider("politeness", start, trust_start=True, high_water=10 * args.queued, **limits)

    @spider.handler
    def page(page: Page) -> Iterator[Request]:
        missing.discard(page.url)
        if not missing:
            finished.set()
        if not page.url.startswith(web.url(BIG, "/")):
            yield from page.follow_all("a")

    return spider


async def crawl_small_hosts(web: WebProcess, queued: int, folder: Path, args: argparse.Namespace) -> None:
    finished = asyncio.Event()
    store = folder / f"store-{queued}.db"
    crawling = asyncio.create_task(crawl(spider_for(web, queued, finished, args), store=store))
    ending = asyncio.create_task(finished.wait())
    await asyncio.wait((crawling, ending), return_when=asyncio.FIRST_COMPLETED)
    crawling.cancel()
    ending.cancel()
    for problem in await asyncio.gather(crawling, ending, return_exceptions=True):
        if isinstance(problem, Exception):
            raise problem
    if not finished.is_set():
        raise RuntimeError("the crawl ended before it had every page of the small hosts")


def measure(queued: int, args: argparse.Namespace) -> Figures:
    fast = HostProfile("fast", pages=args.pages, links=8)
    slow = HostProfile("slow", pages=args.pages, links=8, latency=1.5 / args.rate)  # needs two at once
    hosts = {f"host-{number}": fast if number % 5 else slow for number in range(args.hosts - 1)}
    hosts[BIG] = HostProfile("fast", pages=max(queued, 1), links=8)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, WebProcess(hosts) as web:
        run_loop(crawl_small_hosts(web, queued, Path(folder), args))
        return figures(web.hits())


def show(title: str, found: Figures, interval: float) -> None:
    gaps = found.gaps
    short = sum(gap < interval * 0.95 for gap in gaps)
    print(
        f"{title}: {found.seconds:.2f} s, {found.hits:,} hits ({found.big_hits:,} on the big host), "
        f"at most {found.peak} at once on a host\n"
        f"  gaps in ms: min {gaps[0] * 1e3:.1f}, 1 % {quantiles(gaps, n=100)[0] * 1e3:.1f}, "
        f"median {median(gaps) * 1e3:.1f} "
        f"(interval {interval * 1e3:.0f}); {short} of {len(gaps):,} are more than 5 % short",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--pages", type=int, default=40, help="on each of the small hosts")
    parser.add_argument("--queued", type=int, default=100_000, help="URLs queued on the big host")
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--per-host", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=64)
    args = parser.parse_args()
    alone, together = measure(0, args), measure(args.queued, args)
    show(f"{args.hosts - 1} hosts alone", alone, 1 / args.rate)
    show(f"and one with {args.queued:,} URLs", together, 1 / args.rate)
    print(f"the big host made the others {together.seconds / alone.seconds - 1:+.1%} slower")


if __name__ == "__main__":
    main()
