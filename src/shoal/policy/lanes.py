"""Shares a worker's slots among lanes by weight, lends idle slots, and lets no lane starve. Pure.

A lane's share of the slots is that of its weight, rounded up. Lanes below their share come first, in the order of
their turns: each page moves its lane's next turn by 1/weight, so the weights hold with few slots too. A lane without
work does not save up turns. Slots that no lane below its share can use go to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import ceil

from msgspec import Struct

from shoal.errors import SettingsError
from shoal.settings import BROWSER, Settings

NONE_WAIT: Mapping[str, int] = {}


class Lane(Struct, frozen=True):
    weight: float = 1.0
    cap: int = 0  # pages of this lane in flight per process; 0: as many as there are slots


def served(settings: Settings) -> dict[str, Lane]:
    """The lanes a process takes tasks from."""
    weights = settings.lane_weights
    for key, given in (("serve", settings.serve), ("lane_caps", list(settings.lane_caps))):
        for name in given:
            if name not in weights:
                raise SettingsError(f"{key}: {no_such_lane(name, weights)}")
    return {name: Lane(weights[name], cap_of(name, settings)) for name in settings.serve or weights}


def cap_of(name: str, settings: Settings) -> int:
    """Pages of the lane that a process may have in flight; 0: as many as there are slots."""
    return settings.lane_caps.get(name, settings.browser_tabs if name == BROWSER else 0)


def no_such_lane(name: str, lanes: Mapping[str, float]) -> str:
    return f"there is no lane {name!r}; there are {', '.join(lanes)}; add more with the setting lanes"


class Split(Struct, frozen=True):
    """What to claim, in this order: each lane's own share first, then what others leave, up to its cap."""

    shares: dict[str, int]
    caps: dict[str, int]


class Lanes:
    """The lanes of one process, with their running pages and their turns."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self._lanes = lanes
        self._weight = sum(lane.weight for lane in lanes.values())
        self._running = dict.fromkeys(lanes, 0)
        self._turns = {name: 1 / lane.weight for name, lane in lanes.items()}
        self._turn = 0.0  # of the page that was started last

    def __repr__(self) -> str:
        return f"<Lanes: {', '.join(f'{count} {name}' for name, count in self._running.items())}>"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._lanes)

    def started(self, name: str) -> None:
        self._running[name] += 1
        self._turn = self._next_turn(name)
        self._turns[name] = self._turn + 1 / self._lanes[name].weight

    def ended(self, name: str) -> None:
        self._running[name] -= 1

    def split(
        self,
        slots: int,
        paused: Set[str] = frozenset(),
        *,
        free: int | None = None,
        waiting: Mapping[str, int] = NONE_WAIT,
    ) -> Split:
        """How to fill the free slots. Pages that only wait (`waiting`) use nothing of their lane's share, but count for
        its cap. `free`: the number of free slots, if it is not what the lanes leave."""
        working = {name: count - waiting.get(name, 0) for name, count in self._running.items()}
        if free is None:
            free = slots - sum(working.values())
        own = {name: ceil(slots * lane.weight / self._weight) for name, lane in self._lanes.items()}
        order = sorted(self._lanes, key=lambda name: (working[name] >= own[name], self._next_turn(name)))
        shares: dict[str, int] = {}
        caps: dict[str, int] = {}
        for name in order:
            if name in paused:
                continue
            cap = self._lanes[name].cap
            caps[name] = max(0, min(free, cap - self._running[name]) if cap else free)
            shares[name] = min(caps[name], max(0, own[name] - working[name]))
        return Split(shares, caps)

    def _next_turn(self, name: str) -> float:
        return max(self._turn, self._turns[name])
