"""The dispatcher: claims pages, runs them, and settles those that have ended, round after round.

    round:  settle finished pages + claim for free slots   (one transaction)
            start what was claimed
            sleep until a page ends, a host is due, or work arrives

A slot is taken only by a page that may be fetched now: pages wait for their host in the frontier, and a page that waits
for the network gives its slot up (`slots.py`). One engine serves any number of jobs.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from shoal.engine.claimer import NOTHING, Claimer
from shoal.engine.delivery import Delivery, backlog_of, is_remote, tidy
from shoal.engine.heartbeat import Heartbeat
from shoal.engine.liveness import Liveness
from shoal.engine.login_tasks import waits_for_login
from shoal.engine.pressure import Load
from shoal.engine.served import EngineJob, EngineJobs
from shoal.errors import HandlerMissing, SessionKeyError, ShoalError, SinkAway, SinkError
from shoal.events import event
from shoal.fetch.deadline import LeaseDeadline, LeaseDeadlines
from shoal.fetch.slots import PageSlot, Slots
from shoal.frontier.protocol import Queue
from shoal.frontier.values import Claimed, Settled
from shoal.frontier.verdicts import is_suspect
from shoal.jobs.worker_status import WorkerStatus
from shoal.model import Dead, Done, Failure, Lease, Revisit, Settlement, Snapshot
from shoal.policy.backpressure import Pressure
from shoal.settings import Settings
from shoal.sink.objects.outage import Outage
from shoal.text import error_line

log = logging.getLogger("shoal")

T = TypeVar("T")

_EAGER = 0.002  # seconds a finished page waits for others while many slots are idle
_NO_ROOM = 1.0  # seconds before settlements that a full store refused are tried again
_TELL_FULL = 60.0
_LONG_WAIT = 10.0  # seconds after which rows that are not written yet are reported
_HAND_BACK = 5.0  # seconds for handing pages back after an error


class Engine:
    """Runs the pages of its jobs in one process, until no more work will come or it is told to stop."""

    def __init__(
        self,
        frontier: Queue,
        jobs: EngineJobs,
        settings: Settings,
        *,
        name: str,
        pressure: Callable[[], Pressure] = Pressure,
        spiders: tuple[str, ...] = (),
        liveness: Liveness | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._frontier = frontier
        self._liveness = liveness
        self._jobs = jobs
        self._settings = settings
        self.name = name
        self._pressure = pressure
        self._spiders = spiders
        self._slots = Slots(
            settings.concurrency,
            per_slot=settings.waiting_per_slot,
            most_waiting=_most_waiting(),
            on_free=self._ring_soon,
        )
        self._running: dict[asyncio.Task[None], tuple[EngineJob, Lease]] = {}
        self._suspect: asyncio.Task[None] | None = None  # the page in flight that may kill this process
        self._settlements: list[tuple[EngineJob, Settlement]] = []
        self._settling: Sequence[tuple[EngineJob, Settlement]] = ()
        self._delivery = Delivery(self._delivered, self._undelivered, self._settle_remotely)
        self._claimer = Claimer(
            frontier,
            jobs,
            settings,
            name=name,
            slots=self._slots,
            delivery=self._delivery,
            pressure=pressure,
        )
        self._untouched: list[Lease] = []  # to be handed back
        self._giving_back = 0  # settlements and releases under way
        self._premature = False  # the last claim may have missed the places that they gave back
        self._finished_at: float | None = None  # when the first page ended that waits to be settled
        self._settling_from: float | None = None  # … that is being settled
        self._last_end: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._told_full = -_TELL_FULL  # when it was last logged that the store is full (the loop's time)
        self._deadlines = LeaseDeadlines(settings.lease)
        self._heartbeat = Heartbeat(
            frontier, name, settings, self._status, self._tokens, self._deadlines.renewed
        )
        self._epoch = ""  # of the store, when this process last read from it
        self._round_since: float | None = None  # when the present round began; None: it waits for work
        self.stale = 0  # settlements that came too late
        self._stopping = False
        self._forced = False
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Engine {self.name}: {len(self._running)} running, {len(self._settlements)} to settle>"

    @property
    def in_flight(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Pages in flight that hold no slot."""
        return self._slots.waiting

    def holds(self, job: EngineJob) -> int:
        """How many of a job's pages are in flight or not settled yet."""
        held = [*self._running.values(), *self._settlements, *self._settling]
        return sum(one is job for one, _ in held) + self._delivery.held(job)

    def load(self) -> Load:
        now = self._loop.time()
        waiting = (self._settling_from or self._finished_at, self._delivery.since)
        since = min((at for at in waiting if at is not None), default=now)
        idle = 0.0 if self._running or self._last_end is None else now - self._last_end
        backlog = sum(backlog_of(job) for job in self._jobs.everyone())
        return Load(len(self._running), now - since, idle, backlog)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def round_takes(self) -> float:
        """Seconds since the present round began; 0 while it sleeps."""
        since = self._round_since
        return 0.0 if since is None else self._loop.time() - since

    # -- stopping

    def stop(self) -> None:
        """Claims no more, and finishes the running pages within the grace period."""
        if not self._stopping:
            self._stopping = True
            self._loop.call_later(self._settings.grace, self.force)
            for page in filter(waits_for_login, self._running):
                page.cancel()
        self._frontier.wake()

    def force(self) -> None:
        """Hands the running pages back now."""
        self._stopping = self._forced = True
        for page in self._running:
            page.cancel()
        self._frontier.wake()

    # -- while a person is in a debugger

    def hand_others_back(self) -> None:
        """Hands back all pages but the one that runs now. In a loop that stands still they would only time out. Called
        in any thread."""
        self._deadlines.hand_others_back()

    async def renew_leases(self, frontier: Queue) -> None:
        """Renews the leases of this process, from another thread than the loop's, which stands still."""
        asked = time.monotonic()  # the loop's clock
        await frontier.extend(self.name, self._settings.lease, self._heartbeat.told)
        self._deadlines.renewed_meanwhile(asked)

    # -- one round

    async def run(self) -> None:
        self._epoch = self._frontier.epoch
        heartbeat = asyncio.create_task(self._keep_alive())
        try:
            while not await self._beat():
                pass
        except ShoalError as error:
            self._error = self._error or error
        finally:
            heartbeat.cancel()
            await self._abandon()
        if self._error is not None:
            raise self._error

    async def _beat(self) -> bool:
        """One round; True when there is nothing left to do here."""
        self._round_since = self._loop.time()
        claimed = await self._exchange()
        if self._frontier.epoch != self._epoch:
            await self._reconcile(claimed.leases)
        if claimed.now:
            for job in self._jobs.everyone():
                job.pages.sync(claimed.now)
        leases = await self._apart(claimed.leases)
        if self._forced:  # the time was up while the claim was under way
            self._untouched += leases
            leases = ()
        self._start(leases)
        if self._error is not None:
            return True
        idle = not self._running and not self._settlements and not self._untouched
        if idle and (self._forced or not self._delivery) and (self._stopping or await self._jobs.over()):
            return True
        if not self._due_to_settle() and not self._premature:
            self._round_since = None
            rest = claimed.next_due if claimed.again is None else claimed.again
            self._claimer.look |= await self._frontier.wait(rest)
        return False

    async def _apart(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """The leases without the second and further suspects. These are handed back before the first suspect starts,
        because it may kill this process."""
        others = [lease for lease in leases if is_suspect(lease.task)][1:]
        if not others:
            return leases
        try:
            await self._release(others)
        except asyncio.CancelledError:
            self._untouched += leases
            raise
        return [lease for lease in leases if lease not in others]

    def _start(self, leases: Sequence[Lease]) -> None:
        jobs = {job.name: job for job in self._jobs.current()} if leases else {}
        for lease in leases:
            job = jobs.get(lease.task.job)
            if job is None:  # it was set aside or ended while the claim was under way
                self._untouched.append(lease)
                continue
            place = self._slots.enter(lease.task.lane)
            deadline = self._deadlines.begin(self._claimer.asked, self._claimer.lease)
            work = running = self._run_page(job, lease, place, self._claimer.asked, deadline)
            if self._liveness is not None:
                running = self._liveness.on_cpu(lease.token, work, job.settings.handler_timeout)
            page = self._loop.create_task(running)
            self._running[page] = job, lease
            self._deadlines.watch(page, deadline)
            self._suspect = page if is_suspect(lease.task) else self._suspect
            self._claimer.lanes.started(lease.task.lane)
            page.add_done_callback(partial(self._page_ended, place, work, deadline))

    async def _exchange(self) -> Claimed:
        """Settles, hands back and claims at once, so that the store commits all in one transaction."""
        jobs = self._jobs.everyone()
        # First what was learnt about hosts: a place that is given back must not be claimed by an old valve.
        for job in jobs:
            await job.pages.flush()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._settling, self._settlements = self._settlements, []
        untouched, self._untouched = self._untouched, []
        self._settling_from, self._finished_at = self._finished_at, None
        rest = [*self._settle(self._settling), self._release(untouched), self._write_back(jobs)]
        exchange = asyncio.ensure_future(_together(rest, self._claim()))
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            # The store does it all the same. Leases that nobody knows of would be lost until they expire.
            self._untouched += (await exchange).leases
            raise
        finally:
            self._settling, self._settling_from = (), None

    def _settle(
        self, settlements: Sequence[tuple[EngineJob, Settlement]]
    ) -> list[Coroutine[None, None, None]]:
        batches: dict[EngineJob, list[Settlement]] = {}
        for job, settlement in settlements:
            batches.setdefault(job, []).append(settlement)
        return [self._settle_job(job, batch) for job, batch in batches.items()]

    async def _write_back(self, jobs: Sequence[EngineJob], *, everything: bool = False) -> None:
        for job in jobs:
            await job.pages.write_back(everything=everything)

    async def _settle_job(self, job: EngineJob, batch: Sequence[Settlement]) -> None:
        self._giving_back += 1
        batch = [job.pages.complete(settlement) for settlement in batch]
        try:
            settled = await self._frontier.settle(batch, job.sink.journal, epoch=self._epoch)
        except SinkError as error:
            self._undelivered(job, error, batch)
            return
        finally:
            self._giving_back -= 1
        self._was_settled(job, batch, settled)

    async def _settle_remotely(self, job: EngineJob, batch: Sequence[Settlement]) -> None:
        """Settles pages whose rows are written over the network. While the output is away, they keep their leases."""
        outage = Outage()
        while True:
            await job.pages.flush()  # as in a round
            batch = [job.pages.complete(settlement) for settlement in batch]
            try:
                settled = await self._frontier.settle(batch, job.sink.journal, epoch=self._epoch)
            except SinkAway as error:
                await asyncio.sleep(outage.pause(error))
            else:
                break
        outage.end()
        await tidy(job)
        if settled.no_room:
            await asyncio.sleep(_NO_ROOM)
        self._was_settled(job, batch, settled)
        self._claimer.look = True  # places were given back
        self._frontier.wake()

    def _was_settled(self, job: EngineJob, batch: Sequence[Settlement], settled: Settled) -> None:
        self._wait_for_room(job, [batch[place] for place in sorted(settled.no_room)])
        self._settle_later(job, [batch[place] for place in sorted(settled.outdated)])
        for place, (settlement, accepted) in enumerate(zip(batch, settled.accepted, strict=True)):
            if place in settled.no_room or place in settled.outdated:
                continue
            job.pages.settled(settlement, accepted)
            if not accepted:
                self.stale += 1
                task = settlement.lease.task
                event("settlement_stale", job=task.job, url=task.url, host=task.host)
            elif isinstance(settlement.verdict, Done | Revisit) and settlement.lease.task.item is None:
                self._heartbeat.done(job.name)

    def _wait_for_room(self, job: EngineJob, batch: Sequence[Settlement]) -> None:
        """The store is full, and these settlements add to it. They are settled later; or, if this process ends first,
        their pages go back and are fetched again."""
        if not batch:
            return
        now = self._loop.time()
        if now - self._told_full >= _TELL_FULL:
            self._told_full = now
            event("settlements_wait", job=job.name, pages=len(batch))
        self._settle_later(job, batch)
        if self._alarm is None and not self._stopping:
            self._alarm = self._loop.call_later(_NO_ROOM, self._ring)

    def _settle_later(self, job: EngineJob, batch: Sequence[Settlement]) -> None:
        """If the store has gone back, they are settled after `_reconcile`."""
        if self._stopping:
            self._untouched += [settlement.lease for settlement in batch]
        elif batch:
            for settlement in batch:
                self._to_settle(job, settlement)
            self._finished_at = self._settling_from or self._finished_at

    async def _release(self, leases: Sequence[Lease]) -> None:
        if leases:
            self._giving_back += 1
            try:
                await self._frontier.release(leases)
            finally:
                self._giving_back -= 1

    async def _claim(self) -> Claimed:
        self._premature = False
        # Nothing is claimed beside a suspect: it could be another suspect, and would be handed back again and again.
        if self._stopping or self._suspect is not None:
            self._claimer.forget()
            return NOTHING
        claimed = await self._claimer.claim([lease for _, lease in self._running.values()])
        self._premature = self._giving_back > 0 and self._claimer.unfilled
        return claimed

    def _due_to_settle(self) -> bool:
        return bool(self._settlements or self._untouched) and self._alarm is None

    # -- one page

    async def _run_page(
        self, job: EngineJob, lease: Lease, place: PageSlot, asked: float, deadline: LeaseDeadline
    ) -> None:
        if self._loop.time() - asked > self._claimer.latest_start:
            # The store was away, or this process was frozen: the lease is too old to send a request now.
            self._untouched.append(lease)
            return
        place.occupy()
        deadline.hold()
        try:
            settlement = await job.pages.process(lease)
        except HandlerMissing as error:
            self._untouched.append(lease)
            if job in self._jobs.current():
                self._jobs.set_aside(job, error)
        except SessionKeyError as error:
            self._untouched.append(lease)
            if job in self._jobs.current() and not self._jobs.set_aside(job, error):
                self._error = self._error or error
        except ShoalError as error:  # the store or the sink: nothing more can be done here
            self._error = self._error or error
            self._untouched.append(lease)
        except Exception as error:
            said = error_line(error)
            event("bug", exc_info=True, job=lease.task.job, url=lease.task.url, error=said)
            failure = Failure("unexpected", said, attempt=lease.task.attempt)
            dead = Dead(failure, Snapshot(traceback=traceback.format_exc()))
            self._settlements.append((job, Settlement(lease, dead)))
        else:
            if job.settings.cache:
                self._claimer.looked_up(job, lease, settlement)
            if settlement is None:
                self._untouched.append(lease)
            else:
                self._to_settle(job, settlement)

    def _to_settle(self, job: EngineJob, settlement: Settlement) -> None:
        if self._delivery.takes(job, settlement):
            self._delivery.hand(job, settlement)
        else:
            self._settlements.append((job, settlement))

    def _page_ended(
        self,
        place: PageSlot,
        work: Coroutine[Any, Any, None],
        deadline: LeaseDeadline,
        page: asyncio.Task[None],
    ) -> None:
        place.leave()
        self._deadlines.forget(page)
        self._last_end = self._loop.time()
        lease = self._running.pop(page)[1]
        if page.cancelled():
            # It may have been cancelled before its first step, so nothing else has handed the lease back.
            self._untouched.append(lease)
            work.close()
            if deadline.has_passed(self._loop.time()):
                event("lease_lapsed", job=lease.task.job, url=lease.task.url, host=lease.task.host)
        self._claimer.lanes.ended(lease.task.lane)
        self._suspect = None if page is self._suspect else self._suspect
        if not self._running:
            self._delivery.hurry()
        self._settle_soon()

    def _delivered(self, job: EngineJob, batch: Sequence[Settlement]) -> None:
        self._settlements += [(job, settlement) for settlement in batch]
        self._settle_soon()

    def _undelivered(self, job: EngineJob, error: SinkError, batch: Sequence[Settlement]) -> None:
        if self._jobs.set_aside(job, error):
            self._untouched += [settlement.lease for settlement in batch]
        else:
            self._error = self._error or error
        self._frontier.wake()

    def _settle_soon(self) -> None:
        if self._finished_at is None:
            self._finished_at = self._loop.time()
        # A busy engine waits for more pages, which makes a commit cheaper; an idle one has slots to fill. A quarter of
        # the slots is enough: the others keep fetching, so that pages do not run in waves.
        slots = self._settings.concurrency
        if len(self._settlements) + len(self._untouched) >= slots // 4:
            self._frontier.wake()
        else:
            self._ring_soon()

    def _ring_soon(self) -> None:
        if self._alarm is None:
            busy = self._slots.working * 2 >= self._settings.concurrency
            delay = self._settings.settle_delay if busy else min(_EAGER, self._settings.settle_delay)
            self._alarm = self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._frontier.wake()

    # -- keeping and losing leases

    def _leases(self) -> list[Lease]:
        """All leases of this process."""
        ended = [settlement.lease for _, settlement in (*self._settlements, *self._settling)]
        return [
            *(lease for _, lease in self._running.values()),
            *ended,
            *self._delivery.leases(),
            *self._untouched,
        ]

    def _tokens(self) -> set[int]:
        return {lease.token for lease in self._leases()}

    async def _reconcile(self, claimed: Sequence[Lease]) -> None:
        """The store may have gone back. Forgets what was read from it, before any new page starts. Leases that the
        store has and this process has settled go back to it. Pages whose leases the store has lost are cancelled: it
        will lease them again, and their hosts should not get two requests at once."""
        try:
            while (epoch := self._frontier.epoch) != self._epoch:
                for job in self._jobs.everyone():
                    await job.pages.forget()
                held = {lease.token: lease for lease in await self._frontier.held(self.name)}
                ours = self._tokens() | {lease.token for lease in claimed}
                again = [lease for token, lease in held.items() if token not in ours]
                lost = {token for token in ours if token not in held}
                for page, (_, lease) in self._running.items():
                    if lease.token in lost:
                        page.cancel()
                await self._release(again)
                self._epoch = epoch
                event("store_went_back", kept=len(ours) - len(lost), lost=len(lost), again=len(again))
        except asyncio.CancelledError:
            self._untouched += claimed
            raise

    async def _keep_alive(self) -> None:
        try:
            await self._heartbeat.run()
        except Exception as error:  # without a heartbeat, other workers would take its pages
            self._error = self._error or error
            self._frontier.wake()

    def _status(self) -> WorkerStatus:
        pressure = self._pressure()
        jobs = tuple(job.name for job in self._jobs.current())
        return WorkerStatus(
            job=jobs[0] if len(jobs) == 1 else "",
            in_flight=len(self._running),
            flights=dict(Counter(lease.task.lane for _, lease in self._running.values())),
            lanes=tuple(self._jobs.lanes()),
            paused_lanes=pressure.paused_lanes,
            pressure=pressure.reasons,
            jobs=jobs,
            spiders=self._spiders,
            slots=self._settings.concurrency,
            waiting=self._slots.waiting,
            waits=self._waits(),
        )

    def _waits(self) -> dict[str, str]:
        """Jobs whose rows have not been written for a while, and why."""
        now = self._loop.time()
        waits = {
            job.name: f"its {'object store' if is_remote(job) else 'database'} has not taken the rows of"
            f" {self._delivery.held(job)} page(s) for {seconds:.0f} s"
            for job, seconds in self._delivery.waits(now, _LONG_WAIT).items()
        }
        if self._settling_from is not None and (seconds := now - self._settling_from) > _LONG_WAIT:
            waits |= {
                job.name: f"its rows have waited {seconds:.0f} s to be written to its file: another process may hold"
                " the file's lock, or the disk is slow"
                for job in {id(job): job for job, one in self._settling if one.rows}.values()
            }
        return waits

    async def _abandon(self) -> None:
        """Cancels the running pages, settles the finished ones and hands the others back. After an error, all are
        handed back."""
        for page in self._running:
            page.cancel()
        if self._running:
            await asyncio.wait(list(self._running))
        if self._alarm is not None:
            self._alarm.cancel()
        self._untouched += await self._delivery.stop()
        self._stopping = True
        if self._error is None:
            try:
                await self._settle_the_rest()
            except ShoalError as error:
                self._error = error
        if self._error is not None:
            await self._hand_all_back()

    async def _settle_the_rest(self) -> None:
        untouched, self._untouched = self._untouched, []
        await _together(self._settle(self._settlements), self._release(untouched))
        await self._release(self._untouched)  # pages for which a full store has no room
        # After the settlements: they are counted, and nobody writes the counts later.
        await self._write_back(self._jobs.everyone(), everything=True)

    async def _hand_all_back(self) -> None:
        """Hands back all pages that this process still holds, after an error that is no fault of theirs. Otherwise they
        would pass for those of a worker that died: each has lost an attempt, and may have been its last.

        The store says which pages these are. A settlement whose answer was an error may have been committed, and its
        pages are not held any more; a claim whose answer got lost may have been carried out. A page that is held was
        not settled, so what was written of its rows does not count: it is cut off or replaced when the page is done
        again, as after a kill. A settlement that still arrives at the store is refused, because its lease is gone.
        """
        try:
            async with asyncio.timeout(_HAND_BACK):  # a store that is away would be waited for
                for job in self._jobs.everyone():
                    await job.pages.flush()  # as in a round
                await self._release(await self._frontier.held(self.name))
        except Exception:
            # The first error is the one to tell of. Pages that stay leased are taken back later, their attempt counted.
            log.debug("pages in flight could not be handed back", exc_info=True)


def _most_waiting() -> int:
    """How many pages may wait for the network: each has a connection, and other things need open files too."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit // 4 if limit > 0 else sys.maxsize


async def _together(others: Sequence[Awaitable[None]], last: Awaitable[T]) -> T:
    """Runs all of them and returns the result of the last. If one fails, the others still end before it is raised."""
    *said, answer = await asyncio.gather(*others, last, return_exceptions=True)
    for one in (*said, answer):
        if isinstance(one, BaseException):
            raise one
    return cast(T, answer)
