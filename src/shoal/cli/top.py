"""`shoal top`: everything in a store, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from shoal.cli.options import DEFAULT_STORE, SHOWN, AsJson, Store, option, shown_store, switch
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.terminal.top_view import Frame

_PIPE_WIDTH = 120
_SOONEST = 0.1  # seconds between two looks
_PATIENCE = 2.0  # seconds for a walk over the hosts, where somebody waits for it


def top(
    store: Store = DEFAULT_STORE,
    every: Annotated[float, option("--every", value="SECONDS", text="Look so often.", panel=SHOWN)] = 1.0,
    once: Annotated[bool, switch("--once", text="Show it once and end.", panel=SHOWN)] = False,
    as_json: AsJson = False,
) -> None:
    """Watch everything live: jobs, queues, workers, and the hosts that hold them back. q leaves."""
    from shoal.terminal.console import ask, print_json, stdout

    if not every >= _SOONEST:
        raise UsageError(f"--every {every:g}: at least {_SOONEST:g} seconds")
    console = stdout()
    if as_json:
        print_json(_as_dict(ask(store, lambda frontier: _look_once(frontier, store))))
    elif once or not console.is_terminal or console.is_dumb_terminal:
        from shoal.terminal.top_view import render

        frame = ask(store, lambda frontier: _look_once(frontier, store))
        width = console.width if console.is_terminal else _PIPE_WIDTH
        console.print(render(frame, width), width=width)
    else:
        from shoal.terminal.screen import watch

        ask(
            store,
            lambda frontier: watch(frontier, shown_store(store), every, console, sys.stdin),
            patient=True,
        )


async def _look_once(frontier: Frontier, store: str) -> Frame:
    from shoal.inspect.event_log import read_events
    from shoal.inspect.held_back import find_holdups
    from shoal.inspect.overview import look, look_at_flights
    from shoal.terminal.top_view import FLIGHTS, Frame

    overview = await look(frontier)
    holdups = await find_holdups(frontier, overview, _PATIENCE)
    flights = await look_at_flights(frontier, FLIGHTS)
    return Frame(shown_store(store), overview, holdups, await read_events(frontier), flights)


def _as_dict(frame: Frame) -> dict[str, Any]:
    from shoal.inspect.json_form import flight_dict, overview_dict, worker_dict

    overview = frame.overview
    return {
        **overview_dict(overview, frame.holdups),
        "workers": [worker_dict(worker) for worker in overview.workers],
        "longest_in_flight": [flight_dict(one) for one in frame.flights],
        "events": frame.events,
    }
