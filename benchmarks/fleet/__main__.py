"""`python -m benchmarks.fleet scale --against scrapy-redis --kill`, … `chaos --minutes 10`, … `proxies`"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.fleet import chaos, report
from benchmarks.fleet.contenders import Limits
from benchmarks.fleet.measure import Figures, Loss, Terms, kill, measure
from benchmarks.fleet.processes import FleetError
from benchmarks.fleet.verdict import show

ACTS = 7  # in a round of chaos
LIGHT = 8  # workers and more are light ones
SMALL_HOSTS, SMALL_PAGES, SMALL_LATENCY = 60, 25, 0.5  # the web that is crawled to its end


def main() -> int:
    arguments = _arguments()
    try:
        return int(arguments.run(arguments))
    except FleetError as error:
        print(f"FAILED: {error}")
        return 1


def _scale(arguments: argparse.Namespace) -> int:
    names = _names(arguments)
    hosts, crowded = arguments.hosts, arguments.crowded_hosts
    figures = {
        "scale": [_measure(name, count, hosts, arguments) for count in arguments.workers for name in names],
        "crowded": [_measure(name, arguments.some, crowded, arguments) for name in names],
    }
    losses = [_kill(name, arguments) for name in names] if arguments.kill else []
    report.show(_title(hosts, arguments), report.SCALE, figures["scale"])
    report.show(_title(crowded, arguments), report.SCALE, figures["crowded"])
    if losses:
        report.show("a worker killed half-way, and replaced", report.KILL, losses)
    _write_json(arguments, **figures, kill=losses)
    if arguments.document is not None:
        for place, rows in figures.items():
            report.fill_in(arguments.document, place, report.markdown(report.SCALE, rows))
        if losses:
            report.fill_in(arguments.document, "kill", report.markdown(report.KILL, losses))
    return 0


def _proxies(arguments: argparse.Namespace) -> int:
    names = _names(arguments)
    sizes = list(zip(arguments.workers, arguments.proxies, strict=True))
    found = [
        _measure(name, count, arguments.hosts, arguments, some) for count, some in sizes for name in names
    ]
    report.show(_title(arguments.hosts, arguments), report.PROXIED, found)
    _write_json(arguments, proxied=found)
    if arguments.document is not None:
        report.fill_in(arguments.document, "proxies", report.markdown(report.PROXIED, found))
    return 0


def _names(arguments: argparse.Namespace) -> list[str]:
    if "scrapy-redis" in arguments.against and find_spec("scrapy_redis") is None:
        raise FleetError("scrapy-redis is not installed: run pip install 'shoal[bench]'")
    return ["shoal", *arguments.against]


def _write_json(arguments: argparse.Namespace, **results: object) -> None:
    if arguments.json is not None:
        about = {
            key: value for key, value in vars(arguments).items() if isinstance(value, int | float | list)
        }
        arguments.json.write_bytes(report.as_json(about, **results))


def _title(hosts: int, a: argparse.Namespace) -> str:
    return (
        f"{hosts} hosts that answer after {a.latency:g} s and take {a.rate:g} requests a second, {a.per_host} at once; "
        f"{a.slots} slots a worker, {a.light_slots} from {LIGHT} workers on"
    )


def _measure(name: str, workers: int, hosts: int, arguments: argparse.Namespace, proxies: int = 0) -> Figures:
    slots = arguments.light_slots if workers >= LIGHT else arguments.slots
    limits = Limits(arguments.rate, arguments.per_host, slots, arguments.waiting)
    terms = Terms(limits, hosts, arguments.latency, arguments.warm_up, arguments.window, proxies=proxies)
    found = measure(name, workers, terms)
    load = (found.cpu + found.store_cpu) / found.seconds
    print(
        f"{name}, {workers} workers, {hosts} hosts: {found.pages_per_minute:,.0f} pages/min, {load:.2f} cores",
        flush=True,
    )
    return found


def _kill(name: str, arguments: argparse.Namespace) -> Loss:
    limits = Limits(arguments.rate, arguments.per_host, arguments.slots)
    terms = Terms(limits, SMALL_HOSTS, SMALL_LATENCY, 0.0, 0.0, SMALL_PAGES)
    found = kill(name, arguments.some, terms, arguments.patience)
    print(f"{name}, one of {found.workers} killed: {found.lost} lost, {found.doubled} doubled", flush=True)
    return found


def _chaos(arguments: argparse.Namespace) -> int:
    seconds = arguments.minutes * 60
    rounds = max(1, round(seconds / arguments.every / ACTS))
    terms = chaos.Terms(
        seconds=seconds,
        seed=arguments.seed,
        cluster=arguments.cluster,
        files=arguments.files,
        workers=arguments.workers,
        hosts=arguments.hosts,
        rounds=rounds,
        patience=chaos.Terms().patience + seconds,
    )
    verdict = chaos.run(terms)
    good = show(verdict, terms.rate, terms.per_host)
    if arguments.json is not None:
        arguments.json.write_bytes(report.as_json({}, terms=terms, verdict=verdict))
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    commands = parser.add_subparsers(required=True)
    scale = commands.add_parser("scale", help="pages a minute by the number of workers, and manners")
    scale.set_defaults(run=_scale)
    scale.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 20])
    scale.add_argument("--against", nargs="+", choices=["scrapy-redis"], default=[])
    scale.add_argument("--kill", action="store_true", help="also a crawl to its end, with one worker killed")
    scale.add_argument("--hosts", type=int, default=200, help="so many that they are not the limit")
    scale.add_argument("--crowded-hosts", type=int, default=40, help="so few that they are")
    scale.add_argument(
        "--some", type=int, default=4, metavar="WORKERS", help="on the crowded hosts, and to be killed"
    )
    scale.add_argument("--patience", type=float, default=300.0, help="seconds for a crawl to end")
    _add_terms(scale, slots=16, warm_up=10.0, window=30.0)
    proxied = commands.add_parser("proxies", help="the same through proxies, some of which are bad")
    proxied.set_defaults(run=_proxies)
    proxied.add_argument("--workers", type=int, nargs="+", default=[3, 10, 20])
    proxied.add_argument("--proxies", type=int, nargs="+", default=[10, 50, 100], help="for each of these")
    proxied.add_argument("--against", nargs="+", choices=["scrapy-redis"], default=[])
    proxied.add_argument("--hosts", type=int, default=300, help="so many that they are not the limit")
    _add_terms(proxied, slots=8, warm_up=20.0, window=40.0)
    soak = commands.add_parser("chaos", help="a crawl whose fleet and servers fail all the time")
    soak.set_defaults(run=_chaos)
    soak.add_argument("--minutes", type=float, default=2.0)
    soak.add_argument("--every", type=float, default=4.0, help="seconds between two acts, about")
    soak.add_argument("--seed", type=int, default=1)
    soak.add_argument("--cluster", action="store_true", help="three nodes instead of one server")
    soak.add_argument("--files", action="store_true", help="rows to files instead of PostgreSQL")
    soak.add_argument("--workers", type=int, default=4)
    soak.add_argument("--hosts", type=int, default=40)
    soak.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _add_terms(parser: argparse.ArgumentParser, *, slots: int, warm_up: float, window: float) -> None:
    parser.add_argument("--rate", type=float, default=1.0, help="requests a second and host")
    parser.add_argument("--per-host", type=int, default=2, help="requests at once and host")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds before every answer")
    parser.add_argument("--slots", type=int, default=slots, help="requests at once and worker")
    parser.add_argument("--light-slots", type=int, default=8, help=f"the same, from {LIGHT} workers on")
    parser.add_argument(
        "--waiting", type=int, default=0, metavar="PAGES", help="of Shoal besides, a slot, that only wait"
    )
    parser.add_argument("--warm-up", type=float, default=warm_up, help="seconds before the window")
    parser.add_argument("--window", type=float, default=window, help="seconds that are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument("--document", type=Path, metavar="FILE.md", help="put the tables into this document")


if __name__ == "__main__":
    sys.exit(main())
