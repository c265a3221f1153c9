"""The end of a run: a table for people, a dictionary with stable keys for programs."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shoal.engine.tally import TallyReport
from shoal.frontier.values import Job
from shoal.inspect.freshness import in_words, is_late, results_in_words, visited
from shoal.inspect.freshness_form import freshness_dict
from shoal.inspect.job import View, left_over, remaining
from shoal.model import counts
from shoal.terminal.live_panel import frame
from shoal.text import command, humanize

PERCENTILES = (50, 90, 99)
_COUNTERS = 20  # that are shown
_ALARMS = 5


def render(view: View, *, output: str, dead_command: str = "") -> RenderableType:
    """`output` is where the rows are, `dead_command` what shows this job's dead letters."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _facts(view, output, dead_command):
        grid.add_row(name, value)
    finished = view.job.state == "finished"
    title = Text.assemble(
        (humanize.printable(view.job.spec.name), "bold cyan"),
        (" finished" if finished else " stopped", "bold green" if finished else "bold yellow"),
        (f" after {humanize.duration(view.elapsed)}", "default"),
    )
    return frame(grid, title)


def _facts(view: View, output: str, dead_command: str) -> list[tuple[str, Text]]:
    counters, report = view.job.counters, view.report
    fetches = humanize.plural(report.fetches, "fetch", "fetches")
    rows = Text.assemble(
        (humanize.count(counters.items), "bold"), ("  in ", "dim"), humanize.printable(output)
    )
    facts = [
        ("pages", _pages(view)),
        *_followed(view),
        ("rows", rows),
        ("success", Text(humanize.percent(report.success_rate))),
        ("latency", _latency(view)),
        ("received", Text(f"{humanize.size(report.bytes)} in {fetches}")),
    ]
    if report.cached:
        what = (" answers from the cache: nothing was sent for them", "dim")
        facts.append(("cached", Text.assemble((humanize.count(report.cached), "bold"), what)))
    if report.files:
        facts.append(("files", Text(f"{humanize.count(report.files)}, {humanize.size(report.file_bytes)}")))
    if report.errors:
        facts.append(("errors", Text(humanize.printable(humanize.by_count(report.errors)), "yellow")))
    if counters.retried:
        facts.append(("retries", Text(humanize.count(counters.retried))))
    if counters.merged:
        where = (" redirected to pages that have a task of their own", "dim")
        facts.append(("merged", Text.assemble(humanize.count(counters.merged), where)))
    if report.refused:
        facts.append(("refused", Text(humanize.printable(humanize.by_count(report.refused)))))
    if cut := _cut(view):
        facts.append(("cut", Text(humanize.printable(humanize.by_count(cut)), "yellow")))
    if report.logins or report.failed_logins:
        facts.append(("logins", _logins(report)))
    facts += _counted(view.job)
    if counters.dead:
        hint = (f"  {dead_command}", "cyan")
        facts.append(("dead", Text.assemble((humanize.count(counters.dead), "bold red"), hint)))
    if counters.rejected:
        hint = (f"  {command(f'rejected list {view.job.spec.name}')}", "cyan")
        facts.append(("rejected", Text.assemble((humanize.count(counters.rejected), "bold red"), hint)))
    facts += _quality(view)
    if view.restarts:
        facts.append(
            ("restarts", Text(f"{view.restarts}; what was counted just before is missing", "yellow"))
        )
    if counters.over_budget:
        facts.append(("over", Text(f"{humanize.count(counters.over_budget)} beyond max_pages_per_host")))
    if said := left_over(view.job):
        facts.append(("left", Text(said, "yellow")))
    elif left := remaining(view.job):
        todo = " still to fetch" if view.freshness is None else " still to visit"
        facts.append(("left", Text.assemble((humanize.count(left), "bold"), (todo, "dim"))))
    return facts


def _followed(view: View) -> list[tuple[str, Text]]:
    """Of a standing job, which never ends: the same command goes on with it."""
    if view.freshness is None:
        return []
    said = in_words(view.freshness, view.now)
    facts = [
        (
            "follows",
            Text(said.removeprefix("following "), "yellow" if is_late(view.freshness, view.now) else ""),
        )
    ]
    if results := results_in_words(view.freshness.visits):
        facts.append(("visits", Text(results.replace(" visits", "", 1))))
    return facts


def _quality(view: View) -> list[tuple[str, Text]]:
    """What is not as it was, and what was never there."""
    facts, found = [], view.quality
    if found.alarms:
        text = Text()
        for sentence in found.alarms[:_ALARMS]:
            text.append(f"{humanize.printable(sentence)}\n", "bold yellow")
        if len(found.alarms) > _ALARMS:
            text.append(f"{humanize.count(len(found.alarms) - _ALARMS)} more\n", "yellow")
        if view.freshness is not None and view.freshness.held:
            held = humanize.plural(view.freshness.held, "page")
            text.append(f"{held} held back: the rows from before stay\n", "yellow")
        text.append(f"{command('quality')}, {command('quality accept HOST')}: it is right as it is", "cyan")
        facts.append(("quality", text))
    if found.empty:
        more = f"; {len(found.empty) - _ALARMS} more" if len(found.empty) > _ALARMS else ""
        facts.append(("empty", Text(humanize.printable("; ".join(found.empty[:_ALARMS]) + more), "yellow")))
    return facts


def _logins(report: TallyReport) -> Text:
    text = Text(humanize.count(report.logins))
    if report.failed_logins:
        text.append(f"  {humanize.count(report.failed_logins)} failed", "yellow")
    return text


def _counted(job: Job) -> list[tuple[str, Text]]:
    """The job's own counters; apart, what handlers and hooks dropped."""
    facts = []
    if own := counts.own(job.counts):
        facts.append(("counted", Text(humanize.by_count(own, _COUNTERS))))
    if costs := counts.costs_in_words(job.counts, visited(job)):
        facts.append(("cost", Text(humanize.printable(costs))))
    if webhooks := counts.webhooks(job.counts):
        told = ", ".join(f"{humanize.count(number)} {what}" for what, number in webhooks.items())
        facts.append(("webhooks", Text(told)))
    if dropped := counts.dropped(job.counts):
        facts.append(("dropped", Text(humanize.by_count(dropped), "yellow")))
    return facts


def _cut(view: View) -> dict[str, int]:
    """What was too much: cookies of redirects in this run, links of pages in the whole job."""
    links = view.job.counters.links_cut
    return {**view.report.cut, **({"links": links} if links else {})}


def _pages(view: View) -> Text:
    rate = f"  {humanize.rate(mean_rate(view))}/s in this run"
    pages = view.job.counters.done if view.freshness is None else view.freshness.followed
    what = "" if view.freshness is None else " followed"
    return Text.assemble((humanize.count(pages), "bold"), what, (rate, "green"))


def _latency(view: View) -> Text:
    text = Text()
    for p in PERCENTILES:
        text.append(f"p{p} ", "dim")
        text.append(f"{humanize.latency(view.report.percentile(p))}   ")
    return text


def mean_rate(view: View) -> float:
    pages = max(view.report.pages, view.report.handled)  # those from a cache were not fetched
    return pages / view.elapsed if view.elapsed > 0 else 0.0


def as_json(view: View, *, output: str) -> dict[str, Any]:
    """The same as a dictionary. Keys are only ever added; docs/cli.md explains them."""
    counters, report = view.job.counters, view.report
    return {
        "job": view.job.spec.name,
        "state": view.job.state,
        "output": output,
        "seconds": round(view.elapsed, 3),
        "processes": view.processes,
        "restarts": view.restarts,
        "admitted": counters.admitted,
        "pending": counters.pending,
        "delayed": counters.delayed,
        "waiting": counters.waiting,
        "leased": counters.leased,
        "done": counters.done,
        "dead": counters.dead,
        "rejected": counters.rejected,
        "merged": counters.merged,
        "rows": counters.items,
        "retried": counters.retried,
        "duplicates": counters.duplicates,
        "over_budget": counters.over_budget,
        "links_cut": counters.links_cut,
        "left": left_over(view.job) or None,
        "freshness": freshness_dict(view.freshness, view.now),
        "pages": report.pages,
        "handled": report.handled,
        "retries": report.retries,
        "fetches": report.fetches,
        "bytes": report.bytes,
        "files": report.files,
        "file_bytes": report.file_bytes,
        "pages_per_second": round(mean_rate(view), 3),
        "success_rate": report.success_rate,
        "latency": {f"p{p}": report.percentile(p) for p in PERCENTILES},
        "errors": report.errors,
        "statuses": {str(status): number for status, number in sorted(report.statuses.items())},
        "refused": report.refused,
        "cut": report.cut,
        "logins": report.logins,
        "failed_logins": report.failed_logins,
        "cached": report.cached,
        "quality": {"alarms": list(view.quality.alarms), "empty": list(view.quality.empty)},
        "counts": counts.without_costs(view.job.counts),
        "costs": counts.costs(view.job.counts),
    }
