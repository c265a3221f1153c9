"""Several processes on one frontier: this one feeds, watches and restarts; its children fetch.

A child is told its part on a socket of its own, and reports there each half second (`wire.py`): what its handlers print
is not taken for a report. A child that hangs is ended. The kernel ends them all with their parent, however that ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.feeder import Feeder
from shoal.engine.guardian import DEATHS, FORCE, STOP, can_resume, restart_delay
from shoal.engine.liveness import HangDetector, Liveness, waits_for_reader
from shoal.engine.lost_workers import report_loss, tell_loss
from shoal.engine.tally import Tally, TallyReport, merge
from shoal.engine.vitals import Machine, OwnVitals, StatusSource, Vitals, together
from shoal.errors import SettingsError, ShoalError, StoreError, UsageError
from shoal.frontier import open_frontier
from shoal.frontier.loss import Loss
from shoal.inspect.event_log import EventBook
from shoal.inspect.progress import View
from shoal.inspect.retention import tidy
from shoal.runtime.admission import make_admission
from shoal.runtime.channel import Word, framed, read_framed
from shoal.runtime.crawl import feeding
from shoal.runtime.plan import Plan, conclude, prepare
from shoal.runtime.signals import stopping_on_signals
from shoal.runtime.watching import Watch, watching
from shoal.settings import Settings
from shoal.spider.loading import SpiderSource
from shoal.telemetry.health import probes_at
from shoal.telemetry.logging import environment, relay

_LONG_LIFE = 10.0  # seconds after which a death is not one more in a row
_SILENCE = 30.0  # seconds after which a child that says nothing hangs
_LOOK_EVERY = 0.25

Lost = Callable[[Loss], Awaitable[object]]


class Part(Struct, frozen=True):
    """What a child is told."""

    source: SpiderSource
    settings: Settings
    job: str
    store: str
    output: str
    trace: bool = False


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
        can_resume()
        team = Team(plan, plan.source, str(plan.output), partial(report_loss, frontier))
        stack.enter_context(stopping_on_signals(team, grace=plan.settings.grace))
        pulse = stack.enter_context(OwnVitals())

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
            source=plan.feeds,
            paused=lambda: team.feeding_paused,
        )
        async with feeding(feeder, team, frontier, plan.job):
            await team.run()
        await conclude(plan, frontier)
        view = await look()
        await tidy(frontier, plan.settings, spared={plan.job})
        return view


class Team:
    """The children. It ends when each of them has ended because there was nothing left to do."""

    def __init__(self, plan: Plan, source: SpiderSource, output: str, lost: Lost | None = None) -> None:
        count = plan.settings.processes
        share = -(-plan.settings.concurrency // count)
        memory = Machine(plan.settings.memory_limit, processes=count).read().memory_limit
        settings = replace(plan.settings, processes=1, concurrency=share, memory_limit=memory)
        part = Part(source, settings, plan.job, plan.store, output, plan.trace)
        grace = plan.settings.grace
        self.children = [Child(number + 1, part, grace=grace, lost=lost) for number in range(count)]

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
        self,
        number: int,
        part: Struct,
        *,
        grace: float = 0.0,
        module: str = "shoal.runtime.child",
        lasting: bool = False,
        lost: Lost | None = None,
    ) -> None:
        """`lasting`: it is started again whatever it died of, for as long as it takes. `lost` is told of a death."""
        self._number = number
        self._part = part
        self._grace = grace
        self._module = module
        self._lasting = lasting
        self._lost = lost
        self._liveness: Liveness | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._detector: HangDetector | None = None
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
            error, loss = await self._run_once()
            code = loss.exit
            if error and not self._lasting:
                raise (UsageError if code == UsageError.exit_code else StoreError)(error)
            if code == 0 or self.stopping:
                return
            worked = self._last is not None and self._last.pages > 0
            lived = asyncio.get_running_loop().time() - began
            deaths = 1 if worked or lived >= _LONG_LIFE else deaths + 1
            self._bank()
            if deaths >= DEATHS and not self._lasting:
                raise ShoalError(
                    f"worker {self._number} died {deaths} times in a row (exit {code}): see the messages above"
                )
            tell_loss(loss, self._number, error)
            await asyncio.sleep(restart_delay(deaths))

    def _bank(self) -> None:
        if self._last is not None:
            self._past = [merge([*self._past, replace(self._last, in_flight=0)])]
            self._last = None
        self._past_vitals, self._vitals = together([self._past_vitals, self._vitals.past()]), Vitals()
        self._trouble, self.feeding_paused = "", False

    async def _run_once(self) -> tuple[str, Loss]:
        """From start to end: what it complained of, and how it died."""
        liveness = self._liveness = self._liveness or Liveness.create()
        liveness.clear()
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", self._module, str(os.getpid()), str(theirs.fileno()), str(liveness.file)),
                pass_fds=(theirs.fileno(), liveness.file),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the parent, which passes it on in its own way
                limit=1 << 20,
                env=environment(),
            )
        self._process, self._heard_at = process, asyncio.get_running_loop().time()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._detector = HangDetector(liveness)
        watching = asyncio.create_task(self._watch(process, liveness, self._detector))
        try:
            self._writer.write(framed(self._part))
            if self.stopping:  # told so while it was started
                self.stop()
            error, _ = await asyncio.gather(self._listen(reader), self._relay(process))
            return error, await watching
        finally:
            if process.returncode is None:
                process.kill()
            self._writer.close()
            await asyncio.wait([watching])

    async def _watch(
        self, process: asyncio.subprocess.Process, liveness: Liveness, detector: HangDetector
    ) -> Loss:
        """Ends the child if it hangs, or has not stopped in time; takes back what was lost with it."""
        loss: Loss | None = None
        ending = asyncio.create_task(process.wait())
        while not (await asyncio.wait([ending], timeout=_LOOK_EVERY))[0]:
            detector.look(asyncio.get_running_loop().time(), excused=waits_for_reader(1))
            if loss is None and detector.hangs:
                loss = await asyncio.to_thread(liveness.last_words, process.pid, detector.silence)
            if (loss is not None or detector.overdue) and process.returncode is None:
                process.kill()
        code = ending.result()
        loss = loss._replace(exit=code) if loss is not None else liveness.loss(code)
        if code and self._lost is not None:
            try:
                await self._lost(loss)
            except ShoalError:
                pass  # whoever works with the store says so; what was lost runs out
        return loss

    async def _listen(self, reader: asyncio.StreamReader) -> str:
        error = ""
        while (word := await read_framed(reader, Word)) is not None:
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
        self._tell(STOP, self._grace)

    def force(self) -> None:
        self.stopping = True
        self._tell(FORCE)

    def _tell(self, word: bytes, patience: float = 0.0) -> None:
        if self._detector is not None:
            self._detector.told_to_stop(asyncio.get_running_loop().time(), patience)
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(word)


def subject_of(
    children: Sequence[Child], report: Callable[[], TallyReport], pulse: OwnVitals
) -> StatusSource:
    """A parent and its children, as one."""
    return StatusSource(
        report,
        vitals=lambda: together([pulse.vitals(), *(child.vitals for child in children)]),
        hangs=lambda: next((trouble for child in children if (trouble := child.hangs)), ""),
        stopping=lambda: all(child.stopping for child in children),
    )
