"""What a process is doing right now, in shared memory that outlives it.

The process writes a beat of its event loop, and the lease whose page is on the CPU; its parent reads them. A process
that hangs cannot report anything, but this record still says which page it worked on. Behind the record, the same file
holds the stack, which the interpreter's fault handler writes without the interpreter's lock.

A command imports this first, so it imports little.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

from shoal.frontier.loss import Loss

T = TypeVar("T")

# A process that listens can be told to stop. Before and after, there is nothing to finish.
STARTING, LISTENING, ENDING = range(3)

STACK_SIGNAL: int = getattr(signal, "SIGUSR2", 0)  # asks a process for its stack; 0: not available here

_BEAT, _TOKEN, _STATE, _LIMIT, _GRACE, _RESUMES, _DEBUGGED = range(7)  # numbers of eight bytes
_NUMBERS = 7 * 8
_WORKER, _LONGEST_NAME = 64, 190
_LOSS_FILE, _LONGEST_PATH = 256, 2000
_SIZE = mmap.PAGESIZE

_LATER = 2.0  # seconds from the interruption of a handler to the end of its process
_FEEDING = 2**64 - 1  # stands for a lease while a job's start is read

_FOR_EVER = 2**63
_LONGEST = 2.0**53  # milliseconds: some 285,000 years
_CTRL_C = 0.5  # seconds that Ctrl-C takes to reach the parent at most

_LONGEST_STACK = 32_768  # bytes kept of it
_STACK_PATIENCE = 2.0  # seconds for a process to write its stack
_LOOK = 0.02
_STUCK = 1.0  # seconds without a beat after which a process that was told to stop is not waited for
_WRITING_DOWN = 10.0
_OWN_PAUSE = 1.0  # seconds between two looks that mean that the watcher itself was held up


def shared_file(name: str) -> int:
    """An empty file without a path, for processes that inherit it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    from tempfile import TemporaryFile

    with TemporaryFile() as made:
        return os.dup(made.fileno())


class Liveness:
    """The record: one page of memory that two processes share, and the file behind it."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._memory = mmap.mmap(file, _SIZE)
        self._numbers = memoryview(self._memory)[:_NUMBERS].cast("Q")

    @classmethod
    def create(cls) -> Liveness:
        recorder = cls._sized(shared_file("shoal-flight"))
        recorder.clear()
        return recorder

    @classmethod
    def _sized(cls, file: int) -> Liveness:
        os.ftruncate(file, _SIZE)
        return cls(file)

    def close(self) -> None:
        self._numbers.release()
        self._memory.close()
        os.close(self.file)

    # -- written by the process

    def listen(self, grace: float) -> None:
        """From now on the process can be told to stop, and then needs up to `grace` seconds."""
        self._numbers[_GRACE] = _milliseconds(grace)
        self._numbers[_STATE] = LISTENING

    def end(self) -> None:
        self._numbers[_STATE] = ENDING

    def can_resume(self) -> None:
        """Another process can go on if this one dies."""
        self._numbers[_RESUMES] = 1

    def name(self, worker: str, loss_file: str = "") -> None:
        """`loss_file`: where to leave the loss if it hangs; "": nowhere."""
        self._write(_WORKER, _LONGEST_NAME, worker)
        self._write(_LOSS_FILE, _LONGEST_PATH, loss_file)

    def beat(self, handler_timeout: float) -> None:
        """The event loop runs. The process hangs if the next beat does not come until a little after a handler would be
        interrupted."""
        self._numbers[_BEAT] += 1
        self._numbers[_LIMIT] = _milliseconds(handler_timeout + _LATER)

    def unwatch(self) -> None:
        self._numbers[_LIMIT] = 0

    def at_prompt(self, opened: bool) -> None:
        """A person is in a debugger, or has left it. That counts a little longer: perhaps Ctrl-C has ended the prompt,
        and the parent has not seen it yet."""
        self._numbers[_DEBUGGED] = _FOR_EVER if opened else int((time.monotonic() + _CTRL_C) * 1000)

    async def on_cpu(self, token: int, page: Coroutine[Any, Any, T], handler_timeout: float) -> T:
        """Runs a page. While one of its steps runs, the record has its lease; while the page waits, it does not."""
        return await self._steps(token, page, _milliseconds(handler_timeout + _LATER))

    async def feeding(self, start: Coroutine[Any, Any, T]) -> T:
        """Reads the start of a job. That is the user's own code, which may block the loop for any time."""
        return await self._steps(_FEEDING, start, 0)

    @coroutine
    def _steps(self, token: int, page: Coroutine[Any, Any, T], limit: int) -> Generator[Any, Any, T]:
        numbers = self._numbers
        step: Callable[[Any], Any] = page.send
        value: Any = None
        while True:
            numbers[_TOKEN] = token
            if limit:
                numbers[_LIMIT] = limit
            try:
                awaited = step(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                numbers[_TOKEN] = 0
            try:
                step, value = page.send, (yield awaited)
            except BaseException as error:
                step, value = page.throw, error

    # -- read by its parent

    def clear(self) -> None:
        """Empties the record for a new process."""
        self._memory[:] = bytes(_SIZE)
        os.ftruncate(self.file, _SIZE)
        os.lseek(self.file, _SIZE, os.SEEK_SET)

    @property
    def state(self) -> int:
        return self._numbers[_STATE]

    @property
    def beats(self) -> int:
        return self._numbers[_BEAT]

    @property
    def limit(self) -> float:
        """Seconds without a beat after which the process hangs; 0: it is not watched."""
        return self._numbers[_LIMIT] / 1000

    @property
    def grace(self) -> float:
        return self._numbers[_GRACE] / 1000

    @property
    def resumes(self) -> bool:
        return bool(self._numbers[_RESUMES])

    @property
    def feeds(self) -> bool:
        return self._numbers[_TOKEN] == _FEEDING

    @property
    def debugged(self) -> bool:
        """Whether a person is in a debugger: then it does not hang, and Ctrl-C is for the debugger."""
        return self._numbers[_DEBUGGED] > time.monotonic() * 1000

    @property
    def worker(self) -> str:
        return self._read(_WORKER)

    @property
    def stack(self) -> str:
        return os.pread(self.file, _LONGEST_STACK, _SIZE).decode(errors="replace")

    def loss(self, code: int) -> Loss:
        """The loss of a process that died by itself. Which page killed it is not certain: it may have been another
        thread."""
        return Loss(self.worker, exit=code)

    def loss_of_hang(self, pid: int, seconds: float) -> Loss:
        """The loss of a process that hangs: asks it for its stack, and writes the loss to the file for the process that
        takes its leases back. It must be called while the process lives: once it is dead, others may read the file."""
        token = self._numbers[_TOKEN]
        if STACK_SIGNAL:
            _ask_for_stack(pid, self.file)
        loss = Loss(self.worker, token, max(seconds, 0.1), self.stack)
        if path := self._read(_LOSS_FILE):
            try:
                file = os.open(path, os.O_WRONLY)
            except OSError:
                return loss  # the worker was never announced, so nobody reads its file
            try:
                os.pwrite(file, loss.encode(), 0)
            finally:
                os.close(file)
        return loss

    # -- texts, each with its length before it

    def _write(self, at: int, most: int, text: str) -> None:
        data = os.fsencode(text)
        if len(data) > most:
            data = b""
        self._memory[at : at + 2 + len(data)] = len(data).to_bytes(2, "little") + data

    def _read(self, at: int) -> str:
        length = int.from_bytes(self._memory[at : at + 2], "little")
        return os.fsdecode(self._memory[at + 2 : at + 2 + length])


class HangDetector:
    """Watches the beats of a process, and whether it stops when told to."""

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._beats = -1
        self._heard = self._looked = 0.0
        self._stops_by = float("inf")
        self.silence = 0.0  # seconds without a beat

    def look(self, now: float, *, excused: bool = False) -> None:
        """Reads the beats. Silence does not count if it is `excused`, or if the watcher itself was held up (stopped,
        without CPU, asleep with the machine)."""
        beats = self._liveness.beats
        excused = excused or self._liveness.feeds or self._liveness.debugged
        if beats != self._beats or excused or now - self._looked > _OWN_PAUSE:
            self._beats, self._heard = beats, now
        self._looked = now
        self.silence = now - self._heard

    @property
    def hangs(self) -> bool:
        return 0 < self._liveness.limit < self.silence

    def told_to_stop(self, now: float, grace: float) -> None:
        self._stops_by = min(self._stops_by, now + grace)

    @property
    def overdue(self) -> bool:
        """Whether its grace period is over after it was told to stop: at once if it hangs, otherwise with some seconds
        more to write the last results."""
        stuck = self._liveness.limit > 0 and self.silence > _STUCK
        return self._looked > self._stops_by + (0.0 if stuck else _WRITING_DOWN)


def waits_for_reader(*files: int) -> bool:
    """Whether nobody takes what is written to one of these, as when it is a pipe to a pager. A process that writes
    to it then waits for a person, and does not hang."""
    from select import POLLOUT, poll

    for file in files:
        poller = poll()
        poller.register(file, POLLOUT)
        if not poller.poll(0):
            return True
    return False


def _milliseconds(seconds: float) -> int:
    """What fits into a number of the record."""
    return int(min(seconds * 1000, _LONGEST))


def leave_stacks(file: int) -> None:
    """From now on this process writes its stacks there when it is asked to, whatever it is busy with."""
    import faulthandler

    if STACK_SIGNAL:
        faulthandler.register(STACK_SIGNAL, file=file, all_threads=True)


def _ask_for_stack(pid: int, file: int) -> None:
    """Waits until the stack is written: until it has not grown for a moment."""
    try:
        os.kill(pid, STACK_SIGNAL)
    except ProcessLookupError:
        return
    deadline, size = time.monotonic() + _STACK_PATIENCE, -1
    while time.monotonic() < deadline:
        before, size = size, os.fstat(file).st_size
        if size == before and size > _SIZE:
            return
        time.sleep(_LOOK)


def die_with(parent: int) -> None:
    """The kernel kills this process when its parent dies, even if it hangs (Linux; elsewhere it notices by a closed
    pipe, unless it hangs)."""
    import sys

    if sys.platform != "linux":
        return
    import ctypes

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), signal.SIGKILL)
