"""`python -m benchmarks.crawl --pages 2000 --rounds 3`; … `--only parsing parsing-2 --body-bytes 300000`"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from benchmarks.crawl.speed_up import speed_up
from benchmarks.peers.contenders import OWN
from benchmarks.peers.race import Terms, race
from benchmarks.peers.report import show
from benchmarks.peers.shapes import Shape


def main() -> int:
    arguments = _arguments()
    shape = Shape(
        "site",
        f"{arguments.body_bytes:,} bytes, {arguments.links} links a page, one host",
        arguments.pages,
        links=arguments.links,
        body_bytes=arguments.body_bytes,
    )
    contenders = {name: OWN[name] for name in arguments.only}
    results = race(Terms([shape], contenders, arguments.rounds, arguments.concurrency))
    show(results)
    runs = results.runs[shape.name]
    if runs.get("parsing") and runs.get("parsing-2"):
        print(speed_up(runs["parsing"], runs["parsing-2"], os.cpu_count() or 1))
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.encode(results))
    return 1 if results.failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crawl", description="What does a page cost?")
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--links", type=int, default=33, help="on each page")
    parser.add_argument("--body-bytes", type=int, default=15_000, help="of each page")
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(OWN), default=list(OWN)[:4])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers here too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
