"""`python -m benchmarks.peers --rounds 3 --write`"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks.fleet.report import fill_in
from benchmarks.peers.contenders import PEERS, Contender
from benchmarks.peers.plot import svg
from benchmarks.peers.race import Terms, race
from benchmarks.peers.report import conditions, markdown, ratio_table, shape_table, show
from benchmarks.peers.results import Results
from benchmarks.peers.shapes import SHAPES, Shape

DOCS = Path(__file__).parents[2] / "docs"


def main() -> int:
    arguments = _arguments()
    if arguments.redraw is not None:
        results = msgspec.json.decode(arguments.redraw.read_bytes(), type=Results)
    else:
        contenders = {name: PEERS[name] for name in PEERS if name in arguments.only}
        if missing := missing_packages(contenders.values()):
            print(
                f"not installed: {', '.join(missing)}: run pip install 'shoal[bench]', or choose others with --only"
            )
            return 2
        shapes = [
            resized(shape, arguments.pages) for shape in SHAPES.values() if shape.name in arguments.shapes
        ]
        results = race(Terms(shapes, contenders, arguments.rounds, arguments.concurrency, arguments.minutes))
    show(results)
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.encode(results))
    if arguments.write:
        write(results, DOCS)
    return 1 if results.failures else 0


def missing_packages(contenders: Iterable[Contender]) -> list[str]:
    needed = {package for contender in contenders for package in contender.packages}
    return sorted(package for package in needed if find_spec(package) is None)


def resized(shape: Shape, pages: int | None) -> Shape:
    """With so many pages in `links`, and in the other shapes in proportion; every host has one at least."""
    if pages is None:
        return shape
    return replace(shape, pages=max(shape.hosts, shape.pages * pages // SHAPES["links"].pages))


def write(results: Results, docs: Path) -> None:
    document = docs / "peers.md"
    for shape in results.shapes:
        fill_in(document, shape.name, markdown(shape_table(results, shape.name)))
        (docs / "img" / f"peers-{shape.name}.svg").write_text(svg(results, shape), "utf-8")
    fill_in(document, "ratios", markdown(ratio_table(results)))
    fill_in(document, "ratios of one page more", markdown(ratio_table(results, startup=False)))
    fill_in(document, "conditions", conditions(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="What does a page cost?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="CRAWLER")
    parser.add_argument("--pages", type=int, help="of `links`; the other shapes in proportion")
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=40, help="a round that would end later is not begun")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers here")
    parser.add_argument("--redraw", type=Path, metavar="FILE", help="measure nothing: show what --json wrote")
    parser.add_argument("--write", action="store_true", help="put tables and plots into docs/")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
