"""The store as it is, for `shoal status`; and the screen of `shoal top`, drawn in place until somebody leaves it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.live import Live

from shoal.errors import ShoalError
from shoal.frontier.protocol import Frontier
from shoal.inspect.event_log import Event, read_events
from shoal.inspect.held_back import Holdups, find_holdups
from shoal.inspect.overview import Overview, PageInFlight, look, look_at_flights
from shoal.terminal.status_view import FLIGHTS, TOP, Frame, render
from shoal.text import humanize

_LONG = 5.0  # seconds without an answer of the store that are worth a word
_DRAWN_EVERY = 1.0  # seconds, also when there is no news: so that the clock goes on
_WALK = 60.0  # seconds that a walk over all hosts may take; it runs in the background
_ONE_WALK = 1.0  # … if somebody waits for it
_REST = 50.0  # times that long nobody walks again
_LEAST_REST = 2.0


async def look_once(frontier: Frontier, store: str) -> Frame:
    overview = await look(frontier)
    names = {one.job.spec.name for one in overview.jobs}
    return Frame(
        store,
        overview,
        await find_holdups(frontier, overview, _ONE_WALK),
        await read_events(frontier),
        await look_at_flights(frontier, FLIGHTS),
        [past for past in await frontier.past_jobs() if past.job.spec.name not in names],
    )


async def watch(frontier: Frontier, store: str, every: float, console: Console, keyboard: TextIO) -> None:
    """Draws until q, Ctrl-C or SIGTERM."""
    screen = Screen(frontier, store, await look(frontier))
    looking = asyncio.create_task(screen.look_regularly(every))
    walking = asyncio.create_task(screen.walk_regularly())
    try:
        with (
            _quiet(),
            Live(console=console, screen=True, auto_refresh=False) as live,
            _keys(keyboard, screen.leave),
            _signals(screen),
        ):
            while not (screen.left or looking.done() or walking.done()):
                live.update(render(screen.frame(), *console.size), refresh=True)
                await screen.change(_DRAWN_EVERY)
            # Or some terminals, if they were made larger meanwhile, leave lines of it behind.
            console.control(Control.clear(), Control.home())
    finally:
        for task in (looking, walking):
            if not task.cancel():
                task.result()  # it ended by itself: with an error of ours
        await asyncio.gather(looking, walking, return_exceptions=True)


class Screen:
    """What is shown, and whether the person has left."""

    def __init__(self, frontier: Frontier, store: str, overview: Overview) -> None:
        self._frontier = frontier
        self._store = store
        self._overview = overview
        self._events: Sequence[Event] = ()
        self._holdups = Holdups()
        self._flights: Sequence[PageInFlight] = ()
        self._answered_at = time.monotonic()
        self._changed = asyncio.Event()
        self.left = False

    def frame(self) -> Frame:
        silent = time.monotonic() - self._answered_at
        trouble = f"the store has not answered for {humanize.span(silent)}" if silent > _LONG else ""
        return Frame(
            self._store,
            self._overview,
            self._holdups,
            self._events,
            self._flights,
            trouble=trouble,
            live=TOP,
        )

    def leave(self) -> None:
        self.left = True
        self.redraw()

    def redraw(self) -> None:
        self._changed.set()

    async def change(self, seconds: float) -> None:
        """Returns when there is something new to draw, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    async def look_regularly(self, every: float) -> None:
        while True:
            try:
                self._overview, self._events = await look(self._frontier), await read_events(self._frontier)
                self._answered_at = time.monotonic()
                self.redraw()
            except ShoalError:
                pass  # the title says since when
            await asyncio.sleep(every)

    async def walk_regularly(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._flights = await look_at_flights(self._frontier, FLIGHTS)
                self._holdups = await find_holdups(self._frontier, self._overview, _WALK)
                self.redraw()
            except ShoalError:
                pass
            await asyncio.sleep(max(_LEAST_REST, _REST * (time.monotonic() - began)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps log lines off the screen: the title says what is wrong with the store."""
    log, silence = logging.getLogger("shoal"), logging.NullHandler()
    log.addHandler(silence)
    try:
        yield
    finally:
        log.removeHandler(silence)


@contextmanager
def _keys(keyboard: TextIO, leave: Callable[[], None]) -> Iterator[None]:
    """Keys arrive one by one and are not shown; q leaves."""
    if not keyboard.isatty():
        yield
        return
    loop, number = asyncio.get_running_loop(), keyboard.fileno()
    before = termios.tcgetattr(number)

    def pressed() -> None:
        keys = os.read(number, 100)
        if not keys:  # the terminal is gone
            loop.remove_reader(number)
        if not keys or b"q" in keys.lower():
            leave()

    tty.setcbreak(number)
    loop.add_reader(number, pressed)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


@contextmanager
def _signals(screen: Screen) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handlers = {
        signal.SIGINT: screen.leave,
        signal.SIGTERM: screen.leave,
        signal.SIGHUP: screen.leave,
        signal.SIGWINCH: screen.redraw,
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
