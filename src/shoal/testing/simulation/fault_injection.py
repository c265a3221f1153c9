"""What goes wrong in a world, and when: decided by the seed, one draw at every await. No input or output."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

StoreFault = Literal["error before", "error after", "death before", "death after", "pause"]
FetchFault = Literal["reset", "truncated", "slow body", "death"]

# These are called less often than the others: their failures would hardly be met if they were not more likely.
_SELDOM = {"add": 10, "release": 4, "settle": 2, "update_host": 2}


class Mood(Struct, frozen=True):
    """How likely each thing is at one await; and how far apart, in seconds, what happens at any time."""

    store_error: float = 0.0
    store_death: float = 0.0
    store_pause: float = 0.0
    slow_store: float = 0.0  # share of the verbs that take their time
    bad_fetch: float = 0.0
    fetch_death: float = 0.0
    bad_journal: float = 0.0
    kills_every: float = 0.0  # 0: never
    stops_every: float = 0.0
    clock_steps_every: float = 0.0
    set_backs_every: float = 0.0  # the store forgets its last second or two
    deploys_every: float = 0.0  # all workers are asked to stop, and others follow
    freezes_every: float = 0.0  # the store's clock stands still for a while
    calm_from: float = 60.0  # the time after which nothing of this happens any more


CALM = Mood(slow_store=0.2)


def mood_of(seed: int) -> Mood:
    """Some worlds have one worry, some have all of them, some have none."""
    rng = random.Random(f"mood {seed}")

    def some(*values: float) -> float:
        return rng.choice((0.0, *values))

    return Mood(
        store_error=some(0.002, 0.01),
        store_death=some(0.002, 0.01),
        store_pause=some(0.002, 0.01),
        slow_store=some(0.05, 0.5),
        bad_fetch=some(0.05, 0.2),
        fetch_death=some(0.005, 0.02),
        bad_journal=some(0.01, 0.05),
        kills_every=some(5.0, 20.0),
        stops_every=some(10.0, 30.0),
        clock_steps_every=some(10.0),
        calm_from=rng.uniform(20.0, 60.0),
    )


def mood_with_set_backs(seed: int) -> Mood:
    """The same worries, and a store that goes back now and then."""
    rng = random.Random(f"set-backs {seed}")
    return replace(
        mood_of(seed),
        set_backs_every=rng.choice((1.0, 4.0, 10.0, 20.0)),
        deploys_every=rng.choice((0.0, 0.0, 12.0)),
        freezes_every=rng.choice((0.0, 0.0, 15.0)),
    )


class Faults:
    def __init__(self, seed: int, mood: Mood, time: Callable[[], float]) -> None:
        self._rng = random.Random(f"faults {seed}")
        self._mood = mood
        self._time = time

    @property
    def calm(self) -> bool:
        return self._time() >= self._mood.calm_from

    def at_verb(self, verb: str) -> StoreFault | None:
        mood, draw = self._mood, self._draw() / _SELDOM.get(verb, 1)
        if draw < mood.store_error:
            return self._rng.choice(("error before", "error after"))
        draw -= mood.store_error
        if draw < mood.store_death:
            return self._rng.choice(("death before", "death after"))
        return "pause" if draw - mood.store_death < mood.store_pause else None

    def at_fetch(self) -> FetchFault | None:
        draw = self._draw()
        if draw < self._mood.fetch_death:
            return "death"
        if draw - self._mood.fetch_death < self._mood.bad_fetch:
            return self._rng.choice(("reset", "truncated", "slow body"))
        return None

    def at_journal(self) -> Literal["before", "after"] | None:
        return self._rng.choice(("before", "after")) if self._draw() < self._mood.bad_journal else None

    def latency(self) -> float:
        """Seconds that a verb is under way, one way."""
        return self._rng.uniform(0.0, 0.05) if self._rng.random() < self._mood.slow_store else 0.0

    def pick(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)

    def choose(self, count: int) -> int:
        return self._rng.randrange(count)

    def next_in(self, every: float) -> float:
        return self._rng.uniform(0.3, 1.7) * every

    def _draw(self) -> float:
        """A number that is beyond every likelihood once all is calm."""
        return math.inf if self.calm else self._rng.random()
