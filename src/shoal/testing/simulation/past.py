"""What the store and the model were in the last seconds, so that both can go back there.

A power cut or a lagging replica takes a store back by a second or two: commits that were answered have not happened,
and nobody but the workers knows of them. What the web has seen stays seen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from typing import Any

from msgspec import Struct

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.testing.simulation.invariants import Checker

_KEPT = 4.0  # seconds
_APART = 0.2  # seconds between two of them, at most, if something happens


class Moment(Struct, frozen=True):
    at: float  # the loop's time
    commit: int
    store: dict[str, Any]
    model: dict[str, Any]


class Past:
    def __init__(self, home: Frontier, checker: Checker, rng: Random) -> None:
        self._home = home
        self._checker = checker
        self._rng = rng
        self._next = 0.0
        self._moments: deque[Moment] = deque()
        self._undone: list[tuple[int, int]] = []  # commits from … to that have not happened
        self.commit = 0
        self.kept = False  # whether anybody wants to go back

    def begin(self) -> None:
        """From now on it may go back."""
        assert isinstance(self._home, MemoryFrontier)
        self.kept = True
        self._home.epoch = "0"

    def end(self) -> None:
        self.kept = False

    def passed(self) -> None:
        """Told after every commit."""
        self.commit += 1
        if not self.kept or not isinstance(self._home, MemoryFrontier):
            return
        now = asyncio.get_running_loop().time()
        while self._moments and self._moments[0].at < now - _KEPT:
            self._moments.popleft()
        if now >= self._next:
            self._next = now + self._rng.uniform(0.0, _APART)
            self._moments.append(Moment(now, self.commit, self._home.saved(), self._checker.saved()))

    def go_back(self, seconds: float) -> float:
        """To the latest moment that is so long ago, or the earliest that is known; answers how far that is."""
        assert isinstance(self._home, MemoryFrontier)
        now = asyncio.get_running_loop().time()
        moments = self._moments
        while len(moments) > 1 and moments[-1].at > now - seconds:
            moments.pop()
        if not moments:
            return 0.0
        moment = moments[-1]
        self._home.go_back(moment.store)
        self._checker.go_back(moment.model)
        self._undone.append((moment.commit + 1, self.commit))
        return now - moment.at

    def undone(self, commit: int) -> bool:
        """Whether a commit has not happened after all."""
        if not self._undone or commit > self._undone[-1][1]:
            return False
        return any(first <= commit <= last for first, last in self._undone)
