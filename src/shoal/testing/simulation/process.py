"""A simulated process: it can be killed at any await, and be paused while the rest of the world goes on.

Killed means that nothing it does from then on has an effect. Its coroutines still have to end, so whatever they ask
of the outside answers with a cancellation: they unwind, and no settlement, release or farewell leaves them.
"""

from __future__ import annotations

import asyncio
import random

from shoal.testing.simulation.loop import SimulatedClock


class Process:
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
