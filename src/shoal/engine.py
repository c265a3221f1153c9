"""The dispatcher: claims what may run, runs it, and settles what has run, in one steady beat.

    beat:  settle the finished + claim for the free slots   (one transaction)
           start what was claimed
           sleep until a page ends, a host is due, or work arrives

A slot is taken only by a page that may be fetched now; waiting happens in the frontier.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol

from shoal.errors import ShoalError
from shoal.frontier.protocol import FOREVER, Claim, Claimed, Frontier, Journal
from shoal.governor import Load
from shoal.model import Dead, Failure, Lease, Settlement, Snapshot
from shoal.policy.backpressure import Pressure
from shoal.policy.lanes import Lanes, served
from shoal.settings import Settings
from shoal.workerstatus import WorkerStatus, encode_status

log = logging.getLogger("shoal")

_EAGER = 0.002  # seconds a finished page waits for company while many slots are idle
_NOTHING = Claimed((), FOREVER)


class Pages(Protocol):
    """Whoever turns leases into settlements; see `worker.py`."""

    async def work(self, lease: Lease) -> Settlement | None: ...

    def settled(self, lease: Lease, accepted: bool) -> None: ...

    def sync(self, frontier_time: float) -> None: ...

    async def fold(self) -> None:
        """Tells the store what was learnt about hosts and moves their valves."""
        ...

    async def keep(self, *, everything: bool = False) -> None:
        """Tells it the rest, when it is time, or everything."""
        ...


class Engine:
    """Runs the pages of one job in one process, until the job is exhausted or it is told to stop."""

    def __init__(
        self,
        frontier: Frontier,
        worker: Pages,
        settings: Settings,
        *,
        job: str,
        name: str,
        journal: Journal | None = None,
        pressure: Callable[[], Pressure] = Pressure,
    ) -> None:
        self._frontier = frontier
        self._worker = worker
        self._settings = settings
        self._job = job
        self._name = name
        self._journal = journal
        self._lanes = Lanes(served(settings))
        self._pressure = pressure
        self._running: dict[asyncio.Task[None], Lease] = {}
        self._settlements: list[Settlement] = []
        self._untouched: list[Lease] = []  # to be handed back
        self._finished_at: float | None = None  # when the first page ended that waits to be settled
        self._settling_from: float | None = None  # … that is being settled
        self._last_end: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._stopping = False
        self._forced = False
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Engine {self._name}: {len(self._running)} running, {len(self._settlements)} to settle>"

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def load(self) -> Load:
        now, since = asyncio.get_running_loop().time(), self._settling_from or self._finished_at
        idle = 0.0 if self._running or self._last_end is None else now - self._last_end
        return Load(len(self._running), 0.0 if since is None else now - since, idle)

    # -- told from outside

    def stop(self) -> None:
        """Claims no more and finishes what is running, within the grace period."""
        if not self._stopping:
            self._stopping = True
            asyncio.get_running_loop().call_later(self._settings.grace, self.force)
        self._frontier.wake()

    def force(self) -> None:
        """Hands back what is still running, now."""
        self._stopping = self._forced = True
        for page in self._running:
            page.cancel()
        self._frontier.wake()

    # -- the beat

    async def run(self) -> None:
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while not await self._beat():
                pass
        except ShoalError as error:
            self._error = error
        finally:
            heartbeat.cancel()
            await self._abandon()
        if self._error is not None:
            raise self._error

    async def _beat(self) -> bool:
        """One round; True when there is nothing left to do here."""
        claimed = await self._exchange()
        if claimed.now:
            self._worker.sync(claimed.now)
        if self._forced:  # the time was up while the claim was under way
            self._untouched += claimed.leases
            claimed = _NOTHING
        for lease in claimed.leases:
            page = asyncio.create_task(self._run_page(lease))
            self._running[page] = lease
            self._lanes.started(lease.task.lane)
            page.add_done_callback(self._page_ended)
        if self._error is not None:
            return True
        idle = not self._running and not self._settlements and not self._untouched
        if idle and (self._stopping or await self._exhausted()):
            return True
        if not self._due_to_settle():
            await self._frontier.wait(claimed.next_due)
        return False

    async def _exchange(self) -> Claimed:
        """Settles, hands back and claims, handed to the store together so that it commits them together."""
        # First what was learnt about hosts: a place that is given back must not be taken by old rules.
        await self._worker.fold()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        settlements, self._settlements = self._settlements, []
        untouched, self._untouched = self._untouched, []
        self._settling_from, self._finished_at = self._finished_at, None
        exchange = asyncio.gather(
            self._settle(settlements), self._release(untouched), self._worker.keep(), self._claim()
        )
        try:
            return (await asyncio.shield(exchange))[-1]
        except asyncio.CancelledError:
            # The store carries it out all the same; leases that nobody knows of would be lost until they expire.
            self._untouched += (await exchange)[-1].leases
            raise
        finally:
            self._settling_from = None

    async def _settle(self, batch: Sequence[Settlement]) -> None:
        if not batch:
            return
        settled = await self._frontier.settle(batch, self._journal)
        for settlement, accepted in zip(batch, settled.accepted, strict=True):
            self._worker.settled(settlement.lease, accepted)
            if not accepted:
                log.warning(
                    "%s was settled too late: its lease had been given away", settlement.lease.task.url
                )

    async def _release(self, leases: Sequence[Lease]) -> None:
        if leases:
            await self._frontier.release(leases)

    async def _claim(self) -> Claimed:
        pressure = self._pressure()
        slots = pressure.slots(self._settings.concurrency)
        free = slots - len(self._running)
        if free <= 0 or self._stopping:
            return _NOTHING
        lanes = self._lanes.split(slots, pressure.paused_lanes)
        return await self._frontier.claim(
            Claim(self._name, (self._job,), lanes.shares, free, self._settings.lease, lanes.caps)
        )

    async def _exhausted(self) -> bool:
        job = await self._frontier.job(self._job)
        return job is None or job.exhausted or job.state != "running"

    def _due_to_settle(self) -> bool:
        return bool(self._settlements or self._untouched) and self._alarm is None

    # -- one page

    async def _run_page(self, lease: Lease) -> None:
        try:
            settlement = await self._worker.work(lease)
        except asyncio.CancelledError:
            self._untouched.append(lease)
            raise
        except ShoalError as error:  # the store or the sink: nothing more can be done here
            self._error = self._error or error
            self._untouched.append(lease)
        except Exception as error:
            log.exception("a bug in Shoal, met on %s", lease.task.url)
            failure = Failure("unexpected", f"{type(error).__name__}: {error}", attempt=lease.task.attempt)
            self._settlements.append(
                Settlement(lease, Dead(failure, Snapshot(traceback=traceback.format_exc())))
            )
        else:
            if settlement is None:
                self._untouched.append(lease)
            else:
                self._settlements.append(settlement)

    def _page_ended(self, page: asyncio.Task[None]) -> None:
        self._last_end = asyncio.get_running_loop().time()
        self._lanes.ended(self._running.pop(page).task.lane)
        if self._finished_at is None:
            self._finished_at = asyncio.get_running_loop().time()
        # A busy engine waits for company, which makes a commit cheaper; an idle one has slots to fill. A quarter of
        # the slots is company enough: the rest keep fetching meanwhile, so pages do not run in waves.
        slots = self._settings.concurrency
        if len(self._settlements) + len(self._untouched) >= slots // 4:
            self._frontier.wake()
        elif self._alarm is None:
            busy = len(self._running) * 2 >= slots
            delay = self._settings.settle_delay if busy else min(_EAGER, self._settings.settle_delay)
            self._alarm = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._frontier.wake()

    # -- keeping and losing leases

    async def _heartbeat(self) -> None:
        told: WorkerStatus | None = None
        renewed = float("-inf")
        while True:
            status = self._status()
            now = asyncio.get_running_loop().time()
            if now - renewed >= self._settings.lease / 3 or told is None or status.pressure != told.pressure:
                told, renewed = status, now
                try:
                    await self._frontier.extend(self._name, self._settings.lease, encode_status(status))
                except ShoalError as error:
                    self._error = self._error or error
                    self._frontier.wake()
                    return
            await asyncio.sleep(min(1.0, self._settings.lease / 3))

    def _status(self) -> WorkerStatus:
        pressure = self._pressure()
        return WorkerStatus(
            os.getpid(),
            self._job,
            len(self._running),
            self._lanes.names,
            pressure.paused_lanes,
            pressure.reasons,
        )

    async def _abandon(self) -> None:
        """Leaves nothing behind: what still runs is cancelled and handed back, what is finished is settled."""
        for page in self._running:
            page.cancel()
        if self._running:
            await asyncio.wait(list(self._running))
        if self._alarm is not None:
            self._alarm.cancel()
        if self._error is None:
            await asyncio.gather(
                self._settle(self._settlements),
                self._release(self._untouched),
                self._worker.keep(everything=True),
            )
