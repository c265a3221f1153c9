"""What a process claims: as much as its slots, its lanes, backpressure and the sinks of its jobs have room for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from shoal.engine.delivery import Delivery
from shoal.engine.served import EngineJob, EngineJobs
from shoal.fetch.slots import Slots
from shoal.frontier.protocol import Queue
from shoal.frontier.values import Claim, Claimed
from shoal.model import Lease, Settlement
from shoal.policy.backpressure import Pressure
from shoal.policy.lanes import Lane, Lanes
from shoal.settings import Settings
from shoal.spider import debugging
from shoal.valve import FOREVER

NOTHING = Claimed((), FOREVER)
_LATEST_START = 5.0  # seconds after the claim; less with a short lease
_AHEAD = 64  # pages of a host that are looked up in a cache at once


class _Last(Struct, frozen=True):
    """The last claim, and what it says about the next."""

    wanted: object = None
    at: float = 0.0
    claimed: Claimed = NOTHING

    def still(self, wanted: object, now: float) -> Claimed | None:
        """The answer to the same claim now, if it is known without asking: the frontier tells each process when to
        claim again."""
        age, again = now - self.at, self.claimed.again
        if again is None or wanted != self.wanted or age >= again:
            return None
        return Claimed((), max(0.0, self.claimed.next_due - age), again=again - age)


class Claimer:
    def __init__(
        self,
        frontier: Queue,
        jobs: EngineJobs,
        settings: Settings,
        *,
        name: str,
        slots: Slots,
        delivery: Delivery,
        pressure: Callable[[], Pressure],
    ) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._settings = settings
        self._name = name
        self._slots = slots
        self._delivery = delivery
        self._pressure = pressure
        self._served_lanes: Mapping[str, Lane] = {}
        self.lanes = Lanes({})
        self._ahead: dict[str, int] = {}  # for jobs with a cache: how many pages of a host to look up at once
        self._last = _Last()
        self.look = True  # whether the frontier may have more than at the last claim
        self.asked = 0.0  # when the last claim was made (the loop's time) …
        self.lease = settings.lease  # … and for how many seconds its leases are
        self.unfilled = False  # the frontier was asked, and had less than there are free slots
        self.latest_start = min(_LATEST_START, settings.lease / 4)

    def forget(self) -> None:
        """The next claim asks the frontier, whatever the last one said."""
        self._last, self.unfilled = _Last(), False

    async def claim(self, running: Collection[Lease]) -> Claimed:
        """`running`: what this process works on."""
        last = self._last
        self.forget()
        pressure = self._pressure()
        slots = pressure.slots(self._settings.concurrency)
        if debugging.is_active():
            slots = min(1, slots)
        free = 0 if debugging.is_active() and running else self._slots.free(slots)
        if free <= 0 or pressure.claiming_paused:
            return NOTHING
        # A job whose sink is slow gets no more pages until its rows are written.
        served = [job for job in self._jobs.current() if self._delivery.has_room(job, slots)]
        if not served:
            return NOTHING
        names, made = [job.name for job in served], {job.name: job.made_at for job in served if job.made_at}
        self._update_lanes(running)
        lanes = self.lanes.split(slots, pressure.paused_lanes, free=free, waiting=self._slots.waiting_in)
        asked, seconds = asyncio.get_running_loop().time(), self._outlasting(served)
        wanted = names, made, {*lanes.caps}, self._frontier.epoch
        if not self.look and (known := last.still(wanted, asked)):
            self._last = last
            return known
        self.look = False
        ahead = {} if debugging.is_active() else dict(self._ahead)
        claimed = await self._frontier.claim(
            Claim(self._name, names, lanes.shares, free, seconds, lanes.caps, made, ahead)
        )
        self.asked, self.lease = asked, seconds
        self._last = _Last(wanted, asked, claimed)
        self.unfilled = len(claimed.leases) < free
        return claimed

    def looked_up(self, job: EngineJob, lease: Lease, settlement: Settlement | None) -> None:
        """A page of a job with a cache has ended. The more pages are in the cache, the more are claimed at once: many
        share one commit, and none waits for its host. If few are, looking costs more than it saves."""
        ahead = self._ahead.get(job.name, 0)
        if settlement is not None and settlement.unsent:
            self._ahead[job.name] = min(_AHEAD, ahead + 4)
        elif lease.ahead:
            self._ahead[job.name] = ahead * 3 // 4

    def _outlasting(self, jobs: Sequence[EngineJob]) -> float:
        """Seconds of a lease that lasts at least as long as the request for its page. If this process vanishes, the
        server may still work on the request: its place must not be given to another until then."""
        longest = max(job.settings.total_timeout for job in jobs)
        return max(self._settings.lease, longest + self.latest_start)

    def _update_lanes(self, running: Collection[Lease]) -> None:
        lanes = self._jobs.lanes()
        if lanes is not self._served_lanes:
            self._served_lanes, self.lanes = lanes, Lanes(lanes)
            for lease in running:
                self.lanes.started(lease.task.lane)
