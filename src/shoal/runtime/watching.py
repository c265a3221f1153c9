"""Looking at a running crawl at regular intervals, for whoever wants to watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from shoal.engine.guardian import guarded
from shoal.engine.tally import Ledger, RateWindow, RunTotals, TallyReport, merge
from shoal.errors import ShoalError, StoreError
from shoal.frontier.protocol import Frontier
from shoal.inspect.progress import View, eta, remaining
from shoal.inspect.throttled import PATIENCE, Sparing

if TYPE_CHECKING:
    from shoal.runtime.crawl import Plan

Watch = Callable[[View], None]
_EVERY = 0.5


@asynccontextmanager
async def watching(
    plan: Plan, frontier: Frontier, report: Callable[[], TallyReport], watch: Watch | None
) -> AsyncIterator[Callable[[], Awaitable[View]]]:
    """Calls `watch` twice a second until left; gives a function that looks once. A process that takes over from
    one that died goes on with what that one had counted."""
    began, mine = time.monotonic(), guarded()
    ledger = Ledger(mine.ledger if mine is not None else None)
    before = ledger.before
    window = RateWindow()
    asked: Sparing[Sequence[tuple[str, int]]] = Sparing((), patience=PATIENCE)
    job = await frontier.job(plan.job)
    done_before = job.counters.done if job is not None else 0
    interval = 1 / plan.settings.rate if plan.settings.rate else 0.0

    async def look() -> View:
        job = await frontier.job(plan.job)
        if job is None:
            raise StoreError(
                f"job {plan.job} was dropped while it ran, or the store has gone back to a time before it was made; "
                "run the same command again"
            )
        queues = await asked.get(lambda: frontier.queues(plan.job, 5)) if job.counters.pending else ()
        now = time.monotonic()
        rate = window.add(now, job.counters.done)
        longest = queues[0][1] if queues else 0
        return View(
            job,
            merge([before.report, report()]),
            elapsed=before.elapsed + now - began,
            restarts=before.restarts,
            rate=rate if now - began > 1 else (job.counters.done - done_before) / max(0.1, now - began),
            eta=eta(remaining(job), rate, queue=longest, interval=interval),
            queues=queues,
            processes=plan.settings.processes,
        )

    async def look_regularly() -> None:
        while watch is not None:
            try:
                view = await look()
            except ShoalError:
                return  # the engine meets the same trouble and says so
            ledger.write(RunTotals(view.report, view.elapsed, view.restarts))
            watch(view)
            await asyncio.sleep(_EVERY)

    looking = asyncio.create_task(look_regularly())
    try:
        yield look
    finally:
        looking.cancel()
