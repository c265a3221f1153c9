"""Has a page become dearer? Shoal and the bare aiohttp loop in turns; compared with a recorded ratio.

    python -m benchmarks.guard             about a minute; up to four when the machine is noisy
    python -m benchmarks.guard --record    writes the ratio of this run to benchmarks/guard.json

What is compared is CPU a page of Shoal as a multiple of the bare loop's in the same round: a slower machine changes
both. Exit code 0: it has not grown by more than 15 %. 1: it has. 2: the rounds differ too much to tell.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.peers.contenders import PEERS
from benchmarks.peers.measure import CrawlError, measure
from benchmarks.peers.race import about
from benchmarks.peers.shapes import SHAPES
from benchmarks.peers.site_process import SiteProcess

FILE = Path(__file__).with_name("guard.json")
ALLOWED = 0.15  # growth
CONFIDENCE = 0.9
FEWEST = 5  # rounds: the fewest from which the interval of the median has a confidence of 90 %
_CONCURRENCY, _PATIENCE = 100, 300.0


class Interval(Struct, frozen=True):
    """Between which two of the ratios their true median is, with a confidence of 90 %."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Interval:
        """By counting alone: each ratio is above the true median or below it, like a coin. Nothing is supposed about
        how the machine's noise is spread."""
        ordered, count = sorted(ratios), len(ratios)
        outside, dropped = 0.0, 0
        while 2 * (outside + math.comb(count, dropped) / 2**count) <= 1 - CONFIDENCE:
            outside += math.comb(count, dropped) / 2**count
            dropped += 1
        if dropped == 0:
            return cls(-math.inf, median(ordered), math.inf)
        return cls(ordered[dropped - 1], median(ordered), ordered[-dropped])

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f} to {self.high:.2f})"


class Recorded(Struct, frozen=True):
    ratio: float
    low: float
    high: float
    pages: int
    rounds: int
    about: dict[str, str]


class Verdict(Struct, frozen=True):
    kind: Literal["ok", "grown", "unclear"]
    line: str

    @property
    def code(self) -> int:
        return {"ok": 0, "grown": 1, "unclear": 2}[self.kind]


def judge(ratios: Sequence[float], recorded: float, allowed: float = ALLOWED) -> Verdict:
    """It has grown if even the low end of the interval is above what is allowed, and has not if the high end is not."""
    found, limit = Interval.of(ratios), recorded * (1 + allowed)
    against = f"recorded {recorded:.2f}, allowed {limit:.2f}"
    told = f"{found} times the bare loop's, {against}"
    growth = f"{100 * (found.middle / recorded - 1):+.0f} %"
    if found.low > limit:
        return Verdict("grown", f"FAILED: CPU a page has grown by {growth}: {told}")
    if found.high <= limit:
        better = "; it has become better, record it" if found.high < recorded * (1 - allowed) else ""
        return Verdict("ok", f"CPU a page is within its bounds ({growth}): {told}{better}")
    return Verdict("unclear", f"too noisy to tell after {len(ratios)} rounds ({growth}): {told}")


def main() -> int:
    arguments = _arguments()
    recorded = None if arguments.record else _read()
    if recorded is None and not arguments.record:
        print(
            f"nothing is recorded in {FILE.name}: run python -m benchmarks.guard --record on a quiet machine"
        )
        return 2
    pages = recorded.pages if recorded is not None else arguments.pages
    try:
        ratios = _rounds(pages, arguments.rounds, arguments.most_rounds, recorded)
    except CrawlError as error:
        print(f"FAILED: {error}")
        return 1
    if recorded is None:
        found = Interval.of(ratios)
        FILE.write_bytes(
            msgspec.json.format(
                msgspec.json.encode(
                    Recorded(found.middle, found.low, found.high, pages, len(ratios), about())
                ),
                indent=2,
            )
            + b"\n"
        )
        print(f"recorded: CPU a page is {found} times the bare loop's")
        return 0
    if recorded.about != about():
        print("note: recorded with other versions, or on another kind of machine; see benchmarks/guard.json")
    verdict = judge(ratios, recorded.ratio)
    print(verdict.line)
    return verdict.code


def _read() -> Recorded | None:
    return msgspec.json.decode(FILE.read_bytes(), type=Recorded) if FILE.exists() else None


def _rounds(pages: int, fewest: int, most: int, recorded: Recorded | None) -> list[float]:
    """As many as are asked for; more, while they do not tell."""
    ratios: list[float] = []
    with SiteProcess(replace(SHAPES["links"], pages=pages)) as site:
        while len(ratios) < fewest or (
            recorded is not None and len(ratios) < most and judge(ratios, recorded.ratio).kind == "unclear"
        ):
            # Every second round the other way round.
            order = ("aiohttp", "shoal") if len(ratios) % 2 == 0 else ("shoal", "aiohttp")
            cost = {name: measure(PEERS[name], site, _CONCURRENCY, _PATIENCE).cpu_ms for name in order}
            ratios.append(cost["shoal"] / cost["aiohttp"])
            print(
                f"round {len(ratios)}: bare {cost['aiohttp']:.3f} ms, Shoal {cost['shoal']:.3f} ms CPU a page, "
                f"{ratios[-1]:.2f} times",
                flush=True,
            )
    return ratios


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.guard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", action="store_true", help="write the ratio instead of comparing with it")
    parser.add_argument("--rounds", type=_rounds_number, default=7, help=f"{FEWEST} at least")
    parser.add_argument("--most-rounds", type=int, default=25, help="when fewer do not tell")
    parser.add_argument("--pages", type=int, default=5_000, help="with --record; else as recorded")
    return parser.parse_args()


def _rounds_number(word: str) -> int:
    if int(word) < FEWEST:
        raise argparse.ArgumentTypeError(
            f"{FEWEST} rounds at least, or nothing can be said about their noise"
        )
    return int(word)


if __name__ == "__main__":
    sys.exit(main())
