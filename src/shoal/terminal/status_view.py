"""What `shoal status`, `shoal top` and `shoal up` draw: everything in a store, in the room there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shoal.engine.history import History
from shoal.frontier.values import PastJob
from shoal.inspect.event_log import Event
from shoal.inspect.freshness import in_words, is_late
from shoal.inspect.held_back import Holdup, Holdups
from shoal.inspect.job import left_over, waits_for
from shoal.inspect.json_form import sorted_jobs
from shoal.inspect.overview import LATELY, JobView, Overview, PageInFlight
from shoal.inspect.row_layout import one_line
from shoal.jobs.note import nobody_works
from shoal.jobs.worker_status import side_by_side, versions_of
from shoal.spider.arguments import read_key
from shoal.terminal.console import STATES, when
from shoal.text import command, humanize

TOP = "top"
FLIGHTS = 12  # pages in flight that are asked for
NARROW = 100  # columns; below, tables have fewer
_VERY_WIDE = 120
MOST_ROWS = 12  # of a table, where there is no edge of a screen
_MANY_ROWS = 1_000  # … of jobs and workers
_PRUNED = 10  # jobs that were pruned, and are shown
_COLUMNS = 60  # of the curve
_UNWRITTEN = 15.0  # seconds: what happened just now may not be in the history yet
_BLOCKS = "▁▂▃▄▅▆▇█"
_WELL = {"healthy": "green", "no robots": "yellow", "resting": "yellow", "probing": "yellow"}
_LEVELS = {"debug": "dim", "info": "", "warning": "yellow", "error": "red"}


class Frame(Struct, frozen=True):
    """All that is drawn at one time."""

    store: str
    overview: Overview
    holdups: Holdups = Holdups()
    events: Sequence[Event] = ()  # oldest first
    flights: Sequence[PageInFlight] = ()  # those that take longest first
    pruned: Sequence[PastJob] = ()  # jobs of which only a record is left, oldest first
    trouble: str = ""  # what is wrong with the looking itself
    live: str = ""  # the command that draws it again and again; "": it is shown once


class Section(Struct, frozen=True):
    """A table that is drawn with as many rows as there is room for."""

    rows: int
    least: int
    draw: Callable[[int], RenderableType]
    extra: int = 2  # lines besides its rows: a heading, and a blank one before it
    most: int = MOST_ROWS  # where there is no edge of a screen


def render(frame: Frame, width: int, height: int | None = None) -> RenderableType:
    """`height`: lines at most; None: as many as it takes."""
    head = _head(frame, width)[:height]
    sections = _sections(frame, width, one_line=height is not None)
    given = allot(sections, None if height is None else height - len(head))
    parts: list[RenderableType] = [*head]
    for section, rows in zip(sections, given, strict=True):
        if rows:
            parts += [Text(), section.draw(rows)]
    return Group(*parts)


def allot(sections: Sequence[Section], lines: int | None) -> list[int]:
    """Shares out the lines: first what each section needs at least, then one more row each in turn."""
    if lines is None:
        return [min(section.rows, section.most) for section in sections]
    given = [0] * len(sections)
    for place, section in enumerate(sections):
        wanted = min(section.rows, section.least)
        if wanted and lines >= section.extra + 1:
            given[place] = min(wanted, lines - section.extra)
            lines -= section.extra + given[place]
    while lines > 0:
        hungry = [place for place, section in enumerate(sections) if 0 < given[place] < section.rows]
        if not hungry:
            break
        for place in hungry[:lines]:
            given[place] += 1
        lines -= min(lines, len(hungry))
    return given


# -- the head


def _head(frame: Frame, width: int) -> list[RenderableType]:
    overview = frame.overview
    lines: list[RenderableType] = [_title(frame)]
    if overview.open:
        lines += _packed(_numbers(overview), width)
    if curve := _curve(overview.past, overview.now, max(8, min(_COLUMNS, width - 30))):
        lines.append(curve)
    if not overview.jobs and not frame.pruned and not overview.schedules:
        lines += [Text(), Text(f"no jobs in this store yet; start one with: {command('crawl URL')}")]
    return lines


def _title(frame: Frame) -> Table:
    line = Table.grid(expand=True)
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right", no_wrap=True)
    title = Text(f"shoal {frame.live}  " if frame.live else "", "bold cyan")
    if frame.trouble:
        title.append(f"{humanize.printable(frame.trouble)}  ", "bold red")
    title.append(humanize.printable(frame.store), "not bold dim")
    line.add_row(
        title, Text(f"{_clock(frame.overview.now)}{'  q leaves' if frame.live == TOP else ''}", "dim")
    )
    return line


def _numbers(overview: Overview) -> list[Text]:
    success, retries = overview.success, overview.delayed - overview.waiting
    cells = [
        (humanize.rate(overview.rate), "pages/s", "bold green" if overview.rate else "dim"),
        (humanize.count(overview.in_flight), "in flight", "bold" if overview.in_flight else "dim"),
        (
            humanize.percent(success),
            "success",
            "dim" if success is None else "bold" if success > 0.9 else "bold yellow",
        ),
        (humanize.count(overview.pending), "pending", "bold" if overview.pending else "dim"),
        *([(humanize.count(overview.waiting), "waiting", "bold")] if overview.waiting else []),
        (humanize.count(retries), "delayed", "bold yellow" if retries else "dim"),
        (humanize.count(overview.dead), "dead", "bold red" if overview.dead else "dim"),
    ]
    if overview.rejected:
        cells.append((humanize.count(overview.rejected), "rejected", "bold red"))
    return [Text.assemble((value, style), (f" {name}", "dim")) for value, name, style in cells]


def _packed(cells: Sequence[Text], width: int, gap: str = "  ") -> list[Text]:
    """Puts as many cells on a line as fit."""
    lines: list[Text] = []
    for cell in cells:
        if lines and lines[-1].cell_len + len(gap) + cell.cell_len <= width:
            lines[-1].append(gap).append_text(cell)
        else:
            lines.append(cell)
    return lines


def _curve(past: History, now: float, columns: int) -> Text | None:
    """Draws pages a second over the last minutes, or longer if the history has no shorter intervals."""
    slices, interval = past.latest
    newest = max(slices, default=0)
    if now - newest * interval > LATELY:
        return None
    if now - newest * interval > _UNWRITTEN:
        newest = int(now // interval)
    step = math.ceil(LATELY / columns / interval)  # slices in a column
    pages = [0] * columns
    for key, one in slices.items():
        if (age := (newest - key) // step) < columns:
            pages[columns - 1 - age] += one.pages
    peak = max(*pages, 1)
    drawn = "".join(_BLOCKS[math.ceil(n / peak * (len(_BLOCKS) - 1))] for n in pages)
    seconds = step * interval
    said = f"  last {humanize.span(columns * seconds)}, peak {humanize.rate(peak / seconds)}/s"
    return Text.assemble((drawn, "cyan"), (said, "dim"), no_wrap=True, overflow="ellipsis")


# -- the sections


def _sections(frame: Frame, width: int, *, one_line: bool) -> list[Section]:
    """`one_line`: sentences are cut, for each of them has one line of a screen."""
    overview, holdups = frame.overview, frame.holdups.hosts
    latest = frame.pruned[: -_PRUNED - 1 : -1]
    jobs = [*sorted_jobs(overview.jobs), *(JobView(past.job) for past in latest)]
    pruned = {past.job.spec.name for past in latest}
    said = [Text(one, "yellow") for one in _troubles(overview)] + _followed(overview)
    if frame.pruned:
        said.append(Text(_said_of_pruned(len(frame.pruned), len(latest)), "dim"))
    held = _held(overview)
    for line in (*said, *held) if one_line else ():
        line.no_wrap, line.overflow = True, "ellipsis"
    lanes = _packed(_lanes(overview), width - 8)
    wide = width >= NARROW
    many, made = _MANY_ROWS, _arguments(jobs)
    return [
        Section(len(jobs), 3, lambda n: _jobs_table(jobs, pruned, n, width, overview.now), most=many),
        Section(len(made), 1, lambda n: _arguments_table(made, n), most=many),
        Section(len(said), 2, lambda n: Group(*said[:n]), extra=1, most=many),
        Section(len(held), 3, lambda n: Group(*held[:n]), extra=1),
        Section(len(overview.schedules), 2, lambda n: _schedules_table(overview, n), most=many),
        Section(len(lanes), 2, lambda n: _labelled("lanes", lanes[:n]), extra=1),
        Section(len(holdups), 3, lambda n: _hosts_table(frame, n, wide)),
        Section(len(overview.workers), 2, lambda n: _workers_table(overview, n, wide), extra=3, most=many),
        Section(len(frame.flights), 2, lambda n: _flights_table(frame, n, wide)),
        Section(len(frame.events), 3, lambda n: _events_table(frame.events, n)),
    ]


def _troubles(overview: Overview) -> list[str]:
    """What a person should know or do, each in a sentence."""
    found = []
    for one in sorted_jobs(overview.jobs):
        if one.trouble:
            found.append(f"{one.job.spec.name} is paused: {one.trouble}")
        elif said := left_over(one.job) or waits_for(one.job):
            found.append(f"{one.job.spec.name}: {said}")
    if not overview.workers:
        found += nobody_works([one.job.spec for one in overview.jobs if one.job.state == "running"])
    if overview.leader is None and any(worker.spiders for worker in overview.workers):
        found.append(f"no coordinator: start one with: {command('coordinator FILE.py')}")
    if said := side_by_side(overview.workers):
        found.append(said)
    return [humanize.printable(one) for one in found]


def _followed(overview: Overview) -> list[Text]:
    """What the standing jobs follow."""
    return [
        Text(
            humanize.printable(f"{one.job.spec.name}: {in_words(one.freshness, overview.now)}"),
            "yellow" if is_late(one.freshness, overview.now) else "dim",
        )
        for one in sorted_jobs(overview.jobs)
        if one.freshness is not None
    ]


def _said_of_pruned(count: int, shown: int) -> str:
    which = "" if count == shown else f" (the latest {shown} are shown; all: {command('status --json')})"
    jobs = humanize.plural(count, "job")
    return f"{jobs} pruned{which}: only counters and a short report are left, see {command('report JOB')}"


def _jobs_table(jobs: Sequence[JobView], pruned: Collection[str], rows: int, width: int, now: float) -> Table:
    wide = width >= NARROW
    ranked = wide and any(one.job.spec.priority for one in jobs)
    rejects = any(one.job.counters.rejected for one in jobs)
    standing = any(one.freshness is not None for one in jobs)
    more = (
        "dead",
        *(("rejected",) if rejects else ()),
        "retried",
        "in flight",
        "workers",
        *(("priority",) if ranked else ()),
    )
    more = (*more, "started") if width >= _VERY_WIDE else more
    shown = _table(_of("job", rows, len(jobs)), "state")
    shown.add_column("progress", ratio=1, min_width=8)
    ends = (
        "ETA" if not standing else "next visit" if all(one.freshness for one in jobs) else "ETA / next visit"
    )
    fresh = ("fresh",) if standing else ()
    for name in ("", "pages", *fresh, "pages/s", ends, *(more if wide else ())):
        shown.add_column(name, justify="right", no_wrap=True)
    for one in jobs[:rows]:
        job, c = one.job, one.job.counters
        extra = [
            Text(humanize.count(c.dead), "red" if c.dead else "dim"),
            *([Text(humanize.count(c.rejected), "red" if c.rejected else "dim")] if rejects else []),
            Text(humanize.count(c.retried), "yellow" if c.retried else "dim"),
            Text(humanize.count(c.leased), "" if c.leased else "dim"),
            Text(humanize.count(one.workers), "" if one.workers else "dim"),
            *([Text(str(job.spec.priority))] if ranked else []),
            *([Text(when(job.created_at)[5:16], "dim")] if width >= _VERY_WIDE else []),
        ]
        shown.add_row(
            Text(humanize.printable(job.spec.name), "bold"),
            Text("pruned" if job.spec.name in pruned else job.state, STATES[job.state]),
            ProgressBar(total=1, completed=one.progress or 0, complete_style="cyan", finished_style="green"),
            Text("-", "dim") if one.progress is None else f"{math.floor(one.progress * 100)} %",
            _pages(one),
            *([_fresh(one, now)] if standing else []),
            Text(humanize.rate(one.rate), "bold green") if one.rate else Text("-", "dim"),
            _ends(one, now),
            *(extra if wide else ()),
        )
    return shown


def _pages(one: JobView) -> Text:
    """Pages that are done of those that are known; of a standing job, those that it has visited and follows."""
    c = one.job.counters
    done = c.done if one.freshness is None else one.freshness.followed
    total = f"/{humanize.count(c.admitted)}{'' if one.job.fed_all else '+'}"
    return Text.assemble(humanize.count(done), (total, "dim"))


def _fresh(one: JobView, now: float) -> Text:
    if one.freshness is None or one.freshness.ratio is None:
        return Text("-", "dim")
    return Text(humanize.percent(one.freshness.ratio), "yellow" if is_late(one.freshness, now) else "green")


def _ends(one: JobView, now: float) -> Text:
    if one.freshness is not None and (due := one.freshness.next_due) is not None:
        return Text(humanize.span(due - now) if due - now >= 1 else "now")
    return Text("-", "dim") if one.eta is None else Text(humanize.duration(one.eta))


def _arguments(jobs: Sequence[JobView]) -> list[tuple[str, str]]:
    """The jobs that have arguments, and these."""
    found = [(one.job.spec.name, " ".join(read_key(one.job.spec.spider)[1])) for one in jobs]
    return [(humanize.printable(name), one_line(said)) for name, said in found if said]


def _arguments_table(made: Sequence[tuple[str, str]], rows: int) -> Table:
    shown = _table(_of("arguments", rows, len(made)))
    shown.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for name, said in made[:rows]:
        shown.add_row(Text(name, "bold"), Text(said))
    return shown


def _schedules_table(overview: Overview, rows: int) -> Table:
    shown = _table(_of("schedule", rows, len(overview.schedules)), "runs", "next", "last run")
    for one in overview.schedules[:rows]:
        due = "paused" if one.paused else "due" if one.next_at <= overview.now else when(one.next_at)
        shown.add_row(
            Text(humanize.printable(one.name), "bold"),
            f"{one.cron} (UTC)" if one.cron else f"every {humanize.span(one.every)}",
            Text(due, "yellow" if one.paused else ""),
            Text(humanize.printable(one.last_run)),
        )
    return shown


def _held(overview: Overview) -> list[Text]:
    """One line for each backpressure rule, or what else limits the speed."""
    if overview.pace:
        return [Text(overview.pace, "dim")]
    by_rule: dict[str, list[str]] = {}
    for one in overview.pressure:
        by_rule.setdefault(one.rule, []).append(one.sentence)
    many = len(overview.workers)
    return [
        Text.assemble(
            ("held back  ", "yellow"),
            (humanize.printable(f"{rule}: {sentences[0]}"), "bold yellow"),
            (f"  {len(sentences)} of {humanize.plural(many, 'worker')}" if many > 1 else "", "dim"),
        )
        for rule, sentences in by_rule.items()
    ]


def _lanes(overview: Overview) -> list[Text]:
    return [
        Text.assemble(
            (humanize.printable(lane), ""),
            (f" {humanize.count(load.pending)}", "bold" if load.pending else "dim"),
            (" pending, ", "dim"),
            (humanize.count(load.in_flight), "bold" if load.in_flight else "dim"),
            (" in flight", "dim"),
        )
        for lane, load in overview.lanes.items()
    ]


def _labelled(label: str, lines: Sequence[Text]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    for place, line in enumerate(lines):
        grid.add_row("" if place else label, line)
    return grid


def _hosts_table(frame: Frame, rows: int, wide: bool) -> Table:
    shown = _table("slowest hosts", "condition" if wide else "")
    for name in ("waiting", "needs"):
        shown.add_column(name, justify="right", no_wrap=True)
    told = " · ".join(f"{humanize.count(n)} {name}" for name, n in (frame.holdups.conditions or {}).items())
    shown.add_column(
        Text(f"why ({told})" if wide and told else "why"), ratio=1, no_wrap=True, overflow="ellipsis"
    )
    for one in frame.holdups.hosts[:rows]:
        shown.add_row(
            _short(one.host.name, 40 if wide else 24),
            Text(one.host.condition, _WELL.get(one.host.condition, "red")),
            humanize.count(one.waiting),
            _needs(one, frame.overview.now),
            Text(humanize.printable(one.why)),
        )
    return shown


def _needs(one: Holdup, now: float) -> Text:
    if math.isinf(one.through):
        return Text("for ever", "red")
    left = one.through - now
    return Text(humanize.duration(left)) if left > 0 else Text("-", "dim")


def _workers_table(overview: Overview, rows: int, wide: bool) -> Table:
    mixed = len(versions_of(overview.workers)) > 1
    shown = _table(_of("worker", rows, len(overview.workers)), "machine", *(("version",) if mixed else ()))
    for name in ("pages/s", "slots", "memory"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("jobs", ratio=1, no_wrap=True, overflow="ellipsis")
    if wide:
        shown.add_column("held back by", no_wrap=True, overflow="ellipsis")
    for worker in sorted(overview.workers, key=lambda worker: -worker.rate)[:rows]:
        shown.add_row(
            str(worker.pid),
            _short(worker.node, 24),
            *([_short(worker.version or "-", 16)] if mixed else []),
            Text(f"silent {humanize.span(worker.silent)}", "red")
            if worker.silent
            else Text(humanize.rate(worker.rate), "bold green" if worker.rate else "dim"),
            f"{worker.used}/{worker.slots}",
            humanize.size(worker.memory) if worker.memory else "-",
            Text(humanize.printable(", ".join(worker.jobs) or "-")),
            *([Text(", ".join(reason.rule for reason in worker.pressure), "yellow")] if wide else []),
        )
    machines = len({worker.node for worker in overview.workers})
    shown.caption = (
        f"{humanize.plural(len(overview.workers), 'worker')} on {humanize.plural(machines, 'machine')}, "
        f"{humanize.rate(overview.rate)} pages/s"
    )
    if overview.leader is not None:
        shown.caption += f", coordinator {humanize.printable(overview.leader.holder)}"
    shown.caption_justify = "left"
    return shown


def _flights_table(frame: Frame, rows: int, wide: bool) -> Table:
    shown = _table("longest in flight")
    shown.add_column("for", justify="right", no_wrap=True)
    for name in ("lane", "try", "worker") if wide else ():
        shown.add_column(name, no_wrap=True)
    shown.add_column("url", ratio=1, no_wrap=True, overflow="ellipsis")
    for one in frame.flights[:rows]:
        worker = f"{one.pid} {one.machine}" if one.pid else "gone"
        more = (_short(one.lane, 12), str(one.attempt), _short(worker, 24))
        shown.add_row(
            _short(one.job, 24),
            humanize.span(one.seconds),
            *(more if wide else ()),
            Text(humanize.printable(one.url)),
        )
    return shown


def _events_table(events: Sequence[Event], rows: int) -> Table:
    shown = _table("events")
    shown.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
    for one in list(reversed(events))[:rows]:
        shown.add_row(Text(_clock(one.at), "dim"), Text(humanize.printable(one.message), _LEVELS[one.level]))
    return shown


def _table(*columns: str) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, expand=True)
    for column in columns:
        made.add_column(column, no_wrap=True, overflow="ellipsis")
    return made


def _of(name: str, shown: int, total: int) -> str:
    return name if shown >= total else f"{name} ({shown} of {humanize.count(total)})"


def _short(text: str, most: int) -> Text:
    shown = Text(humanize.printable(text))
    shown.truncate(most, overflow="ellipsis")
    return shown


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
