"""One world from its seed to its end: a web, a store, workers that a supervisor keeps running, and what befalls them.

The engine, pipeline, host cache, backpressure, feeder, policies and handlers are the real ones. Simulated are time,
the web and the faults; see the other modules of this package.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, cast

from msgspec import Struct

from shoal.clock import Clock
from shoal.engine.dispatcher import Engine
from shoal.errors import ShoalError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import HUSH
from shoal.jobs.trouble import trouble_of
from shoal.runtime.submit import submit
from shoal.testing.conformance.tools import JournalSink
from shoal.testing.simulation.fault_injection import CALM, Faults, Mood, mood_of, mood_with_set_backs
from shoal.testing.simulation.faulty_store import (
    CheckedFrontier,
    FaultyFrontier,
    FaultyJournal,
    SimulatedFault,
    Table,
)
from shoal.testing.simulation.generated_web import Web
from shoal.testing.simulation.invariants import Checker, Violation
from shoal.testing.simulation.network import Servers, SimulatedTransport
from shoal.testing.simulation.plans import JOB, is_standing, plan_of
from shoal.testing.simulation.virtual import Process, SimulatedClock, Story, VirtualLoop
from shoal.testing.simulation.workers import CrawlWorker, FleetWorker, make_feeder

_LONGEST = 3600.0  # virtual seconds; a world that has not ended by then never will
_FAILING = 10  # in every tenth world, all pages fail
_PATIENT = 5  # in every fifth, some hosts or their robots.txt never answer; giving them up takes long
_STANDING = 90.0  # virtual seconds that a crawl runs at least that does not end by itself
_SLACK = 2.0  # seconds beyond its grace in which a worker must have stopped: the store may be slow

Home = Callable[[Clock], Frontier]


class Trace(Struct, frozen=True):
    """What came of a world."""

    seed: int
    violations: tuple[Violation, ...]  # at most one: the first ends the world
    events: tuple[str, ...]
    digest: str
    seconds: float  # virtual
    requests: int
    rows: int
    stale: int  # settlements that came too late

    @property
    def ok(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        said = "; ".join(map(str, self.violations)) or "all held"
        return (
            f"seed {self.seed}: {said} ({self.requests} requests, {self.rows} rows, {self.stale} too late, "
            f"{self.seconds:.0f} s, {self.digest[:12]})"
        )


def run(seed: int, verbose: bool = False, *, home: Home = MemoryFrontier, set_backs: bool = False) -> Trace:
    """Plays the world of a seed to its end, or to the first thing that must not be. `verbose`: tells the story on
    standard output meanwhile. `set_backs`: with a fleet instead of a single crawl, and a store that goes back."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, _quiet_log():
        kind = FleetWorld if set_backs else World
        world = kind(seed, home, runner.get_loop(), say if verbose else None)
        runner.run(world.play())
        return world.trace()


class World:
    """One crawl: a feeder, and workers that end when it is through."""

    _fleet = False

    def __init__(
        self,
        seed: int,
        home: Home,
        loop: asyncio.AbstractEventLoop,
        aloud: Callable[[str], None] | None = None,
    ) -> None:
        failing = seed % _FAILING == 0 and not self._fleet
        self._seed = seed
        self._loop = loop
        self._failing = failing
        self._mood = CALM if failing else self._mood_of(seed)
        self._faults = Faults(seed, self._mood, loop.time)
        self._story = Story(loop.time, aloud)
        self._standing = is_standing(seed) and not failing
        self._closing = False
        self._web = self._make_web(seed)
        self._plan = plan_of(seed, self._web, failing=failing, fleet=self._fleet)
        self._checker = Checker(self._web, self._plan.settings, self._fail)
        self._servers = Servers(self._plan.settings, self._checker)
        self._journal = FaultyJournal(self._faults)
        self._clock = SimulatedClock(loop)
        self._home = home(self._clock)
        rng = Random(f"past {seed}")
        self._store = CheckedFrontier(self._home, self._checker, self._journal, JOB, rng)
        self._workers = self._faults.choose(4) + 1
        self._engines: dict[str, Engine] = {}
        self._stopped_at: dict[str, float] = {}
        self._violations: list[Violation] = []
        self._over = asyncio.Event()
        loop.set_exception_handler(self._unforeseen)

    def _mood_of(self, seed: int) -> Mood:
        return mood_of(seed)

    def _make_web(self, seed: int) -> Web:
        patient = seed % _PATIENT == 0
        return Web(seed, failing=self._failing, hanging=patient, broken=patient, changes=self._standing)

    # -- from beginning to end

    async def play(self) -> None:
        await submit(self._plan, self._home)
        running = [asyncio.create_task(life) for life in self._lives()]
        befalling = asyncio.create_task(self._befall())
        all_ended = asyncio.gather(*running)
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait((all_ended, over), timeout=_LONGEST, return_when=asyncio.FIRST_COMPLETED)
        if not all_ended.done():
            job = await self._home.job(JOB)
            counters = job.counters if job is not None else None
            self._fail(Violation("ends", f"the crawl has not ended after {_LONGEST:g} s: {counters}"))
        if all_ended.done() and not self._violations:
            all_ended.result()
            await self._look_back()
        for process in list(self._store.processes):
            process.kill()
        for task in (all_ended, over, befalling):
            task.cancel()

    def _lives(self) -> Iterable[Coroutine[None, None, None]]:
        workers = [self._keep_running("w", n) for n in range(self._workers)]
        return [self._keep_running("feeder", 0), *workers, *([self._close()] if self._standing else [])]

    async def _close(self) -> None:
        """Ends a crawl that does not end by itself: after a while in which every page was visited again."""
        await asyncio.sleep(_STANDING)
        while not self._faults.calm or not self._checker.follows_all():  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        self._store.past.end()
        now = await self._home.now()
        while self._checker.owes_visits(now):  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        self._stop_all()

    def _stop_all(self) -> None:
        self._closing = True
        for process in list(self._store.processes):
            self._stop(process)

    async def _look_back(self) -> None:
        job = await self._home.job(JOB)
        assert job is not None
        self._checker.counted(job.counters, await self._home.now())
        async for record in self._home.hosts():
            self._checker.places(record)
        self._journal.cut(await self._home.journal_length(JOB, self._journal.key) or 0)
        self._checker.ended(self._rows, everything_fails=self._failing, workers=self._workers)

    @property
    def _rows(self) -> Sequence[bytes]:
        return self._journal.rows

    def trace(self) -> Trace:
        return Trace(
            self._seed,
            tuple(self._violations),
            tuple(self._story.lines),
            self._story.digest,
            self._loop.time(),
            self._checker.hits.total(),
            len(self._rows),
            self._checker.stale,
        )

    # -- what must not be

    def _fail(self, violation: Violation) -> None:
        if not self._over.is_set():
            self._violations.append(violation)
            self._story.tell("!", str(violation))
            self._over.set()

    def _unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, SimulatedFault) and error.process.dead:
            return  # killed in the same moment, so nobody was left to hear of it
        self._fail(Violation("bug", f"{context['message']}: {error!r}"))

    # -- the supervisor

    async def _keep_running(self, role: str, number: int) -> None:
        for life in count():
            name = f"{role}{number}.{life}"
            process = Process(name, Random(f"process {self._seed} {name}"))
            self._store.processes.append(process)
            self._story.tell(name, "starts")
            ending = await self._live(process, feeds=role == "feeder")
            self._store.processes.remove(process)
            self._engines.pop(name, None)
            self._story.tell(name, ending)
            if await self._is_through(role):
                return
            await asyncio.sleep(self._faults.pick(0.2, 3.0))

    async def _live(self, process: Process, *, feeds: bool) -> str:
        frontier = cast(Frontier, FaultyFrontier(self._store, process, self._faults, self._story))
        life = asyncio.create_task(self._feed(frontier) if feeds else self._work(process, frontier))
        death = asyncio.create_task(process.death.wait())
        await asyncio.wait((life, death), return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if process.dead:
            life.cancel()
            return "is dead"
        error = asyncio.CancelledError("nobody asked for it") if life.cancelled() else life.exception()
        if isinstance(error, ShoalError):
            return f"gives up: {error}"
        if error is not None:
            self._fail(Violation("bug", f"{process.name} raised {error!r}"))
        elif not feeds:
            await self._ended_well(process)
        return "ends"

    async def _feed(self, frontier: Frontier) -> None:
        await make_feeder(self._plan, frontier).feed()

    async def _work(self, process: Process, frontier: Frontier) -> None:
        transport = SimulatedTransport(
            self._web, process, self._plan.settings, self._faults, self._checker, self._servers, self._story
        )
        worker = CrawlWorker(self._plan, process, frontier, transport, self._journal)
        self._engines[process.name] = worker.engine
        if self._closing:
            self._stop(process)
        await worker.run()

    async def _ended_well(self, process: Process) -> None:
        """A worker ends by itself when there is nothing left to do, or because it was asked to."""
        asked = self._stopped_at.get(process.name)
        if asked is None:
            through = await self._is_through("w")
            self._checker.expect(through, "ends", f"{process.name} ended, though there is work left")
        else:
            since = max(asked, process.paused_until, self._store.away_until)
            late = self._loop.time() - since - self._plan.settings.grace - _SLACK
            self._checker.stopped(process.name, late)

    async def _is_through(self, role: str) -> bool:
        job = await self._home.job(JOB)
        assert job is not None
        return self._closing or (job.fed_all if role == "feeder" else job.exhausted)

    # -- what happens at any time

    async def _befall(self) -> None:
        await asyncio.gather(*(self._now_and_then(every, happen) for every, happen in self._happenings()))

    def _happenings(self) -> Sequence[tuple[float, Callable[[Process], None]]]:
        mood = self._mood
        return (
            (mood.kills_every, self._kill),
            (mood.stops_every, self._stop),
            (mood.clock_steps_every, self._set_a_clock),
        )

    async def _now_and_then(self, every: float, happen: Callable[[Process], None]) -> None:
        while every and not self._faults.calm:
            await asyncio.sleep(self._faults.next_in(every))
            if processes := self._store.processes:
                happen(processes[self._faults.choose(len(processes))])

    def _kill(self, process: Process) -> None:
        self._story.tell(process.name, "is killed")
        process.kill()

    def _stop(self, process: Process) -> None:
        engine = self._engines.get(process.name)
        if engine is not None and process.name not in self._stopped_at:
            self._story.tell(process.name, "is asked to stop")
            self._stopped_at[process.name] = self._loop.time()
            engine.stop()

    def _set_a_clock(self, process: Process) -> None:
        seconds = self._faults.pick(-4000, 4000)
        self._story.tell(process.name, f"its clock is set {seconds:+.0f} s")
        for clock in (process.clock, self._clock):
            clock.step(seconds)


class FleetWorld(World):
    """Workers of a fleet, which find the job in the store and feed it themselves; and a store that goes back by a
    second or two while they live, more than once. They work on until they are told to stop."""

    _fleet = True

    def __init__(
        self,
        seed: int,
        home: Home,
        loop: asyncio.AbstractEventLoop,
        aloud: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(seed, home, loop, aloud)
        rng = Random(f"fleet {seed}")
        keyed = any(handler.key for handler in self._plan.spider.handlers.values())
        self._table = Table(self._faults) if keyed and not self._standing and rng.random() < 0.5 else None
        self._ends_undone = rng.randrange(3)  # how often the end of the job is forgotten
        self._store.past.begin()
        self._checker.has_file = self._table is None

    def _mood_of(self, seed: int) -> Mood:
        return mood_with_set_backs(seed)

    def _make_web(self, seed: int) -> Web:
        return Web(seed, hanging=seed % 4 == 0, broken=seed % 3 == 0, changes=self._standing)

    def _lives(self) -> Iterable[Coroutine[None, None, None]]:
        workers = [self._keep_running("w", n) for n in range(self._workers)]
        return [*workers, self._close() if self._standing else self._close_when_finished()]

    async def _close_when_finished(self) -> None:
        while not await self._is_finished() or not self._faults.calm:
            await asyncio.sleep(0.1 if self._store.past.kept else 1.0)
            if await self._is_finished() and self._ends_undone:
                self._ends_undone -= 1
                await asyncio.sleep(self._faults.pick(0.0, 1.5))
                self._go_back()
            if self._faults.calm and not self._ends_undone:
                self._store.past.end()
        self._store.past.end()
        self._stop_all()

    async def _is_finished(self) -> bool:
        job = await self._home.job(JOB)
        assert job is not None
        trouble = await trouble_of(self._home, job)
        self._checker.expect(job.state != "paused", "bug", f"the job was paused: {trouble}")
        return job.state == "finished"

    async def _is_through(self, role: str) -> bool:
        return self._closing

    async def _work(self, process: Process, frontier: Frontier) -> None:
        transport = SimulatedTransport(
            self._web, process, self._plan.settings, self._faults, self._checker, self._servers, self._story
        )
        worker = FleetWorker(
            self._plan, process, frontier, transport, self._table or JournalSink(self._journal)
        )
        self._engines[process.name] = worker.engine
        if self._closing:
            self._stop(process)
        await worker.run()

    @property
    def _rows(self) -> Sequence[bytes]:
        return self._journal.rows if self._table is None else self._table.rows

    # -- what happens at any time

    def _happenings(self) -> Sequence[tuple[float, Callable[[Process], None]]]:
        mood = self._mood
        return (
            *super()._happenings(),
            (mood.set_backs_every, lambda process: self._go_back()),
            (mood.deploys_every, lambda process: self._deploy()),
            (mood.freezes_every, lambda process: self._freeze()),
        )

    def _go_back(self) -> None:
        """The store crashes. When it is there again, it knows what it knew a while before."""
        lost, away = (
            self._faults.pick(0.0, 2.5),
            self._faults.pick(0.0, 3.0) if self._faults.choose(2) else 0.0,
        )
        self._store.leave(away)
        self._loop.call_later(away, self._come_back, lost + away)
        if self._faults.choose(4) == 0:
            self._loop.call_later(self._faults.pick(0.0, 1.0), self._go_back)

    def _come_back(self, seconds: float) -> None:
        if not self._store.past.kept:
            return
        self._servers.store_goes_back(self._loop.time() + HUSH)
        seconds = self._store.go_back(seconds)
        self._story.tell("store", f"goes back by {seconds:.2f} s")

    def _deploy(self) -> None:
        for process in list(self._store.processes):
            self._stop(process)

    def _freeze(self) -> None:
        seconds = self._faults.pick(0.5, 10.0)
        self._story.tell("store", f"its clock stands still for {seconds:.1f} s")
        self._clock.freeze(seconds)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def _quiet_log() -> Iterator[None]:
    """The engine's log tells of every fault; there are many, and all are meant."""
    log = logging.getLogger("shoal")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
