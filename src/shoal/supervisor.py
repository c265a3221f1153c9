"""Several processes on one frontier: this one feeds, watches and restarts; its children fetch.

A child is told its part on standard input (one line) and reports on standard output (a line each half second). When
its input closes it drains: so children never outlive a parent, however that ends.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.crawling import feeding
from shoal.crew import make_admission
from shoal.errors import SettingsError, ShoalError, StoreError
from shoal.feeding import Feeder
from shoal.frontier import open_frontier
from shoal.observe.events import EventBook
from shoal.observe.logging import environment, relay
from shoal.observe.machine import Machine
from shoal.observe.probes import probes_at
from shoal.observe.tally import Tally, TallyReport, merge
from shoal.observe.view import View
from shoal.observe.vitals import Pulse, Subject, Vitals, together
from shoal.observe.watching import Watch, watching
from shoal.plan import Plan, conclude, prepare
from shoal.settings import Settings
from shoal.signals import stopping_on_signals
from shoal.source import SpiderSource
from shoal.telling import event

log = logging.getLogger("shoal")

_RESTART_DELAY = 0.1  # seconds, doubled for each death in a row
_RESTART_CAP = 5.0
_LONG_LIFE = 10.0  # seconds after which a death is not one more in a row
_SILENCE = 30.0  # seconds after which a child that says nothing hangs
_DEATHS = 20  # in a row, before giving up; a few pages that kill their worker must not get there


class Part(Struct, frozen=True):
    """What a child is told."""

    source: SpiderSource
    settings: Settings
    job: str
    store: str
    output: str
    trace: bool = False


class Word(Struct, frozen=True, omit_defaults=True):
    """What a child says: its counters, or why it cannot go on."""

    report: TallyReport | None = None
    feeding_paused: bool = False  # it has as much as it can bear
    error: str = ""
    vitals: Vitals = Vitals()
    trouble: str = ""  # why it no longer moves


async def supervise(plan: Plan, watch: Watch | None) -> View:
    if plan.source is None or plan.output is None:
        raise SettingsError(
            "processes: several processes need an output file; leave out `-o -` or --processes"
        )
    async with AsyncExitStack() as stack:
        probes = await stack.enter_async_context(probes_at(plan.metrics))
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        await stack.enter_async_context(EventBook(frontier))
        job = await prepare(plan, frontier)
        if job.state == "finished":
            return View(job, TallyReport(), note="already finished")
        tally = Tally()
        team = Team(plan, plan.source, str(plan.output))
        stack.enter_context(stopping_on_signals(team))
        pulse = stack.enter_context(Pulse())

        def report() -> TallyReport:
            return merge([tally.report(), *team.reports()])

        probes.watch(frontier, subject_of(team.children, report, pulse), whole_store=True)
        look = await stack.enter_async_context(watching(plan, frontier, report, watch))
        admission = make_admission(plan.spider, plan.settings)
        feeder = Feeder(
            plan.spider,
            frontier,
            admission,
            plan.settings,
            tally,
            job=plan.job,
            paused=lambda: team.feeding_paused,
        )
        async with feeding(feeder, team):
            await team.run()
        await conclude(plan, frontier)
        return await look()


class Team:
    """The children. It ends when each of them has ended because there was nothing left to do."""

    def __init__(self, plan: Plan, source: SpiderSource, output: str) -> None:
        count = plan.settings.processes
        share = -(-plan.settings.concurrency // count)
        memory = Machine(plan.settings.memory_limit, processes=count).read().memory_limit
        settings = replace(plan.settings, processes=1, concurrency=share, memory_limit=memory)
        part = Part(source, settings, plan.job, plan.store, output, plan.trace)
        self.children = [Child(number + 1, part) for number in range(count)]

    def reports(self) -> Sequence[TallyReport]:
        return [report for child in self.children for report in child.reports]

    @property
    def feeding_paused(self) -> bool:
        return any(child.feeding_paused for child in self.children)

    async def run(self) -> None:
        await asyncio.gather(*(child.run() for child in self.children), return_exceptions=False)

    def stop(self) -> None:
        for child in self.children:
            child.stop()

    def force(self) -> None:
        for child in self.children:
            child.force()


class Child:
    """One worker process, started anew when it dies."""

    def __init__(
        self, number: int, part: Struct, *, module: str = "shoal.child", lasting: bool = False
    ) -> None:
        """`lasting`: it is started again whatever it died of, for as long as it takes."""
        self._number = number
        self._part = part
        self._module = module
        self._lasting = lasting
        self._process: asyncio.subprocess.Process | None = None
        self._past: list[TallyReport] = []  # of those that died, in one
        self._last: TallyReport | None = None
        self._past_vitals = self._vitals = Vitals()
        self._trouble = ""
        self._heard_at = 0.0  # the loop's time
        self.stopping = False
        self.feeding_paused = False

    @property
    def reports(self) -> Sequence[TallyReport]:
        return [*self._past, self._last] if self._last is not None else self._past

    @property
    def vitals(self) -> Vitals:
        return together([self._past_vitals, self._vitals])

    @property
    def hangs(self) -> str:
        """Why it no longer moves; "": it does, or is being started again."""
        if self._process is None or self._process.returncode is not None:
            return ""
        silent = asyncio.get_running_loop().time() - self._heard_at
        trouble = f"silent for {silent:.0f} s" if silent > _SILENCE else self._trouble
        return f"worker {self._number}: {trouble}" if trouble else ""

    async def run(self) -> None:
        deaths = 0
        while not self.stopping:
            began = asyncio.get_running_loop().time()
            error, code = await self._run_once()
            if error and not self._lasting:
                raise StoreError(error)
            if code == 0 or self.stopping:
                return
            worked = self._last is not None and self._last.pages > 0
            lived = asyncio.get_running_loop().time() - began
            deaths = 1 if worked or lived >= _LONG_LIFE else deaths + 1
            self._bank()
            if deaths >= _DEATHS and not self._lasting:
                raise ShoalError(
                    f"worker {self._number} died {deaths} times in a row (exit {code}): see the messages above"
                )
            said = (
                f"worker {self._number} died (exit {code}), starting it again{f': {error}' if error else ''}"
            )
            event("worker_died", said, worker=self._number, exit=code, reason=error)
            await asyncio.sleep(min(_RESTART_CAP, _RESTART_DELAY * 2 ** min(deaths - 1, 10)))

    def _bank(self) -> None:
        if self._last is not None:
            self._past = [merge([*self._past, replace(self._last, in_flight=0)])]
            self._last = None
        self._past_vitals, self._vitals = together([self._past_vitals, self._vitals.past()]), Vitals()
        self._trouble, self.feeding_paused = "", False

    async def _run_once(self) -> tuple[str, int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent, which passes it on in its own way
            limit=1 << 24,
            env=environment(),
        )
        self._process, self._heard_at = process, asyncio.get_running_loop().time()
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(self._part) + b"\n")
            error, _ = await asyncio.gather(self._listen(process), self._relay(process))
            return error, await process.wait()
        except BaseException:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise

    async def _listen(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        error = ""
        async for line in process.stdout:
            try:
                word = msgspec.json.decode(line, type=Word)
            except msgspec.DecodeError:
                extra = {"fields": {"worker": self._number}}
                log.info("worker %d: %s", self._number, line.decode(errors="replace").rstrip(), extra=extra)
                continue  # a handler that prints
            self._heard_at = asyncio.get_running_loop().time()
            if word.report is not None:
                self._last, self.feeding_paused = word.report, word.feeding_paused
                self._vitals, self._trouble = word.vitals, word.trouble
            error = word.error or error
        return error

    async def _relay(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            relay(line.decode(errors="replace").rstrip(), worker=self._number)

    def stop(self) -> None:
        self.stopping = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def force(self) -> None:
        self.stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()


def subject_of(children: Sequence[Child], report: Callable[[], TallyReport], pulse: Pulse) -> Subject:
    """A parent and its children, as one."""
    return Subject(
        report,
        vitals=lambda: together([pulse.vitals(), *(child.vitals for child in children)]),
        hangs=lambda: next((trouble for child in children if (trouble := child.hangs)), ""),
        stopping=lambda: all(child.stopping for child in children),
    )
