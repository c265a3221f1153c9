"""Starts worker processes, watches them, and starts them again when they die: for `up` and for `crawl --processes`.

A child gets its plan on a socket of its own, and reports there each half second. What its handlers print is not taken
for a report. A child that hangs is ended. The kernel ends all children with their parent, however that ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.guardian import DEATHS, FORCE, STOP, can_resume, restart_delay
from shoal.engine.liveness import HangDetector, Liveness, waits_for_reader
from shoal.engine.lost_workers import report_loss, tell_loss
from shoal.engine.tally import Tally, TallyReport, merge
from shoal.engine.vitals import OwnVitals, Vitals, together
from shoal.errors import ShoalError
from shoal.frontier import open_frontier
from shoal.frontier.loss import Loss
from shoal.frontier.protocol import Frontier
from shoal.inspect.event_log import EventBook
from shoal.inspect.overview import Overview, look
from shoal.jobs.trouble import check_all_done
from shoal.runtime.fork_server import WorkerProcess, fork_server
from shoal.runtime.signals import stopping_on_signals
from shoal.runtime.worker_plan import WorkerPlan
from shoal.telemetry import logging as shoal_log
from shoal.telemetry.endpoint import probes_at
from shoal.telemetry.relaying import lines_of, relay
from shoal.text import pack

log = logging.getLogger("shoal")

_LONG_LIFE = 10.0  # seconds after which a death is not one more in a row
_SILENCE = 30.0  # seconds after which a child that says nothing hangs
_LOOK_EVERY = 0.25
_WATCH_EVERY = 0.5
_HEAD = 4  # bytes of a message's length

Lost = Callable[[Loss], Awaitable[object]]
Watch = Callable[[Overview], None]


class Supervisor:
    """Keeps `count` worker processes running. It ends when each of them has ended because nothing was left to do."""

    def __init__(self, plan: WorkerPlan, count: int, lost: Lost | None = None) -> None:
        divided = plan.divided(count)
        self.children = [Child(number + 1, divided, lost) for number in range(count)]
        self.tally = Tally()  # what is counted in this process
        self._own = OwnVitals()

    async def __aenter__(self) -> Self:
        self._own.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._own.__exit__()

    async def run(self) -> None:
        running = [asyncio.create_task(child.run()) for child in self.children]
        try:
            await asyncio.gather(*running)
        except ShoalError:
            # The error of one: the others hand their pages back. Killed, they would lose an attempt of each.
            self.force()
            await asyncio.wait(running)
            raise

    def stop(self) -> None:
        for child in self.children:
            child.stop()

    def force(self) -> None:
        for child in self.children:
            child.force()

    def stopping(self) -> bool:
        return all(child.stopping for child in self.children)

    def feeding_paused(self) -> bool:
        return any(child.feeding_paused for child in self.children)

    def report(self) -> TallyReport:
        return merge([self.tally.report(), *(report for child in self.children for report in child.reports)])

    def vitals(self) -> Vitals:
        return together([self._own.vitals(), *(child.vitals() for child in self.children)])

    def hangs(self) -> str:
        return next((trouble for child in self.children if (trouble := child.hangs())), "")


class Child:
    """One worker process, started anew when it dies."""

    def __init__(
        self,
        number: int,
        plan: WorkerPlan,
        lost: Lost | None = None,
    ) -> None:
        """`lost` is told of a death."""
        self._number = number
        self._plan = plan
        self._grace = plan.settings().grace
        self._lasting = plan.crawl is None  # started again whatever it died of, for as long as it takes
        self._lost = lost
        self._liveness: Liveness | None = None
        self._process: WorkerProcess | None = None
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

    def vitals(self) -> Vitals:
        return together([self._past_vitals, self._vitals])

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
                failure = ShoalError(error)
                failure.exit_code = code
                raise failure
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
            process = await _start_worker(theirs.fileno(), liveness.file)
        self._process, self._heard_at = process, asyncio.get_running_loop().time()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._detector = HangDetector(liveness)
        watching = asyncio.create_task(self._watch(process, liveness, self._detector))
        try:
            self._writer.write(framed(self._plan))
            if self.stopping:  # told so while it was started
                self.stop()
            error, _ = await asyncio.gather(self._listen(reader), self._relay(process))
            return error, await watching
        finally:
            if process.returncode is None:
                process.kill()
            self._writer.close()
            await asyncio.wait([watching])

    async def _watch(self, process: WorkerProcess, liveness: Liveness, detector: HangDetector) -> Loss:
        """Ends the child if it hangs, or has not stopped in time; takes back what was lost with it."""
        loss: Loss | None = None
        ending = asyncio.create_task(process.wait())
        while not (await asyncio.wait([ending], timeout=_LOOK_EVERY))[0]:
            detector.look(asyncio.get_running_loop().time(), excused=waits_for_reader(1))
            if loss is None and detector.hangs:
                loss = await asyncio.to_thread(liveness.loss_of_hang, process.pid, detector.silence)
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
        while (message := await read_framed(reader)) is not None:
            self._heard_at = asyncio.get_running_loop().time()
            if message.report is not None:
                self._last, self.feeding_paused = message.report, message.feeding_paused
                self._vitals, self._trouble = message.vitals, message.trouble
            error = message.error or error
        return error

    async def _relay(self, process: WorkerProcess) -> None:
        assert process.stderr is not None
        async for line in lines_of(process.stderr):
            relay(line, self._number)

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


async def _start_worker(connection: int, liveness: int) -> WorkerProcess:
    """A process that has these files: its socket to this process, and its liveness file."""
    server = fork_server()
    if server is not None:
        return await server.start(shoal_log.level(), connection, liveness)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "shoal.runtime.child", shoal_log.level()),
        *(str(os.getpid()), str(connection), str(liveness)),
        pass_fds=(connection, liveness),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the parent, which passes it on in its own way
    )


class ChildMessage(Struct, frozen=True, omit_defaults=True):
    """What a child tells its parent: how it is doing, or why it cannot go on."""

    report: TallyReport | None = None
    feeding_paused: bool = False  # it has as much as it can bear
    error: str = ""
    vitals: Vitals = Vitals()
    trouble: str = ""  # why it no longer moves


def framed(message: Struct) -> bytes:
    """The message behind its length."""
    data = pack(message)
    return len(data).to_bytes(_HEAD, "big") + data


async def read_framed(reader: asyncio.StreamReader) -> ChildMessage | None:
    """The next message; None if there will be no more."""
    try:
        length = int.from_bytes(await reader.readexactly(_HEAD), "big")
        return msgspec.msgpack.decode(await reader.readexactly(length), type=ChildMessage)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive_plan(connection: socket.socket) -> WorkerPlan:
    """The first message to a child. No byte more is read: what follows tells it to stop."""
    length = int.from_bytes(_exactly(connection, _HEAD), "big")
    return msgspec.msgpack.decode(_exactly(connection, length), type=WorkerPlan)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError("the parent is gone")
        data += more
    return data


async def supervise(plan: WorkerPlan, count: int, watch: Watch) -> Overview:
    """Runs `count` workers until a signal, or until all is done if they were told so; returns the last look."""
    async with (
        probes_at(plan.metrics) as probes,
        open_frontier(plan.store, patient=True) as frontier,
        EventBook(frontier),
        Supervisor(plan, count, partial(report_loss, frontier)) as supervisor,
    ):
        can_resume()
        with stopping_on_signals(supervisor, grace=plan.settings().grace):
            probes.watch(frontier, supervisor, whole_store=True)
            watching = asyncio.create_task(_look_regularly(frontier, watch))
            try:
                await supervisor.run()
            finally:
                watching.cancel()
        if plan.until_done:
            spiders = plan.load_spiders()
            await check_all_done(frontier, lambda spec: plan.serves(spec, spiders))
        return await look(frontier)


async def _look_regularly(frontier: Frontier, watch: Watch) -> None:
    while True:
        try:
            watch(await look(frontier))
        except ShoalError as error:
            log.debug("cannot look at the fleet: %s", error)
        await asyncio.sleep(_WATCH_EVERY)
