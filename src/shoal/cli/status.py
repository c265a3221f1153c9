"""`shoal status`, `shoal top` and `shoal why`: what is in the store, once, live, and of one URL."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.options import DEFAULT_STORE, SHOWN, AsJson, Store, option, shown_store, switch
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.inspect.overview import JobView
    from shoal.terminal.status_view import Frame

if TYPE_CHECKING:
    from shoal.inspect.why import Answer


_QUEUES_SHOWN = 5
_MOST_FLIGHTS = 1000
_PIPE_WIDTH = 120
_SOONEST = 0.1  # seconds between two looks


def status(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="This job only, in detail.")] = None,
    store: Store = DEFAULT_STORE,
    in_flight: Annotated[
        bool, switch("--in-flight", text="The pages in flight instead, those first that take longest.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="So many pages in flight.", min=1, max=_MOST_FLIGHTS)
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the jobs: how far, how fast, until when; what holds them back, and who works on them."""
    if in_flight:
        _show_flights(store, job, limit, as_json)
    elif job is not None:
        _show_job(store, job, as_json)
    else:
        _show_store(store, as_json)


def top(
    store: Store = DEFAULT_STORE,
    every: Annotated[float, option("--every", value="SECONDS", text="Look so often.", panel=SHOWN)] = 1.0,
) -> None:
    """Watch live what `shoal status` shows. q leaves."""
    from shoal.terminal.console import ask, stdout

    if not every >= _SOONEST:
        raise UsageError(f"--every {every:g}: at least {_SOONEST:g} seconds")
    console = stdout()
    if not console.is_terminal or console.is_dumb_terminal:
        _show_store(store, as_json=False)
        return
    from shoal.terminal.screen import watch

    name = shown_store(store)
    ask(store, lambda frontier: watch(frontier, name, every, console, sys.stdin), patient=True)


def _show_store(store: str, as_json: bool) -> None:
    from shoal.terminal.console import ask, print_json, stdout
    from shoal.terminal.screen import look_once
    from shoal.terminal.status_view import render

    frame = ask(store, lambda frontier: look_once(frontier, shown_store(store)))
    if as_json:
        print_json(_as_dict(frame))
        return
    console = stdout()
    width = console.width if console.is_terminal else _PIPE_WIDTH
    console.print(render(frame, width), width=width)


def _as_dict(frame: Frame) -> dict[str, Any]:
    from shoal.inspect.json_form import flight_dict, overview_dict, past_dict, worker_dict

    return {
        **overview_dict(frame.overview, frame.holdups),
        "workers": [worker_dict(worker) for worker in frame.overview.workers],
        "pruned": [past_dict(past) for past in frame.pruned],
        "longest_in_flight": [flight_dict(one) for one in frame.flights],
        "events": frame.events,
    }


def _show_job(store: str, name: str, as_json: bool) -> None:
    from shoal.inspect.json_form import job_dict
    from shoal.terminal.console import ask, print_json, stdout
    from shoal.terminal.live_panel import job_card

    seen, now, queues = ask(store, lambda frontier: _look(frontier, name))
    if as_json:
        longest = [{"host": host, "pending": pending} for host, pending in queues]
        print_json({**job_dict(seen, now), "queues": longest})
    else:
        stdout().print(job_card(seen.job, seen.trouble, queues, seen.freshness, now))


async def _look(frontier: Frontier, name: str) -> tuple[JobView, float, Sequence[tuple[str, int]]]:
    from shoal.inspect.job import unknown_job
    from shoal.inspect.overview import look

    overview = await look(frontier)
    for one in overview.jobs:
        if one.job.spec.name == name:
            return one, overview.now, await frontier.queues(name, limit=_QUEUES_SHOWN)
    raise await unknown_job(frontier, name)


def _show_flights(store: str, job: str | None, limit: int, as_json: bool) -> None:
    from shoal.inspect.json_form import flight_dict
    from shoal.inspect.overview import look_at_flights
    from shoal.terminal.console import ask, print_json, safe, stdout, table
    from shoal.text import humanize

    found = ask(store, lambda frontier: look_at_flights(frontier, limit, job))
    if as_json:
        print_json([flight_dict(one) for one in found])
        return
    shown = table("for", "job", "lane", "attempt", "worker", "url", right=("for", "attempt"))
    for one in found:
        worker = f"{one.pid} on {one.machine}" if one.pid else f"{one.worker} (gone)"
        shown.add_row(
            humanize.span(one.seconds),
            safe(one.job),
            safe(one.lane),
            str(one.attempt),
            safe(worker),
            safe(one.url),
        )
    stdout().print(shown if found else "no pages are in flight")


# -- one URL


def why(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page; https:// may be left out.")],
    store: Store = DEFAULT_STORE,
    job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="In this job only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell where a URL is, and what it is waiting for."""
    from shoal.cli.targets import as_url
    from shoal.inspect.json_form import answer_dict
    from shoal.inspect.why import answers_about
    from shoal.terminal.console import ask, print_json

    typed = as_url(url)
    answers = ask(store, lambda frontier: answers_about(frontier, typed, job))
    if as_json:
        print_json([answer_dict(answer) for answer in answers])
    else:
        _print_answers(answers, url.strip())


_PLACES = {"done": "green", "merged": "green", "dead": "red", "leased": "cyan", "unknown": "magenta"}


def _print_answers(answers: list[Answer], typed: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from shoal.terminal.console import safe, stdout
    from shoal.text.humanize import printable

    console = stdout()
    for answer in answers:
        head = safe(answer.url, "bold")
        form = "" if typed in (answer.url, answer.url.partition("://")[2]) else "as it is sent · "
        console.print(Text.assemble(head, (f"  {form}job {printable(answer.job)}", "dim")))
        first, *rest = answer.causes
        console.print(Padding(safe(first.sentence, _PLACES.get(answer.place, "yellow")), (0, 0, 0, 2)))
        for cause in rest:
            console.print(Padding(safe(cause.sentence), (0, 0, 0, 2)))
