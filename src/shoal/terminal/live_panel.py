"""One job in a frame: live, while it is crawled from here, and as the store has it."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.columns import Columns
from rich.console import Group, OverflowMethod, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shoal.engine.tally import HostTally, TallyReport
from shoal.frontier.values import Job
from shoal.inspect.freshness import Freshness, in_words, is_late, results_in_words, visited
from shoal.inspect.job import View, has_ended, left_over, remaining, waits_for
from shoal.model import counts
from shoal.terminal.console import STATES, safe, when
from shoal.text import command, humanize

WIDTH = 96
HOSTS_SHOWN = 5
_COUNTERS = 50  # of a job that is looked at by itself


def render(view: View) -> RenderableType:
    parts: list[RenderableType] = [_progress(view), _numbers(view)]
    if view.freshness is not None:
        parts += [Text(), *followed(view.freshness, view.now)]
    if view.report.hosts:
        parts += [Text(), _slowest(view.report.hosts[:HOSTS_SHOWN], dict(view.queues))]
    if view.report.errors:
        parts += [Text(), errors(view.report)]
    if counts_of_job := counted(view.job):
        parts += [Text(), *counts_of_job]
    title = Text(humanize.printable(view.job.spec.name), "bold cyan")
    if view.note:
        title.append(f"  {humanize.printable(view.note)}", "yellow")
    return frame(Group(*parts), title)


def job_card(
    job: Job,
    trouble: str,
    queues: Sequence[tuple[str, int]],
    freshness: Freshness | None = None,
    now: float = 0.0,
) -> RenderableType:
    """A job as the store has it. `queues`: the longest, (host, pending)."""
    c = job.counters
    retries = c.delayed - c.waiting
    times = f"since {when(job.created_at)}"
    if job.finished_at:
        times = f"took {humanize.duration(job.finished_at - job.created_at)}"
    lines: list[RenderableType] = [
        bar(job, Text(times, "dim"), freshness),
        numbers(
            [
                (humanize.count(c.pending), "pending", "bold"),
                *_waiting(c.waiting),
                (humanize.count(retries), "delayed", "bold yellow" if retries else "dim"),
                (humanize.count(c.leased), "leased", "bold"),
                (humanize.count(c.done), "done", "bold green"),
                (humanize.count(c.dead), "dead", "bold red" if c.dead else "dim"),
                (humanize.count(c.retried), "retried", "bold yellow" if c.retried else "dim"),
                (humanize.count(c.items), "rows", "bold"),
            ]
        ),
    ]
    if freshness is not None:
        lines += followed(freshness, now)
    if said := trouble or left_over(job) or waits_for(job):
        lines.append(safe(said, "yellow"))
    if c.rejected:
        items = f"{humanize.plural(c.rejected, 'item')} that could not be written"
        hint = (f"  {command(f'rejected list {job.spec.name}')}", "cyan")
        lines.append(Text.assemble(("rejected  ", "dim"), (items, "red"), hint))
    if c.merged:
        merged = f"{humanize.count(c.merged)} redirected to pages that have a task of their own"
        lines.append(Text.assemble(("merged  ", "dim"), merged))
    if c.links_cut:
        cut = f"{humanize.plural(c.links_cut, 'link')} beyond max_links of their pages"
        lines.append(Text.assemble(("not taken  ", "dim"), (cut, "yellow")))
    lines += counted(job, _COUNTERS, overflow="fold")
    longest = {host: pending for host, pending in queues if pending}
    if longest and not has_ended(job):
        lines.append(Text.assemble(("longest queues  ", "dim"), safe(humanize.by_count(longest))))
    title = Text.assemble(safe(job.spec.name, "bold cyan"), "  ", (job.state, STATES[job.state]))
    return frame(Group(*lines), title)


def frame(content: RenderableType, title: Text) -> Panel:
    """The one frame of everything Shoal shows."""
    return Panel(
        content, box=box.ROUNDED, title=title, title_align="left", border_style="bright_black", width=WIDTH
    )


def _progress(view: View) -> RenderableType:
    ends: tuple[tuple[str, str], ...] = (("  ETA ", "dim"), (humanize.duration(view.eta), "bold"))
    if view.freshness is not None:  # it never ends
        behind = view.eta if remaining(view.job) else None
        ends = (("  caught up in ", "dim"), (humanize.duration(behind), "bold")) if behind else ()
    return bar(view.job, Text.assemble(humanize.duration(view.elapsed), *ends), view.freshness)


def bar(job: Job, beside: Text, freshness: Freshness | None = None) -> RenderableType:
    """How much of the job is done; of a standing job, how many of its pages are fresh."""
    done, total, what = job.counters.done, job.counters.admitted - job.counters.merged, "pages"
    if job.spec.max_pages and not has_ended(job):
        total = min(total, job.spec.max_pages)
    if freshness is not None:
        done, total, what = freshness.on_time, freshness.followed + freshness.new, "pages fresh"
    row = Table.grid(padding=(0, 2), expand=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True, justify="right", min_width=20)
    row.add_row(
        ProgressBar(total=max(total, 1), completed=done, complete_style="cyan", finished_style="green"),
        Text.assemble((humanize.count(done), "bold"), (f" of {humanize.count(total)} {what}", "dim")),
        beside,
    )
    return row


def _numbers(view: View) -> RenderableType:
    counters = view.job.counters
    retries = counters.delayed - counters.waiting
    rejected = [(humanize.count(counters.rejected), "rejected", "bold red")] if counters.rejected else []
    return numbers(
        [
            (humanize.rate(view.rate), "pages/s", "bold green"),
            (humanize.count(view.report.in_flight), "in flight", "bold"),
            (humanize.count(counters.pending), "queued", "bold"),
            *_waiting(counters.waiting),
            (humanize.count(retries), "delayed", "bold yellow" if retries else "dim"),
            (humanize.count(counters.retried), "retried", "bold yellow" if counters.retried else "dim"),
            (humanize.count(counters.dead), "dead", "bold red" if counters.dead else "dim"),
            *rejected,
            (humanize.count(counters.items), "rows", "bold"),
        ]
    )


def _waiting(pages: int) -> list[tuple[str, str, str]]:
    """Pages that wait for their next visit: nothing is wrong with them."""
    return [(humanize.count(pages), "waiting", "bold")] if pages else []


def followed(freshness: Freshness, now: float) -> list[Text]:
    """What a standing job follows, and what its visits have shown."""
    lines = [Text(in_words(freshness, now), "yellow" if is_late(freshness, now) else "")]
    if freshness.new:
        lines[0].append(f"; {humanize.count(freshness.new)} not visited yet")
    if results := results_in_words(freshness.visits):
        lines.append(Text(results, "dim"))
    return lines


def numbers(cells: Sequence[tuple[str, str, str]]) -> Columns:
    """A line of (number, its name, style). Where it takes two, a number stays with its name."""
    return Columns(
        [Text.assemble((value, style), (f" {name}", "dim"), no_wrap=True) for value, name, style in cells],
        padding=(0, 2),
    )


def _slowest(hosts: tuple[HostTally, ...], queues: dict[str, int]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="dim")
    table.add_column("slowest hosts", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in ("latency", "pages", "failed", "queued"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last error", no_wrap=True, min_width=14)
    for host in hosts:
        queued = queues.get(host.host)
        table.add_row(
            Text(humanize.printable(host.host)),
            Text(humanize.latency(host.latency), latency_style(host.latency)),
            humanize.count(host.pages),
            Text(humanize.count(host.failures), "yellow" if host.failures else "dim"),
            Text("" if queued is None else humanize.count(queued)),
            Text(humanize.printable(host.last_error), "dim"),
        )
    return table


def errors(report: TallyReport) -> Text:
    text = Text.assemble(("errors  ", "dim"), no_wrap=True, overflow="ellipsis")
    return text.append(humanize.printable(humanize.by_count(report.errors)))


def counted(job: Job, most: int = 6, overflow: OverflowMethod = "ellipsis") -> list[Text]:
    """The job's own counters; apart, what handlers and hooks dropped."""
    kinds = (("counted", counts.own(job.counts)), ("dropped", counts.dropped(job.counts)))
    lines = [
        Text.assemble(
            (f"{name}  ", "dim"),
            safe(humanize.by_count(found, most)),
            no_wrap=overflow == "ellipsis",
            overflow=overflow,
        )
        for name, found in kinds
        if found
    ]
    if costs := counts.costs_in_words(job.counts, visited(job)):
        lines.append(
            Text.assemble(("cost  ", "dim"), safe(costs), no_wrap=overflow == "ellipsis", overflow=overflow)
        )
    return lines


def latency_style(seconds: float) -> str:
    if seconds < 1:
        return "green"
    return "yellow" if seconds < 5 else "red"
