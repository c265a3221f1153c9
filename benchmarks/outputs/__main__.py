"""Every output of a crawl, killed again and again: each row once, none missing, as it was published.

    python -m benchmarks.outputs --format csv --mode one --pages 5000 --kills 10 --seed 7
    python -m benchmarks.outputs --all     every format, one process and two; a fleet of three where it can share them

Processes are killed with kill -9 while they start, work and end; the same command is started again until it ends by
itself. The outputs are then read by csv, json, xml.etree, gzip, pyarrow, sqlite3, duckdb and asyncpg, not by Shoal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.outputs.cases import CASES, FLEET, Case
from benchmarks.outputs.killing import Killing
from benchmarks.outputs.site import Site
from benchmarks.shop import Command
from shoal.testing.servers import ValkeyServer

MODES = ("one", "two", "fleet")


def run(case: Case, mode: str, folder: Path, pages: int, kills: int, seed: int) -> tuple[list[str], int, int]:
    """Faults, rows, and how often something was killed."""
    started: list[Command] = []
    with Site(pages) as site, case.servers(folder) as places:

        def start(*argv: str) -> Command:
            started.append(Command(folder, site.url, argv))
            return started[-1]

        killing = Killing(site, start, places.outputs, kills, seed)
        try:
            if mode == "fleet":
                with ValkeyServer(folder / "valkey", appendonly=True, fsync="always") as valkey:
                    killing.fleet(valkey.url, *case.options)
            else:
                killing.crawl(2 if mode == "two" else 1, *case.options)
        finally:
            for command in started:
                if command.running:
                    command.kill()
        faults, rows = case.judge(places, site)
        if "Traceback" in (folder / "commands.log").read_text():
            faults.append("a traceback in the log")
        return faults, rows, killing.killed


def main() -> int:
    options = _options()
    given = {" ".join(options.output): Case(*options.output)} if options.output else {}
    cases = {**CASES, **given}
    names = given or options.format
    wanted = [
        (name, mode)
        for name in names or CASES
        for mode in options.mode or MODES
        if mode != "fleet" or name in FLEET or names
    ]
    print(f"{'format':12} {'mode':6} {'kills':>5} {'rows':>6} {'seconds':>7}  verdict")
    good = True
    for name, mode in wanted:
        # Below the current directory: /tmp may be memory, where nothing costs a sync.
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
            began = time.monotonic()
            faults, rows, killed = run(
                cases[name], mode, Path(folder).resolve(), options.pages, options.kills, options.seed
            )
            verdict = "; ".join(faults) or "all right"
            if faults:
                verdict += f"\n{(Path(folder) / 'commands.log').read_text()[-3000:]}"
        seconds = time.monotonic() - began
        print(f"{name:12} {mode:6} {killed:5} {rows:6} {seconds:7.1f}  {verdict}", flush=True)
        good = good and not faults
    return 0 if good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.outputs", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--format", choices=CASES, action="append", help="may be repeated; all without it")
    parser.add_argument("-o", "--output", action="append", help="outputs of your own, as for shoal crawl")
    parser.add_argument("--mode", choices=MODES, action="append", help="may be repeated; all without it")
    parser.add_argument("--all", action="store_true", help="every format and mode, which is the default")
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
