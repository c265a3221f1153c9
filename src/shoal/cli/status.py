"""`shoal status`: what is in the store. Works while a crawl runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, shown_store, switch
from shoal.text import command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import Job

QUEUES_SHOWN = 5
MOST_FLIGHTS = 1000


class Sight(NamedTuple):
    job: Job
    queues: Sequence[tuple[str, int]]  # the longest: (host, pending)
    trouble: str  # why it is paused, if not by a person


def status(
    store: Store = DEFAULT_STORE,
    job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="This job only.")] = None,
    in_flight: Annotated[
        bool, switch("--in-flight", text="The pages in flight instead, those first that take longest.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="So many pages in flight.", min=1, max=MOST_FLIGHTS)
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the jobs in the store: how far they are and where the longest queues stand."""
    from shoal.terminal.console import ask, print_json

    if in_flight:
        _show_flights(store, job, limit, as_json)
        return
    found = ask(store, lambda frontier: _look(frontier, job))
    if as_json:
        print_json([_as_dict(one) for one in found])
    else:
        _print(found, store)


def _show_flights(store: str, job: str | None, limit: int, as_json: bool) -> None:
    from shoal import humanize
    from shoal.inspect.json_form import flight_dict
    from shoal.inspect.overview import look_at_flights
    from shoal.terminal.console import ask, print_json, safe, stdout, table

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


async def _look(frontier: Frontier, name: str | None) -> list[Sight]:
    from shoal.inspect.job import unknown_job
    from shoal.jobs.trouble import trouble_of

    jobs = await frontier.jobs()
    chosen = [job for job in jobs if name in (None, job.spec.name)]
    if name is not None and not chosen:
        raise await unknown_job(frontier, name)
    return [
        Sight(job, await frontier.queues(job.spec.name, limit=QUEUES_SHOWN), await trouble_of(frontier, job))
        for job in chosen
    ]


def _as_dict(sight: Sight) -> dict[str, Any]:
    from shoal.inspect.job import left_over

    job = sight.job
    return {
        "job": job.spec.name,
        "spider": job.spec.spider,
        "state": job.state,
        **msgspec.to_builtins(job.counters),
        "created_at": job.created_at,
        "finished_at": job.finished_at or None,
        "trouble": sight.trouble or None,
        "left": left_over(job) or None,
        "queues": [{"host": host, "pending": pending} for host, pending in sight.queues],
    }


def _print(found: list[Sight], store: str) -> None:
    from shoal.terminal.console import safe, stdout

    console = stdout()
    if not found:
        console.print(safe(f"no jobs in {shown_store(store)} yet; start one with: {command('crawl URL')}"))
    for sight in found:
        console.print(_card(sight))


def _card(sight: Sight) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from shoal import humanize
    from shoal.inspect.job import has_ended, left_over, waits_for
    from shoal.terminal.console import safe, when
    from shoal.terminal.live_panel import bar, frame, numbers

    job, queues = sight.job, sight.queues
    c = job.counters
    title = Text.assemble(safe(job.spec.name, "bold cyan"), "  ", (job.state, _STYLES[job.state]))
    times = f"since {when(job.created_at)}"
    if job.finished_at:
        times = f"took {humanize.duration(job.finished_at - job.created_at)}"
    lines: list[RenderableType] = [
        bar(job, Text(times, "dim")),
        numbers(
            [
                (humanize.count(c.pending), "pending", "bold"),
                (humanize.count(c.delayed), "delayed", "bold yellow" if c.delayed else "dim"),
                (humanize.count(c.leased), "leased", "bold"),
                (humanize.count(c.done), "done", "bold green"),
                (humanize.count(c.dead), "dead", "bold red" if c.dead else "dim"),
                (humanize.count(c.retried), "retried", "bold yellow" if c.retried else "dim"),
                (humanize.count(c.items), "rows", "bold"),
            ]
        ),
    ]
    if said := sight.trouble or left_over(job) or waits_for(job):
        lines.append(safe(said, "yellow"))
    if c.merged:
        merged = f"{humanize.count(c.merged)} redirected to pages that have a task of their own"
        lines.append(Text.assemble(("merged  ", "dim"), merged))
    if c.links_cut:
        cut = f"{humanize.plural(c.links_cut, 'link')} beyond max_links of their pages"
        lines.append(Text.assemble(("not taken  ", "dim"), (cut, "yellow")))
    waiting = {host: pending for host, pending in queues if pending}
    if waiting and not has_ended(job):
        lines.append(Text.assemble(("longest queues  ", "dim"), safe(humanize.by_count(waiting))))
    return frame(Group(*lines), title)


_STYLES = {"running": "green", "paused": "yellow", "finished": "dim", "cancelled": "red"}
