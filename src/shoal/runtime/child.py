"""A worker process of `--processes N`: `python -m shoal.runtime.child`, told its part on a socket that it inherits."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

from shoal.engine.event_loop import run_loop
from shoal.engine.guardian import Guarded, guarded, take_guard
from shoal.engine.liveness import Liveness, die_with
from shoal.engine.tracing import tracing_if
from shoal.engine.vitals import StatusSource
from shoal.errors import ShoalError
from shoal.frontier import hint_at, open_frontier
from shoal.inspect.event_log import EventBook
from shoal.runtime.channel import Word, framed, receive
from shoal.runtime.crawl import Crew, work_through
from shoal.runtime.plan import Plan
from shoal.runtime.processes import Part
from shoal.runtime.signals import Stoppable, on_leash
from shoal.sink import open_sink
from shoal.telemetry.logging import set_up

_EVERY = 0.5

T = TypeVar("T")


class Line:
    """The line to the parent."""

    def __init__(self, parent: int, line: int, liveness: int) -> None:
        self._socket = socket.socket(fileno=line)
        die_with(parent)
        take_guard(Guarded(Liveness(liveness), line))
        # What a service manager sends to all processes of a group, the parent passes on in its own way.
        signal.signal(signal.SIGTERM, lambda *_: None)

    def say(self, word: Word) -> None:
        try:
            self._socket.sendall(framed(word))
        except OSError:
            pass  # the parent is gone; its closed end also stops the engine

    async def report_regularly(
        self, subject: StatusSource, feeding_paused: Callable[[], bool] = bool
    ) -> None:
        while True:
            self.say(
                Word(subject.report(), feeding_paused(), vitals=subject.vitals(), trouble=subject.hangs())
            )
            await asyncio.sleep(_EVERY)

    def run(self, kind: type[T], work: Callable[[T, Line], Coroutine[Any, Any, None]]) -> int:
        """Does its part; answers the exit code."""
        set_up("WARNING")
        part = receive(self._socket, kind)
        try:
            run_loop(work(part, self))
        except ShoalError as error:
            self.say(Word(error=str(error)))
            return error.exit_code
        return 0


async def work(part: Part, line: Line) -> None:
    hint_at(part.store)
    spider = part.source.load()
    plan = Plan(spider, part.settings, part.job, part.store, part.output)
    sink = open_sink(part.output, job=part.job)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(tracing_if(part.trace))
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        await stack.enter_async_context(EventBook(frontier))
        crew = await stack.enter_async_context(Crew(plan, frontier, sink, tracing))
        stack.enter_context(led_by_parent(crew.engine))
        subject = crew.subject()
        reporting = asyncio.create_task(line.report_regularly(subject, lambda: crew.feeding_paused))
        try:
            await work_through(crew, frontier, plan.job)
        finally:
            reporting.cancel()
            line.say(Word(report=subject.report(), vitals=subject.vitals()))


@contextmanager
def led_by_parent(engine: Stoppable) -> Iterator[None]:
    """Drains or hands back at once, as the parent says; drains when the parent is gone."""
    mine = guarded()
    assert mine is not None, "a child has a parent"
    with on_leash(mine, engine.stop, engine.force, 0.0):
        yield


def line_from(argv: list[str]) -> Line:
    """From what the parent put on the command line: its number, and those of what is inherited."""
    return Line(*map(int, argv[1:4]))


if __name__ == "__main__":
    sys.exit(line_from(sys.argv).run(Part, work))
