"""`shoal jobs`, `pause`, `resume`, `cancel`: the jobs of a store, and what a person decides about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, switch
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier, Job, JobState

Names = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of jobs or of schedules.")]
Forget = Annotated[
    bool,
    switch(
        "--forget", text="Of a job that has ended too: free what it takes up in the store; its rows stay."
    ),
]


def jobs(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show all jobs: how far, how fast, until when; the schedules, and who works."""
    from shoal.cli.jobviews import as_dict, fleet_tables
    from shoal.cli.terminal import ask, print_json, stdout
    from shoal.fleet.sight import look_at_fleet

    sight = ask(store, look_at_fleet)
    if as_json:
        print_json(as_dict(sight))
        return
    for part in fleet_tables(sight):
        stdout().print(part)


def pause(names: Names, store: Store = DEFAULT_STORE) -> None:
    """Stop claiming pages of a JOB; what is in flight is finished. A schedule starts no more runs."""
    _decide(names, store, _pause)


def resume(names: Names, store: Store = DEFAULT_STORE) -> None:
    """Go on with a paused JOB or schedule."""
    _decide(names, store, _resume)


def cancel(names: Names, store: Store = DEFAULT_STORE, forget: Forget = False) -> None:
    """End a JOB early; what is in flight is finished, the rest stays where it is. A schedule is taken back."""
    _decide(names, store, _forget if forget else _cancel)


Decision = Callable[["Frontier", str], Awaitable[str]]


def _decide(names: Sequence[str], store: str, decision: Decision) -> None:
    from shoal.cli.terminal import ask, say

    async def all_of_them(frontier: Frontier) -> list[str]:
        return [await decision(frontier, name) for name in names]

    for sentence in ask(store, all_of_them):
        say(sentence)


async def _pause(frontier: Frontier, name: str) -> str:
    if await _change_schedule(frontier, name, paused=True):
        return f"schedule {name} is paused: it starts no more runs"
    job = await _job(frontier, name, "running", done="paused")
    await frontier.set_state(name, "paused")
    left = job.counters.leased
    return f"job {name} is paused" + (f"; {left:,} in flight are finished" if left else "")


async def _resume(frontier: Frontier, name: str) -> str:
    from shoal.fleet.trouble import forget_trouble

    if await _change_schedule(frontier, name, paused=False):
        return f"schedule {name} goes on"
    await _job(frontier, name, "paused", done="running")
    await forget_trouble(frontier, name)
    await frontier.set_state(name, "running")
    return f"job {name} goes on"


async def _cancel(frontier: Frontier, name: str) -> str:
    from shoal.fleet.schedule import change_schedules, schedules

    if name in await schedules(frontier):
        await change_schedules(frontier, lambda known: {k: s for k, s in known.items() if k != name})
        return f"schedule {name} is taken back; a run that has begun goes on"
    job = await _job(frontier, name, "running", "paused", done="cancelled")
    await frontier.set_state(name, "cancelled")
    left = job.counters.pending + job.counters.delayed
    return f"job {name} is cancelled, {left:,} pages were left; submit it again to go on, or with --fresh to start over"


async def _forget(frontier: Frontier, name: str) -> str:
    from shoal.fleet.submitting import forget

    await _job(frontier, name, "running", "paused", "finished", "cancelled", done="")
    await forget(frontier, name)
    return f"job {name} is forgotten, with its queue, its dead letters and what it has seen; its rows stay"


async def _change_schedule(frontier: Frontier, name: str, *, paused: bool) -> bool:
    from msgspec.structs import replace

    from shoal.fleet.schedule import change_schedules, schedules

    if name not in await schedules(frontier):
        return False
    await change_schedules(
        frontier, lambda known: {k: replace(s, paused=paused) if k == name else s for k, s in known.items()}
    )
    return True


async def _job(frontier: Frontier, name: str, *states: JobState, done: str) -> Job:
    """The job, which must be in one of these states."""
    job = await frontier.job(name)
    if job is None:
        known = ", ".join(job.spec.name for job in await frontier.jobs()) or "none"
        raise UsageError(f"no job or schedule {name!r} in this store; there is: {known}")
    if job.state in states:
        return job
    if job.state == done:
        raise UsageError(f"job {name} is {done} already")
    hint = "; submit it again to go on" if job.state == "cancelled" else ""
    raise UsageError(f"job {name} is {job.state}, not {' or '.join(states)}{hint}")
