"""What a process does while a person is in a debugger.

A prompt in a handler stops the event loop for minutes. Whoever shows progress, counts the time of handlers or keeps
leases listens here, and steps aside. Once a debugger was opened, pages are worked on one at a time: those in flight
would only time out.

Everything here is about the process: a process has one terminal, and one `sys.breakpointhook`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

from shoal.events import event
from shoal.spider.attached import is_attached

TERMINAL = "/dev/tty"

Listener = Callable[[bool], None]  # called with True when a prompt opens, and with False when it is left

# Modules on the stack of a thread that a debugger has stopped. What is built on bdb (pdb, ipdb, pudb) has its frames.
_DEBUGGERS = frozenset({"bdb", "debugpy", "pydevd", "_pydevd_bundle", "_pydevd_frame_eval"})


class _State:
    """Of this process."""

    def __init__(self) -> None:
        self.active = False
        self.seconds = 0.0  # at prompts that were left
        self.since: float | None = None  # when the open prompt was opened
        self.quit = False
        self.crawls = 0
        self.before: Callable[..., object] | None = None  # the breakpoint hook of others
        self.listeners: list[Listener] = []
        self.quitters: list[Callable[[], None]] = []
        self.passed_over = False  # a breakpoint was, and that was told
        self.why_none = ""  # why no prompt can be opened here
        self.watch: Callable[[], None] | None = (
            None  # makes a debugger stop at its breakpoints, in this thread
        )


_state = _State()


# -- asked by those who step aside


def is_active() -> bool:
    """Whether a person debugs this process: pages are then worked on one at a time."""
    return _state.active


def activate() -> None:
    _state.active = True


def paused() -> float:
    """Seconds that this process has spent in debuggers."""
    since = _state.since
    return _state.seconds + (0.0 if since is None else time.monotonic() - since)


def add_pause(seconds: float) -> None:
    """A debugger that does not say when it stops the process has stopped it for so long."""
    if _state.since is None:
        _state.seconds += seconds


def at_prompt() -> bool:
    return _state.since is not None


def check_quit() -> None:
    """Call it when the code of a user has raised something. If a person has left the debugger by `quit`, the page goes
    back as if it had not been begun."""
    if _state.quit:
        raise asyncio.CancelledError("the debugger was quit")


def is_inside(frame: FrameType | None, until: tuple[str, ...] = ()) -> bool:
    """Whether a debugger has stopped the thread of that frame. `until`: files below which frames do not count."""
    while frame is not None and frame.f_code.co_filename not in until:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False


# -- listening


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    _state.listeners.append(listener)
    try:
        yield
    finally:
        _state.listeners.remove(listener)


@contextmanager
def stopped_by_quit(stop: Callable[[], None]) -> Iterator[None]:
    """`stop` is called when the person quits the debugger."""
    _state.quitters.append(stop)
    try:
        yield
    finally:
        _state.quitters.remove(stop)


def quit_crawl() -> None:
    _state.quit = True
    for stop in tuple(_state.quitters):
        stop()


@contextmanager
def prompting() -> Iterator[None]:
    """A person is at a prompt."""
    activate()
    outermost = _state.since is None
    if outermost:
        _state.since = time.monotonic()
        _tell(True)
    try:
        yield
    finally:
        if outermost:
            _tell(False)
            since, _state.since = _state.since, None
            _state.seconds += time.monotonic() - since if since is not None else 0.0


@contextmanager
def own_signals() -> Iterator[None]:
    """Ctrl-C at the prompt ends what was typed, and not the crawl. The event loop cannot act on SIGTERM before it runs
    again: it gets the signal then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    wakes = signal.set_wakeup_fd(-1)  # by which the loop would learn of Ctrl-C
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    end = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, end)
        signal.set_wakeup_fd(wakes)
        for number in received:
            signal.raise_signal(number)


def _tell(opened: bool) -> None:
    for listener in tuple(_state.listeners):
        listener(opened)


# -- breakpoint()


@contextmanager
def breakpoints() -> Iterator[None]:
    """While a crawl runs, `breakpoint()` in its code opens a prompt for which all of it steps aside."""
    _state.crawls += 1
    if _state.crawls == 1:
        _state.quit = _state.passed_over = False
        _state.before, sys.breakpointhook = sys.breakpointhook, _on_breakpoint
        if is_attached():
            activate()
        if _state.watch is not None:
            _state.watch()
    try:
        yield
    finally:
        _state.crawls -= 1
        if not _state.crawls:
            _end()


def _end() -> None:
    if sys.breakpointhook is _on_breakpoint and _state.before is not None:
        sys.breakpointhook = _state.before
    if _state.active and "shoal.spider.debugger" in sys.modules:
        sys.settrace(None)
    _state.active, _state.watch = False, None


def stop_in_handlers(watch: Callable[[], None]) -> None:
    """The next crawl is one to be debugged. `watch` is called in the thread of its event loop."""
    activate()
    _state.watch = watch


def allow_none(why: str) -> None:
    """No prompt can be opened in this process; `why` says what to do."""
    _state.why_none = why


def _on_breakpoint(*args: Any, **options: Any) -> object:
    before, frame = _state.before or sys.__breakpointhook__, sys._getframe(1)
    chosen = os.environ.get("PYTHONBREAKPOINT", "")
    if before is sys.__breakpointhook__ and chosen == "0":
        return None
    if before is not sys.__breakpointhook__ or chosen not in ("", "pdb.set_trace"):
        with prompting():
            return before(*args, **options)
    if why := _state.why_none or why_no_terminal():
        if not _state.passed_over:
            _state.passed_over = True
            where = f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
            event("breakpoint_passed", where=where, why=why)
        return None
    from shoal.spider.debugger import debugger

    debugger().stop_in(frame)
    return None


# -- the terminal


def why_no_terminal() -> str:
    """Why nobody can be asked anything; "" if somebody can."""
    terminal = open_terminal()
    if terminal is None:
        return "there is no terminal"
    if terminal is not sys.stdin:
        terminal.close()
    return ""


def open_terminal() -> TextIO | None:
    """Where a person types: standard input, or the terminal itself where that has something else, such as URLs."""
    if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        return sys.stdin
    try:
        terminal = open(TERMINAL)  # noqa: SIM115
    except OSError:
        return None
    # In the background, reading from it would stop all processes of the command.
    if os.tcgetpgrp(terminal.fileno()) != os.getpgrp():
        terminal.close()
        return None
    return terminal
