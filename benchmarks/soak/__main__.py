"""A long crawl of honest and hostile hosts, killed again and again: memory, descriptors, tasks, store, and the count.

    python -m benchmarks.soak                            200,000 honest pages, about a quarter of an hour
    python -m benchmarks.soak --pages 2000 --kills 2     a look at it

The honest hosts are crawled twice at the same rate: a part of them alone, then all of them beside hostile ones, which
are 30 % of the hosts. In the first half of the second crawl the process is killed (kill -9) at random moments, and the
same command is run again. The second half goes without kills: its samples tell what grows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.soak.crawl import Crawl
from benchmarks.soak.report import markdown, plot
from benchmarks.soak.verdict import judge, throughput
from benchmarks.soak.world import World


def main() -> int:
    arguments = _arguments()
    world = World.of(arguments)
    # Below the current directory: /tmp may be memory, where nothing costs a sync.
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        print(f"alone: {world.alone} pages a host on {len(world.honest)} honest hosts", flush=True)
        with world.peace() as web:
            Crawl(Path(folder) / "alone", web, world, arguments).run(kills=0)
            alone = throughput(web, world, 0.05, 0.95)
        print(f"beside {len(world.hostile)} hostile hosts: {world.pages} pages a host", flush=True)
        with world.war() as web:
            crawl = Crawl(Path(folder) / "soak", web, world, arguments)
            soaked = crawl.run(kills=arguments.kills)
            verdict = judge(web, world, crawl, soaked, alone)
    print(markdown(soaked, verdict))
    if arguments.plot:
        arguments.plot.write_text(plot(soaked))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode((verdict, soaked))))
    return 0 if verdict.adds_up else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pages", type=int, default=200_000, help="of all honest hosts together")
    parser.add_argument("--hosts", type=int, default=70, help="that are honest")
    parser.add_argument("--hostile", type=float, default=0.3, help="share of all hosts")
    parser.add_argument("--hostile-pages", type=int, default=800, help="attacks on each hostile host")
    parser.add_argument("--attacks", nargs="*", default=[], help="by name (default: all)")
    parser.add_argument("--attack-bytes", type=int, default=8 * 1024, help="of a page that is an attack")
    parser.add_argument("--robots-bombs", type=int, default=4, help="one in so many hostile hosts; 0: none")
    parser.add_argument("--rate", type=float, default=5.0, help="requests a second and host")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between samples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="an SVG")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
