"""`shoal jobs`, `pause`, `resume`, `cancel`: the jobs of a store, and what a person decides about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, switch

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import PastJob

Names = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of jobs or of schedules.")]
Forget = Annotated[
    bool,
    switch(
        "--forget", text="Of a job that has ended too: free what it takes up in the store; its rows stay."
    ),
]


def jobs(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show all jobs: how far, how fast, until when; the schedules, and who works."""
    from shoal.inspect.overview import FleetView, look_at_fleet
    from shoal.terminal.console import ask, print_json, stdout
    from shoal.terminal.job_tables import as_dict, fleet_tables

    async def look(frontier: Frontier) -> tuple[FleetView, list[PastJob]]:
        sight, pasts = await look_at_fleet(frontier), await frontier.past_jobs()
        names = {one.job.spec.name for one in sight.jobs}
        return sight, [past for past in pasts if past.job.spec.name not in names]

    sight, pasts = ask(store, look)
    if as_json:
        print_json(as_dict(sight, pasts))
        return
    for part in fleet_tables(sight, pasts):
        stdout().print(part)


def pause(names: Names, store: Store = DEFAULT_STORE) -> None:
    """Stop claiming pages of a JOB; what is in flight is finished. A schedule starts no more runs."""
    from shoal.runtime.job_actions import pause

    _decide(names, store, pause)


def resume(names: Names, store: Store = DEFAULT_STORE) -> None:
    """Go on with a paused JOB or schedule."""
    from shoal.runtime.job_actions import resume

    _decide(names, store, resume)


def cancel(names: Names, store: Store = DEFAULT_STORE, forget: Forget = False) -> None:
    """End a JOB early; what is in flight is finished, the rest stays where it is. A schedule is taken back."""
    from shoal.runtime.job_actions import cancel, forget_job

    _decide(names, store, forget_job if forget else cancel)


Decision = Callable[["Frontier", str], Awaitable[str]]


def _decide(names: Sequence[str], store: str, decision: Decision) -> None:
    from shoal.terminal.console import ask, say

    async def all_of_them(frontier: Frontier) -> list[str]:
        return [await decision(frontier, name) for name in names]

    for sentence in ask(store, all_of_them):
        say(sentence)
