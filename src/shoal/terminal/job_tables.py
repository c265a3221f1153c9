"""How the jobs and workers of a fleet look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shoal import humanize
from shoal.frontier.values import PastJob
from shoal.inspect.job import left_over, waits_for
from shoal.inspect.json_form import job_dict, past_dict, schedule_dict, sorted_jobs, worker_dict
from shoal.inspect.overview import FleetView, JobView
from shoal.jobs.note import nobody_works
from shoal.jobs.schedule import Schedule
from shoal.jobs.worker_status import WorkerStatus, side_by_side, versions_of
from shoal.terminal.console import safe, table, when
from shoal.text import command

_PASTS = 10  # that were pruned, and are shown
_STYLES = {"running": "green", "paused": "yellow", "finished": "dim", "cancelled": "red"}


def fleet_tables(
    sight: FleetView, pasts: Sequence[PastJob] = (), *, most: int = 1000
) -> list[RenderableType]:
    """The jobs, what troubles them, the schedules, and the workers."""
    parts: list[RenderableType] = []
    if sight.jobs or pasts:
        latest = pasts[: -_PASTS - 1 : -1]
        shown = [*sorted_jobs(sight.jobs)[:most], *(JobView(past.job) for past in latest)]
        parts.append(_jobs_table(shown, {past.job.spec.name for past in latest}))
        if pasts:
            parts.append(safe(_pruned(len(pasts), len(latest)), "dim"))
    elif not sight.schedules:
        parts.append(safe(f"no jobs in this store yet; hand one in with: {command('submit FILE.py')}"))
    parts += [
        safe(f"{one.job.spec.name} is paused: {one.trouble}", "yellow") for one in sight.jobs if one.trouble
    ]
    parts += [
        safe(f"{one.job.spec.name}: {said}", "yellow")
        for one in sight.jobs
        if (said := left_over(one.job) or waits_for(one.job))
    ]
    if sight.schedules:
        parts.append(_schedules_table(sight))
    if sight.workers:
        parts.append(_workers_table(sight, most))
        if sight.leader is None and any(worker.spiders for worker in sight.workers):
            parts.append(safe(f"no coordinator: start one with: {command('coordinator FILE.py')}", "yellow"))
        if said := side_by_side(sight.workers):
            parts.append(safe(said, "yellow"))
    else:
        running = [one.job.spec for one in sight.jobs if one.job.state == "running"]
        parts += [safe(said, "yellow") for said in nobody_works(running)]
    return parts


def _pruned(count: int, shown: int) -> str:
    which = "" if count == shown else f" (the latest {shown} are shown; all: {command('jobs --json')})"
    jobs = humanize.plural(count, "job")
    return f"{jobs} pruned{which}: only counters and a short report are left, see {command('report JOB')}"


def _jobs_table(jobs: list[JobView], pruned: Collection[str] = ()) -> Table:
    ranked = any(one.job.spec.priority for one in jobs)
    numbers = (
        "pages",
        "pages/s",
        "ETA",
        "failed",
        "retried",
        "in flight",
        *(("priority",) if ranked else ()),
    )
    shown = table("job", "state", *numbers, "started", right=numbers)
    for one in jobs:
        job, c = one.job, one.job.counters
        shown.add_row(
            safe(job.spec.name, "bold"),
            Text("pruned" if job.spec.name in pruned else job.state, _STYLES[job.state]),
            Text.assemble(
                humanize.count(c.done),
                (f" of {humanize.count(c.admitted)}{'' if job.fed_all else '+'}", "dim"),
            ),
            Text(humanize.rate(one.rate), "bold green") if one.rate else Text("-", "dim"),
            humanize.duration(one.eta) if one.eta is not None else Text("-", "dim"),
            Text(humanize.count(c.dead), "red" if c.dead else "dim"),
            Text(humanize.count(c.retried), "yellow" if c.retried else "dim"),
            Text(humanize.count(c.leased), "" if c.leased else "dim"),
            *([str(job.spec.priority)] if ranked else []),
            Text(when(job.created_at)[5:16], "dim"),
        )
    return shown


def _schedules_table(sight: FleetView) -> Table:
    shown = table("schedule", "runs", "next", "last run")
    for one in sight.schedules:
        due = "paused" if one.paused else when(one.next_at)
        if not one.paused and one.next_at <= sight.now:
            due = "due"
        shown.add_row(
            safe(one.name, "bold"), _beat(one), Text(due, "yellow" if one.paused else ""), safe(one.last_run)
        )
    return shown


def _beat(one: Schedule) -> str:
    return f"{one.cron} (UTC)" if one.cron else f"every {humanize.span(one.every)}"


def _workers_table(sight: FleetView, most: int) -> Table:
    numbers = ("pages/s", "slots", "memory")
    mixed = len(versions_of(sight.workers)) > 1
    version = ("version",) if mixed else ()
    shown = table("worker", "machine", *version, *numbers, "jobs", "held back by", right=numbers)
    busiest = sorted(sight.workers, key=lambda worker: -worker.rate)
    for worker in busiest[:most]:
        shown.add_row(
            str(worker.pid),
            safe(worker.node),
            *([safe(worker.version or "-", "yellow")] if mixed else []),
            Text(humanize.rate(worker.rate), "bold green" if worker.rate else "dim"),
            f"{worker.used}/{worker.slots}",
            humanize.size(worker.memory) if worker.memory else "-",
            safe(", ".join(worker.jobs) or "-"),
            _held_back(worker),
        )
    machines = len({worker.node for worker in sight.workers})
    lead = f"coordinator {sight.leader.holder}" if sight.leader else "no coordinator"
    shown.caption = (
        f"{humanize.plural(len(sight.workers), 'worker')} on {humanize.plural(machines, 'machine')}, "
        f"{humanize.rate(sight.rate)} pages/s, {lead}"
    )
    shown.caption_justify = "left"
    return shown


def _held_back(worker: WorkerStatus) -> Text:
    if worker.silent:
        return Text(f"silent for {humanize.span(worker.silent)}", "red")
    return Text(", ".join(reason.rule for reason in worker.pressure), "yellow")


def as_dict(sight: FleetView, pasts: Sequence[PastJob] = ()) -> dict[str, Any]:
    return {
        "jobs": [job_dict(one) for one in sorted_jobs(sight.jobs)],
        "pruned": [past_dict(past) for past in pasts],
        "schedules": [schedule_dict(one) for one in sight.schedules],
        "workers": [worker_dict(worker) for worker in sight.workers],
        "leader": sight.leader.holder if sight.leader else None,
        "now": sight.now,
    }
