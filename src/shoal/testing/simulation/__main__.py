"""Plays worlds: `python -m shoal.testing.simulation --seed 123 -v` one, `--search 1000` many. Names those that fail."""

from __future__ import annotations

import argparse
import sys

from shoal.testing.simulation.world import run, say


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the world, or the first one to search")
    parser.add_argument(
        "--search", type=int, default=1, metavar="N", help="how many worlds, one seed after another"
    )
    parser.add_argument(
        "--set-backs",
        action="store_true",
        help="a fleet, and a store that forgets its last second now and then",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what happens, line by line")
    arguments = parser.parse_args()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.search):
        trace = run(seed, verbose=arguments.verbose, set_backs=arguments.set_backs)
        if arguments.search == 1 or not trace.ok:
            say(str(trace))
        if not trace.ok:
            failed += 1
            also = " --set-backs" if arguments.set_backs else ""
            say(f"  again: python -m shoal.testing.simulation --seed {seed}{also} -v")
    if arguments.search > 1:
        say(f"{arguments.search} worlds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
