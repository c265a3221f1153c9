"""Does revisit="auto" keep more pages current than a fixed interval, with the same number of requests?

    python -m benchmarks.freshness                     800 hosts, 20,000 pages, 30 days, two mixes of rates
    python -m benchmarks.freshness --budgets 1,2,4,8 --hosts 100 --pages 2500
    python -m benchmarks.freshness --attacks           pages that change in ways that nobody planned for

In virtual time. Pages change by Poisson processes whose rates span four orders of magnitude. The ways to follow them:
a fixed interval for all; auto, which knows nothing at first; the optimum, computed from the true rates with the same
budget for every host; and, for comparison, the optimum with one budget for all hosts together, and the estimator and
allocation of Cho and Garcia-Molina. A copy is current until its page changes. The *gain* is how much more of the
time copies are current than with a fixed interval, as a share of what the optimum gains.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from benchmarks.freshness.attacks import attacks
from benchmarks.freshness.optimum import DAY, frequencies, freshness
from benchmarks.freshness.report import Total, svg, table
from benchmarks.freshness.simulation import Auto, Cho, Fixed, Followed, Way, follow
from benchmarks.freshness.worlds import MIXES, poisson, sizes

WAYS = ("fixed", "auto", "optimum", "Cho")


class Setup(Struct, frozen=True):
    mix: str
    seed: int
    budget: float  # visits a day and page
    hosts: int
    pages: int
    days: int


def rates_of(setup: Setup) -> list[list[float]]:
    rng = random.Random(f"{setup.mix} {setup.seed}")
    mix = MIXES[setup.mix]
    return [[mix(rng) for _ in range(size)] for size in sizes(rng, setup.hosts, setup.pages)]


def follow_host(job: tuple[Setup, int, list[float]]) -> dict[str, Followed]:
    setup, number, rates = job
    budget = setup.budget * len(rates)
    ways: dict[str, Way] = {
        "fixed": Fixed([budget / DAY / len(rates)] * len(rates)),
        "auto": Auto(len(rates), budget, random.Random(f"{setup.seed} {number} auto")),
        "optimum": Fixed(frequencies(rates, budget)),
        "Cho": Cho(len(rates), budget),
    }
    found = {}
    for name, way in ways.items():
        rng = random.Random(f"{setup.seed} {number} changes")
        found[name] = follow([poisson(rate, rng) for rate in rates], way, setup.days)
    return found


def run(setup: Setup, processes: int) -> dict[str, Total]:
    hosts = rates_of(setup)
    # The longest first, so that both processes end together.
    order = sorted(range(len(hosts)), key=lambda number: -len(hosts[number]))
    totals = {name: Total(setup.days) for name in WAYS}
    with get_context("fork").Pool(processes) as pool:
        jobs = [(setup, number, hosts[number]) for number in order]
        for (_, _, rates), found in zip(jobs, pool.imap(follow_host, jobs), strict=True):
            for name, one in found.items():
                totals[name].add(one, setup.budget * len(rates))
    everyone = [rate for rates in hosts for rate in rates]
    best = frequencies(everyone, setup.budget * len(everyone))
    shares = [freshness(rate, visits) for rate, visits in zip(everyone, best, strict=True)]
    totals["optimum, one budget for all hosts"] = Total(setup.days, known=sum(shares) / len(shares))
    return totals


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.freshness", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--hosts", type=int, default=800)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--budgets", default="4", help="visits a day and page, with commas between them")
    parser.add_argument("--seeds", type=int, default=1, help="how many worlds of each mix")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="an SVG file: freshness day by day")
    parser.add_argument("--attacks", action="store_true")
    args = parser.parse_args(given)
    if args.attacks:
        print(attacks())
        return
    first = {}
    for mix in MIXES:
        for budget in map(float, args.budgets.split(",")):
            for seed in range(1, args.seeds + 1):
                setup = Setup(mix, seed, budget, args.hosts, args.pages, args.days)
                totals = run(setup, args.processes)
                first.setdefault(mix, totals)
                print(f"\n{mix}, {budget:g} visits a day and page, seed {seed}\n", flush=True)
                print(table(totals), flush=True)
    if args.plot:
        args.plot.write_text(svg(first))


if __name__ == "__main__":
    main()
