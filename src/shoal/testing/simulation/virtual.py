"""Virtual time: an event loop, clocks, and processes. When nothing is ready, time jumps to the next timer.

The loop opens no file, starts no thread and never sleeps: an hour of crawling takes as long as its computing does, and
the same program always runs in the same order. The clocks tell the loop's time, each a little
differently, as the clocks of different machines do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from hashlib import blake2b

EPOCH = 1_700_000_000.0
_SPINS = 100_000  # rounds in the same instant: no honest program needs that many


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _NoFiles(self)

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    # What BaseEventLoop leaves to its children.

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> None:
        """There is no other thread that could have called, and nobody asleep to be woken."""


class _NoFiles:
    """Where another loop waits for files, this one lets time pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._spins = 0

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing will ever happen")
        self._spins = self._spins + 1 if timeout <= 0 else 0
        if self._spins > _SPINS:
            raise RuntimeError("the loop spins: it is always busy, and no time passes")
        self._loop.jump(max(0.0, timeout))
        return []


class SimulatedClock:
    """The clocks of one machine: set a little wrong, and on request set anew while it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, wrong: float = 0.0, booted: float = 0.0) -> None:
        self._loop = loop
        self._wall = EPOCH + wrong
        self._booted = booted  # seconds before the simulation began
        self._passed = 0.0  # since then, …
        self._moves_from = 0.0  # … up to this time of the loop

    def time(self) -> float:
        return self._wall + self._elapsed()

    def monotonic(self) -> float:
        return self._booted + self._elapsed()

    def _elapsed(self) -> float:
        return self._passed + max(0.0, self._loop.time() - self._moves_from)

    def freeze(self, seconds: float) -> None:
        """It stands still for so long, and goes on from there."""
        self._passed = self._elapsed()
        self._moves_from = max(self._moves_from, self._loop.time() + seconds)

    def step(self, seconds: float) -> None:
        """Somebody sets the date."""
        self._wall += seconds


class Process:
    """A simulated process: it can be killed at any await, and be paused while the rest of the world goes on.

    Killed means that nothing it does from then on has an effect. Its coroutines still have to end, so whatever they ask
    of the outside answers with a cancellation: they unwind, and no settlement, release or farewell leaves them.
    """

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.rng = rng
        self.loop = asyncio.get_running_loop()
        self.clock = SimulatedClock(self.loop, wrong=rng.uniform(-5, 5), booted=rng.uniform(0, 1e6))
        self.dead = False
        self.paused_until = 0.0
        self.death = asyncio.Event()
        self.woken = asyncio.Event()  # ends its wait for work

    def __repr__(self) -> str:
        return f"<Process {self.name}{' (dead)' if self.dead else ''}>"

    def kill(self) -> None:
        self.dead = True
        self.death.set()

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.loop.time() + seconds)

    async def elapse(self, seconds: float) -> None:
        """Time passes; longer, if the process is paused meanwhile."""
        if seconds > 0:
            await asyncio.sleep(seconds)
        while (left := self.paused_until - self.loop.time()) > 0:  # noqa: ASYNC110 (the pause may be prolonged)
            await asyncio.sleep(left)
        self.check_alive()

    def check_alive(self) -> None:
        if self.dead:
            raise asyncio.CancelledError

    def die(self) -> asyncio.CancelledError:
        """`raise process.die()`: here and now."""
        self.kill()
        return asyncio.CancelledError()


class Story:
    """What happened in a world, line by line. Two runs of one seed tell the same story."""

    def __init__(self, time: Callable[[], float], aloud: Callable[[str], None] | None = None) -> None:
        self._time = time
        self._aloud = aloud
        self.lines: list[str] = []

    def tell(self, who: str, what: str) -> None:
        line = f"{self._time():10.4f} {who:<9} {what}"
        self.lines.append(line)
        if self._aloud is not None:
            self._aloud(line)

    @property
    def digest(self) -> str:
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()
