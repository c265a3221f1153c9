"""Notices handlers that block the event loop.

While a handler computes or sleeps, nothing else runs: no page arrives, no lease is renewed. A thread watches a timer of
the loop. When the timer stops, the log names the line that blocks, and after `handler_timeout` the handler is
interrupted, like any handler that takes too long.

This works only for a handler that runs Python code. If a regex or a parser in C holds the interpreter's lock, or the
handler sleeps in the kernel, the guardian ends the process a little later: the timer also writes the liveness record.

While a person is in a debugger, the thread does what the loop cannot: it shows that the process is alive, and renews
its leases.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from types import FrameType

from shoal.engine.liveness import Liveness
from shoal.events import event
from shoal.settings import Settings
from shoal.spider import debugging, handlers, hook_calls
from shoal.spider.handlers import HandlerTimeout

_PULSE = 0.25
_OWN_PAUSE = 1.0  # seconds between two looks that mean that the thread itself was held up
_CALLERS = (handlers.__file__, hook_calls.__file__)


class Watchdog:
    def __init__(
        self,
        settings: Settings,
        liveness: Liveness | None = None,
        handler_timeout: Callable[[], float] | None = None,
        renew: Callable[[], None] | None = None,
    ) -> None:
        """`handler_timeout`: the longest of the jobs that are served at the moment. `renew` renews the leases of the
        process, in this thread."""
        self._liveness = liveness
        self._warn_after = settings.handler_warn
        self._handler_timeout = handler_timeout or (lambda: settings.handler_timeout)
        self._interrupt_after = settings.handler_timeout
        self._renew = renew
        self._renew_every = settings.lease / 3
        self._beat = self._renewed = 0.0
        self._loop_thread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._done = threading.Event()
        watch = copy_context()  # so that events of the thread reach the same listeners
        self._thread = threading.Thread(
            target=watch.run, args=(self._watch,), name="shoal-watchdog", daemon=True
        )

    def start(self) -> None:
        self._loop_thread = threading.get_ident()
        self._pulse()
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._liveness is not None:
            self._liveness.unwatch()
        self._thread.join()

    def _pulse(self) -> None:
        self._beat = self._renewed = time.monotonic()
        self._interrupt_after = self._handler_timeout()
        if self._liveness is not None:
            self._liveness.beat(self._interrupt_after)
        self._timer = asyncio.get_running_loop().call_later(_PULSE, self._pulse)

    def _watch(self) -> None:
        warned = interrupted = 0.0  # the last beat that was logged, and interrupted
        heard = stopped = 0.0  # the last beat, and for how long the process has stood still since
        looked, used = time.monotonic(), time.process_time()
        while not self._done.wait(_PULSE):
            now, late, spent = (
                time.monotonic(),
                time.monotonic() - looked - _PULSE,
                time.process_time() - used,
            )
            looked, used = now, used + spent
            # A debugger may stop all threads. Otherwise it is a handler that holds the interpreter's lock; or nobody
            # could run, as after Ctrl-Z and fg, and no handler is to blame for that.
            held_up = late > _OWN_PAUSE and debugging.is_active()
            beat = self._beat
            if beat != heard:
                heard, stopped = beat, 0.0
            if late > _OWN_PAUSE and spent < late / 2:
                stopped += late
            silence = now - beat - _PULSE - stopped
            if silence < self._warn_after or self._done.is_set():
                continue
            is_debugged, where = self._look()
            if is_debugged or held_up:
                self._excuse(now)
                continue
            if where is None:
                continue
            if warned != beat:
                warned = beat
                event("handler_blocks", where=where)
            if silence >= self._interrupt_after and interrupted != beat:
                interrupted = beat
                event("handler_interrupted", where=where, seconds=silence)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._loop_thread), ctypes.py_object(HandlerTimeout)
                )

    def _look(self) -> tuple[bool, str | None]:
        """Whether a debugger holds the loop, and the handler it is in. Frames do not leave this method: while somebody
        has them, they keep pages in memory."""
        frame = sys._current_frames().get(self._loop_thread)
        if debugging.at_prompt() or debugging.is_inside(frame, _CALLERS):
            return True, None
        handler = _handler_frame(frame)
        if handler is None:
            return False, None
        return False, f"{handler.f_code.co_name} ({handler.f_code.co_filename}:{handler.f_lineno})"

    def _excuse(self, now: float) -> None:
        """The loop stands still in a debugger."""
        debugging.add_pause(now - self._beat)
        self._beat = now
        if self._liveness is not None:
            self._liveness.beat(self._interrupt_after)
        if self._renew is not None and now - self._renewed >= self._renew_every:
            self._renewed = now
            self._renew()


def _handler_frame(frame: FrameType | None) -> FrameType | None:
    """The user's frame, if the loop's thread is inside a handler or a hook right now."""
    below: FrameType | None = None
    while frame is not None:
        if frame.f_code.co_filename in _CALLERS:
            return below
        below, frame = frame, frame.f_back
    return None
