"""Python's debugger, for a crawl: it steps through the user's own code, and has the terminal while it asks.

Imports pdb, so it is imported when a debugger is opened.
"""

from __future__ import annotations

import inspect
import pdb
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from shoal.errors import UsageError
from shoal.spider import debugging
from shoal.spider.debugging import activate, open_terminal, own_signals, prompting, quit_crawl
from shoal.spider.spider import Spider

_OWN = str(Path(__file__).parents[1])
_LIBRARIES = tuple(
    {_OWN, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
)


class Debugger(pdb.Pdb):
    """Stops only in files that are the user's: `next` at the end of a handler leads to the next page, and not into the
    event loop. `quit` ends the crawl."""

    def __init__(self) -> None:
        super().__init__(nosigint=True)
        self.prompt = "(Pdb) "
        self._files: set[str] = set()  # where somebody asked to stop, whatever is in them
        typed = open_terminal()
        if typed is not None and typed is not sys.stdin:
            self.stdin, self.stdout = typed, open(debugging.TERMINAL, "w")  # noqa: SIM115
            self.use_rawinput = False

    def stop_in(self, frame: FrameType) -> None:
        """Opens a prompt at the next line of that frame."""
        activate()
        self._files.add(frame.f_code.co_filename)
        self.set_trace(frame)

    def stop_at(self, name: str, function: Callable[..., Any]) -> None:
        """From now on, opens a prompt at the first line of the function."""
        code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
        if not isinstance(code, CodeType):
            raise UsageError(f"--debug {name}: it is no Python function, so there is no line to stop at")
        file = self.canonic(code.co_filename)
        if said := self.set_break(file, code.co_firstlineno, funcname=code.co_name):
            raise UsageError(f"--debug {name}: {said}")
        self._files.add(code.co_filename)

    def watch(self) -> None:
        """Stops at its breakpoints in what the current thread calls from now on."""
        self.reset()
        self.botframe = sys._getframe(1)
        self.set_continue()
        sys.settrace(self.trace_dispatch)

    def stop_here(self, frame: FrameType) -> bool:
        return self._is_users(frame.f_code.co_filename) and super().stop_here(frame)

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        # A value that an async handler yields ends the iteration of what called it, which is not the user's.
        if self._is_users(frame.f_code.co_filename):
            super().user_exception(frame, exc_info)

    def _is_users(self, file: str) -> bool:
        return file in self._files or not file.startswith((*_LIBRARIES, "<"))

    def interaction(self, *args: Any, **options: Any) -> None:
        with prompting(), own_signals():
            if self.use_rawinput:
                self.stdout = sys.stdout  # the listeners have put the terminal's there
            try:
                super().interaction(*args, **options)
            except OSError:  # the terminal is gone
                self.set_quit()

    def set_quit(self) -> None:
        super().set_quit()
        quit_crawl()


def stop_in_handlers(spider: Spider, names: Sequence[str]) -> None:
    """The next crawl of this process stops at the first line of these handlers."""
    if why := debugging.why_no_terminal():
        raise UsageError(f"--debug: {why} to ask you on; run it in one, or attach the debugger of an editor")
    for name in names:
        debugger().stop_at(name, spider.handler_named(name).function)
    debugging.stop_in_handlers(debugger().watch)


@cache
def debugger() -> Debugger:
    """The one of this process."""
    return Debugger()
