"""A process that only watches the one that crawls.

A command that crawls forks before it has imported anything heavy. The child does all the work, with the terminal, the
files and the options of the command. The parent stays small and waits. It passes SIGTERM and Ctrl-C on to the child,
ends it if it hangs or does not stop in time, and starts another that goes on where it died. A page that makes the child
hang cannot make the parent hang: the parent never reads it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from shoal.engine.liveness import (
    STARTING,
    HangDetector,
    Liveness,
    die_with,
    leave_stacks,
    shared_file,
    waits_for_reader,
)
from shoal.errors import ShoalError
from shoal.frontier.loss import Loss
from shoal.spider.attached import is_attached

T = TypeVar("T")

COMMANDS = frozenset({"crawl", "worker", "up", "coordinator"})
SWITCH = "SHOAL_GUARDIAN"

STOP, FORCE = b"s", b"f"  # what the guardian writes to the pipe

_LOOK_EVERY = 0.25
_RESTART_DELAY, _RESTART_CAP = 0.1, 5.0  # seconds, doubled for each death in a row
_LONG_LIFE = 10.0  # seconds after which a death is not one more in a row
DEATHS = 20  # in a row, before giving up; more than a few pages that kill their worker can cause
_MYSTERIES = 3  # hangs outside any page, before giving up
_ASKED_FOR = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGPIPE,
        *(() if os.name == "nt" else (signal.SIGHUP, signal.SIGQUIT)),
    }
)


class Guarded(NamedTuple):
    """What a process has from its guardian."""

    liveness: Liveness
    leash: int  # a pipe that says when to stop; closed when the guardian is gone
    loss: Loss | None = None  # of the process that it replaces
    ledger: int | None = None  # a file that outlives it; see Ledger in engine/tally.py

    @property
    def restarted(self) -> bool:
        return self.loss is not None


_guarded: Guarded | None = None


def guarded() -> Guarded | None:
    """What this process has from its guardian; None: there is no guardian."""
    return _guarded


def can_resume() -> None:
    """From now on, another process can go on if this one dies."""
    if _guarded is not None:
        _guarded.liveness.can_resume()


async def feeding(reading: Coroutine[Any, Any, T]) -> T:
    """Reads a job's start. It may block the event loop for any time without being taken for a page that hangs."""
    return await (reading if _guarded is None else _guarded.liveness.feeding(reading))


def take_guard(mine: Guarded) -> None:
    """This process has a guardian from now on."""
    global _guarded
    _guarded = mine
    leave_stacks(mine.liveness.file)


def is_wanted(argv: Sequence[str]) -> bool:
    return (
        bool(argv)
        and argv[0] in COMMANDS
        and hasattr(os, "fork")
        and os.environ.get(SWITCH, "1").lower() not in ("0", "off", "no", "false")
        and not _is_debugged(argv)
    )


def _is_debugged(argv: Sequence[str]) -> bool:
    """With a debugger, the process that was started is the one that crawls: an editor has attached itself to it."""
    return is_attached() or any(word == "--debug" or word.startswith("--debug=") for word in argv)


def guard() -> None:
    """Returns in the child. The parent exits here with the child's exit code; ShoalError if it gives up."""
    loss: Loss | None = None
    guardian = Guardian()
    while True:
        leash, hand = os.pipe()
        guardian.liveness.clear()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            os.close(hand)
            guardian.let_go()
            die_with(parent)
            take_guard(Guarded(guardian.liveness, leash, loss, guardian.ledger))
            return
        os.close(leash)
        loss = guardian.watch(child, hand)
        os.close(hand)
        time.sleep(guardian.pause)


class Guardian:
    def __init__(self) -> None:
        self.liveness = Liveness.create()
        self.ledger = shared_file("shoal-ledger")
        self._signals: list[int] = []
        self._wakes, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
        }
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._deaths = self._mysteries = 0
        self.pause = 0.0  # seconds before the next is started

    def _on_signal(self, number: int, _: object) -> None:
        if number == signal.SIGCHLD or (number == signal.SIGINT and self.liveness.debugged):
            return
        self._signals.append(number)

    def let_go(self) -> None:
        """In the child: the guardian handles signals. Ctrl-C reaches both, and so does a service manager's SIGTERM to
        the whole group; the child learns of each once, by its pipe. (A function and not SIG_IGN, which programs that it
        starts would inherit.)"""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self._before[signal.SIGCHLD])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave_it_to_the_guardian)
        os.close(self._wakes)
        os.close(self._waker)

    def watch(self, child: int, hand: int) -> Loss:
        """Returns when the child has died and another is to be started; otherwise exits as the child did."""
        began, told = time.monotonic(), 0
        detector, loss = HangDetector(self.liveness), None
        while (code := _exit_code(child)) is None:
            now = time.monotonic()
            detector.look(now, excused=waits_for_reader(1, 2))
            for _ in self._signals[told:]:
                if self.liveness.state == STARTING:
                    self._end_at_once(child)
                told += 1
                _say(hand, STOP if told == 1 else FORCE)
                detector.told_to_stop(now, self.liveness.grace if told == 1 else 0.0)
            if loss is None and (detector.hangs or detector.overdue):
                loss = self._loss(child, detector)
                os.kill(child, signal.SIGKILL)
            self._sleep(_LOOK_EVERY if self.liveness.limit or told else 1.0)
        if told and loss is not None:
            _give_up(
                "did not stop in time and was ended; nothing is lost, run the same command again to go on"
            )
        if loss is None and (told or not _is_crash(code)):
            _exit_like(code)
        loss = loss._replace(exit=code) if loss is not None else self.liveness.loss(code)
        self._decide(loss, time.monotonic() - began)
        return loss

    def _loss(self, child: int, detector: HangDetector) -> Loss:
        """A page is blamed only if it hung for longer than any page may."""
        return (
            self.liveness.loss_of_hang(child, detector.silence)
            if detector.hangs
            else self.liveness.loss(-signal.SIGKILL)
        )

    def _decide(self, loss: Loss, lived: float) -> None:
        """Whether another is started, and after what pause."""
        what = f"hung for {loss.seconds:.0f} s" if loss.hung else f"died (exit {loss.exit})"
        if self.liveness.state == STARTING:
            _give_up(f"{what} before it had begun")
        if not self.liveness.resumes:
            _give_up(f"{what}, and what it had done was only in memory: nothing is left to go on with", loss)
        self._mysteries = self._mysteries + 1 if loss.hung and not loss.token else 0
        self._deaths = 1 if loss.hung or lived >= _LONG_LIFE else self._deaths + 1
        if self._deaths >= DEATHS:
            _give_up(f"died {self._deaths} times in a row (exit {loss.exit}): see the messages above")
        if self._mysteries >= _MYSTERIES:
            _give_up(f"{what}, {self._mysteries} times in a row, and not because of a page", loss)
        self.pause = restart_delay(self._deaths)

    def _end_at_once(self, child: int) -> NoReturn:
        """The child has begun nothing yet that it would have to finish."""
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if self._signals[0] == signal.SIGINT:
            raise SystemExit(130)
        _exit_like(-self._signals[0])

    def _sleep(self, seconds: float) -> None:
        """Sleeps until a signal comes, such as the one of the child's death."""
        if select.select([self._wakes], [], [], seconds)[0]:
            os.read(self._wakes, 1024)


def restart_delay(deaths: int) -> float:
    """Seconds before a process that died so many times in a row is started again."""
    return min(_RESTART_CAP, _RESTART_DELAY * (1 << min(deaths - 1, 10)))


def _leave_it_to_the_guardian(number: int, frame: object) -> None:
    pass


def _say(hand: int, word: bytes) -> None:
    try:
        os.write(hand, word)
    except BrokenPipeError:
        pass  # the child is ending


def _exit_code(child: int) -> int | None:
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def _is_crash(code: int) -> bool:
    return code < 0 and -code not in _ASKED_FOR


def _exit_like(code: int) -> NoReturn:
    if code < 0 and -code in _ASKED_FOR:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise SystemExit(code if code >= 0 else 128 - code)


def _give_up(what: str, loss: Loss | None = None) -> NoReturn:
    if loss is not None and loss.stack:
        sys.stderr.write(loss.stack)
    raise ShoalError(f"the process that crawls {what}")
