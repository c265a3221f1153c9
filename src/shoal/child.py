"""A worker process of `--processes N`: `python -m shoal.child`, told its part on standard input."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from shoal.crew import Crew
from shoal.errors import ShoalError
from shoal.frontier import open_frontier
from shoal.loop import run_loop
from shoal.observe.logging import set_up
from shoal.plan import Plan
from shoal.sink.jsonl import JsonLines
from shoal.supervisor import Part, Word

_EVERY = 0.5


def main() -> int:
    set_up("WARNING")
    part = msgspec.json.decode(sys.stdin.buffer.readline(), type=Part)
    try:
        run_loop(work(part))
    except ShoalError as error:
        _say(Word(error=str(error)))
        return error.exit_code
    return 0


async def work(part: Part) -> None:
    spider = part.source.load()
    plan = Plan(spider, part.settings, part.job, part.store, Path(part.output))
    journal = JsonLines(Path(part.output))
    async with AsyncExitStack() as stack:
        stack.callback(journal.close)
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        crew = await stack.enter_async_context(Crew(plan, frontier, journal))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, crew.engine.force)
        loop.add_reader(sys.stdin.fileno(), _on_input, crew)
        reporting = asyncio.create_task(_report_regularly(crew))
        try:
            await crew.engine.run()
        finally:
            reporting.cancel()
            loop.remove_reader(sys.stdin.fileno())
            _say(Word(report=crew.report()))


def _on_input(crew: Crew) -> None:
    """Nothing more is ever said on this pipe: that it can be read means that it was closed."""
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    crew.engine.stop()


async def _report_regularly(crew: Crew) -> None:
    while True:
        _say(Word(report=crew.report(), feeding_paused=crew.feeding_paused))
        await asyncio.sleep(_EVERY)


def _say(word: Word) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(word) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        pass  # the parent is gone; its closed pipe also stops the engine


if __name__ == "__main__":
    sys.exit(main())
