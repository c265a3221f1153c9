"""A worker process of `--processes N`: `python -m shoal.child`, told its part on standard input."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import msgspec

from shoal.crew import Crew
from shoal.errors import ShoalError
from shoal.frontier import open_frontier
from shoal.loop import run_loop
from shoal.observe.logging import set_up
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
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        crew = await stack.enter_async_context(Crew(plan, frontier, sink))
        stack.enter_context(led_by_parent(crew.engine))
        reporting = asyncio.create_task(_report_regularly(crew))
        try:
            await crew.engine.run()
        finally:
            reporting.cancel()
            say(Word(report=crew.report()))


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


async def _report_regularly(crew: Crew) -> None:
    while True:
        say(Word(report=crew.report(), feeding_paused=crew.feeding_paused))
        await asyncio.sleep(_EVERY)


def say(word: Word) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(word) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        pass  # the parent is gone; its closed pipe also stops the engine


if __name__ == "__main__":
    sys.exit(main())
