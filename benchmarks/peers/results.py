"""All that was measured, as it is written to a file; and what follows from it: medians and ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from msgspec import Struct

from benchmarks.peers.measure import Run
from benchmarks.peers.shapes import Shape


class Failure(Struct, frozen=True):
    shape: str
    contender: str
    reason: str


class Results(Struct):
    about: dict[str, str]
    concurrency: int
    shapes: list[Shape]
    contenders: list[str]
    # By shape and contender; those of one round are at the same place.
    runs: dict[str, dict[str, list[Run]]]
    startups: dict[str, list[Run]]  # by contender, on a site of one page
    failures: list[Failure] = []

    @property
    def rounds(self) -> int:
        return max((len(runs) for of_shape in self.runs.values() for runs in of_shape.values()), default=0)

    def finished(self, shape: str) -> list[str]:
        """The contenders that never failed there."""
        failed = {failure.contender for failure in self.failures if failure.shape == shape}
        return [name for name in self.contenders if name not in failed and self.runs[shape].get(name)]

    def figures(self, shape: str, contender: str) -> Figures:
        return figures(self.runs[shape][contender], self.startups.get(contender, []))

    def others(self) -> float | None:
        """Cores that were busy with something else, in the middle of all runs."""
        runs = [run for of_shape in self.runs.values() for runs in of_shape.values() for run in runs]
        busy = [run.others for run in runs if run.others is not None]
        return median(busy) if busy else None


class Figures(Struct, frozen=True):
    """Medians over the rounds. Milliseconds are CPU, of a page."""

    cpu_ms: float  # start-up included
    lowest_ms: float
    highest_ms: float
    more_ms: float | None  # without start-up: what one page more costs
    startup: float | None  # CPU seconds
    pages_per_second: float
    memory_mb: float
    valkey_ms: float | None
    server_ms: float  # of the site's server
    robots: int  # requests for robots.txt, in a run
    again: int  # requests for a page beyond its first, in all runs


def figures(runs: Sequence[Run], startups: Sequence[Run]) -> Figures:
    costs = [run.cpu_ms for run in runs]
    startup = median(run.cpu for run in startups) if startups else None
    pages = runs[0].pages
    return Figures(
        cpu_ms=median(costs),
        lowest_ms=min(costs),
        highest_ms=max(costs),
        more_ms=None if startup is None else median(costs) - 1e3 * startup / pages,
        startup=startup,
        pages_per_second=_median(runs, lambda run: run.pages / run.wall),
        memory_mb=_median(runs, lambda run: run.memory) / 1e6,
        valkey_ms=(
            None
            if runs[0].valkey_cpu is None
            else _median(runs, lambda run: 1e3 * (run.valkey_cpu or 0) / pages)
        ),
        server_ms=_median(runs, lambda run: 1e3 * run.asked.cpu / pages),
        robots=round(_median(runs, lambda run: run.asked.robots)),
        again=sum(run.asked.again for run in runs),
    )


def ratio(runs: Sequence[Run], to: Sequence[Run]) -> float:
    """CPU a page of one as a multiple of the other's: the median of what the rounds say, each compared in itself, so
    that a machine that is slower in one round changes little."""
    return median(mine.cpu / other.cpu for mine, other in zip(runs, to, strict=False))


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return median(map(of, runs))
