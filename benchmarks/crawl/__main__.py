"""`python -m benchmarks.crawl --pages 2000 --rounds 3`"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.crawl.contenders import CONTENDERS
from benchmarks.crawl.measure import CrawlError, Run, measure
from benchmarks.crawl.report import as_json, show, summarise
from shoal.testing import HostProfile, WebProcess

Runs = dict[str, list[Run]]


def main() -> int:
    arguments = _arguments()
    if "scrapy" in arguments.only and find_spec("scrapy") is None:
        print("scrapy is not installed: run pip install 'shoal[bench]', or choose others with --only")
        return 2
    try:
        runs, startups = _race(arguments)
    except CrawlError as error:
        print(error)
        return 1
    summaries = summarise(runs, startups)
    show(summaries)
    if arguments.json is not None:
        arguments.json.write_bytes(as_json(summaries))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crawl", description="What does a page cost?")
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--links", type=int, default=33, help="on each page")
    parser.add_argument("--body-bytes", type=int, default=15_000, help="of each page")
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers here too")
    return parser.parse_args()


def _race(arguments: argparse.Namespace) -> tuple[Runs, Runs]:
    """All crawlers in every round, in turns, so that whatever else the machine does falls on all alike."""
    site = HostProfile(pages=arguments.pages, links=arguments.links, body_bytes=arguments.body_bytes)
    runs: Runs = {name: [] for name in arguments.only}
    startups: Runs = {name: [] for name in arguments.only}
    with WebProcess({"site": site, "one-page": HostProfile(pages=1)}) as web:
        for number in range(arguments.rounds):
            for name in arguments.only:
                for host, results in (("one-page", startups), ("site", runs)):
                    command = CONTENDERS[name](web.url(host), arguments.concurrency)
                    results[name].append(measure(name, command, web.pages_of(host)))
                latest = runs[name][-1]
                cost = latest.cpu / latest.pages * 1e3
                print(f"round {number + 1} {name}: {cost:.3f} ms CPU a page, {latest.wall:.2f} s", flush=True)
    return runs, startups


if __name__ == "__main__":
    sys.exit(main())
