"""A worker process of `--processes N`: `python -m shoal.child`, told its part on standard input."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import msgspec

from shoal.crew import Crew
from shoal.errors import ShoalError
from shoal.frontier import open_frontier
from shoal.loop import run_loop
from shoal.observe.events import EventBook
from shoal.observe.logging import set_up
from shoal.observe.tracing import tracing_if
from shoal.observe.vitals import Subject
from shoal.plan import Plan
from shoal.signals import Stoppable
from shoal.sink import open_sink
from shoal.supervisor import Part, Word

_EVERY = 0.5


def main() -> int:
    set_up("WARNING")
    part = msgspec.json.decode(sys.stdin.buffer.readline(), type=Part)
    try:
        run_loop(work(part))
    except ShoalError as error:
        say(Word(error=str(error)))
        return error.exit_code
    return 0


async def work(part: Part) -> None:
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
        reporting = asyncio.create_task(report_regularly(subject, lambda: crew.feeding_paused))
        try:
            await crew.engine.run()
        finally:
            reporting.cancel()
            say(Word(report=subject.report(), vitals=subject.vitals()))


@contextmanager
def led_by_parent(engine: Stoppable) -> Iterator[None]:
    """Drains when the parent closes its end of standard input, or is gone; hands back at once on SIGTERM. Nothing more
    is ever said on this pipe: that it can be read means that it was closed."""
    loop, pipe = asyncio.get_running_loop(), sys.stdin.fileno()

    def closed() -> None:
        loop.remove_reader(pipe)
        engine.stop()

    loop.add_signal_handler(signal.SIGTERM, engine.force)
    loop.add_reader(pipe, closed)
    try:
        yield
    finally:
        loop.remove_reader(pipe)
        loop.remove_signal_handler(signal.SIGTERM)


async def report_regularly(subject: Subject, feeding_paused: Callable[[], bool] = bool) -> None:
    while True:
        say(Word(subject.report(), feeding_paused(), vitals=subject.vitals(), trouble=subject.hangs()))
        await asyncio.sleep(_EVERY)


def say(word: Word) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(word) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        pass  # the parent is gone; its closed pipe also stops the engine


if __name__ == "__main__":
    sys.exit(main())
