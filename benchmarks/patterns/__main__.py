"""`python -m benchmarks.patterns --scale 10 --hosts 800`"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.patterns import plot, report
from benchmarks.patterns.contenders import NAMES
from benchmarks.patterns.figures import Figures, figures
from benchmarks.patterns.measure import OPEN_FILES, ContenderError, race
from benchmarks.patterns.terms import Terms
from benchmarks.patterns.world import ORDERS, PAGES, Order, make_web

QUICK = {"hosts": 80, "pages": 10, "scale": 20.0, "deadline": 200.0}


def main() -> int:
    arguments = _arguments()
    if "scrapy" in arguments.only and find_spec("scrapy") is None:
        print("scrapy is not installed: run pip install 'shoal[bench]', or choose others with --only")
        return 2
    terms = Terms(arguments.scale, shoal_rate=arguments.shoal_rate, shoal_per_host=arguments.shoal_per_host)
    races = report.read(arguments.resume) if arguments.resume is not None else {}
    for order in arguments.order:
        _race_all(arguments, terms, order, races)
    races = {order: report.in_turn(races[order], NAMES) for order in arguments.order}
    for order, results in races.items():
        print(f"\nURLs {order}:")
        report.show(results)
    if arguments.plot is not None:
        for order, results in races.items():
            path = arguments.plot.with_stem(f"{arguments.plot.stem}-{order}")
            path.write_text(plot.svg(results), "utf-8")
    if arguments.document is not None:
        report.fill_in(arguments.document, races)
    return 0 if all(results.keys() >= set(arguments.only) for results in races.values()) else 1


def _race_all(
    arguments: argparse.Namespace, terms: Terms, order: Order, races: dict[str, dict[str, Figures]]
) -> None:
    """Adds to `races`. One after the other: side by side they would take each other's processor. One that fails does
    not spoil what took the others many minutes."""
    hosts = make_web(arguments.hosts, arguments.pages, arguments.scale, arguments.seed)
    results = races.setdefault(order, {})
    for name in [name for name in arguments.only if name not in results]:
        deadline = terms.seconds(arguments.deadline)
        try:
            seen = race(name, hosts, terms, order, arguments.seed, deadline, arguments.files)
        except ContenderError as error:
            print(error, flush=True)
            continue
        one = results[name] = figures(seen, arguments.scale)
        print(f"{name}: {one.share:.1%} obtained, {one.end:,.0f} s, {one.cpu_load:.0%} of a core", flush=True)
        if arguments.json is not None:
            about = {name: getattr(arguments, name) for name in ("hosts", "pages", "scale", "seed")}
            arguments.json.write_bytes(report.as_json(races, about))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.patterns", description="Seven ways to fetch from 800 difficult hosts."
    )
    parser.add_argument("--hosts", type=int, default=800)
    parser.add_argument("--pages", type=int, default=PAGES, help="on each host")
    parser.add_argument("--scale", type=float, default=5.0, help="how much faster than in life time runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--deadline", type=float, default=3600.0, help="unscaled seconds after which a contender is stopped"
    )
    parser.add_argument("--files", type=int, default=OPEN_FILES, help="that a contender may have open")
    parser.add_argument("--quick", action="store_true", help="a small web, in a minute")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--shoal-rate", type=float, default=2.0, help="requests a second and host, unscaled")
    parser.add_argument("--shoal-per-host", default="auto", help="requests at once per host")
    parser.add_argument(
        "--order",
        nargs="+",
        choices=ORDERS,
        default=list(ORDERS),
        help="of the list of URLs; one race for each",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all figures here, after every contender"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="what such a file has is not measured again"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw pages over time")
    parser.add_argument("--document", type=Path, metavar="FILE.md", help="put the table into this document")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
