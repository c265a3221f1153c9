"""How much quicker two processes are than one; and how much they can be, by the CPU that all of it takes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from benchmarks.peers.measure import Run

QUIET = 0.1  # cores that others may keep busy: beside more of them, two processes get more of the machine than one


class SpeedUp(Struct, frozen=True):
    """Medians of the rounds, each compared in itself."""

    measured: float | None  # in the quiet rounds, if there are any
    quiet: int  # rounds
    most: float  # with nobody else on the machine, if one process keeps one core busy

    def __str__(self) -> str:
        measured = "No round was quiet enough to say how much quicker two processes are than one"
        if self.measured is not None:
            measured = (
                f"Two processes fetch {self.measured:.2f} times the pages of one ({self.quiet} quiet rounds)"
            )
        return f"{measured}; by the CPU of a page, server included, it can be {self.most:.2f} times on these cores."


def speed_up(one: Sequence[Run], two: Sequence[Run], cores: int) -> SpeedUp:
    rounds = list(zip(one, two, strict=False))
    found = [single.wall / double.wall for single, double in rounds if _quiet(single) and _quiet(double)]
    most = median(single.cpu / _least_wall(double, cores) for single, double in rounds)
    return SpeedUp(median(found) if found else None, len(found), most)


def _quiet(run: Run) -> bool:
    return run.others is None or run.others <= QUIET


def _least_wall(run: Run, cores: int) -> float:
    """Seconds that two processes need with the server next to them."""
    return max(run.cpu / 2, (run.cpu + run.asked.cpu) / cores)
