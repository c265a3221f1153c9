"""`shoal pause`, `resume` and `cancel`: what a person decides about jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, Store, switch

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier

Names = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of jobs or of schedules.")]
Forget = Annotated[
    bool,
    switch(
        "--forget", text="Of a job that has ended too: free what it takes up in the store; its rows stay."
    ),
]


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
