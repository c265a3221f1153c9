"""How the jobs and workers of a fleet look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shoal.cli.terminal import safe, table, when
from shoal.fleet.schedule import Schedule
from shoal.fleet.sight import FleetSight, JobSight
from shoal.observe import words
from shoal.workerstatus import WorkerStatus

_STYLES = {"running": "green", "paused": "yellow", "finished": "dim", "cancelled": "red"}
_RANK = {"running": 0, "paused": 1, "finished": 2, "cancelled": 3}


def fleet_tables(sight: FleetSight, *, most: int = 1000) -> list[RenderableType]:
    """The jobs, what troubles them, the schedules, and the workers."""
    parts: list[RenderableType] = []
    if sight.jobs:
        parts.append(_jobs_table(_sorted(sight.jobs)[:most]))
    elif not sight.schedules:
        parts.append(safe("no jobs in this store yet; hand one in with: shoal submit FILE.py"))
    parts += [
        safe(f"{one.job.spec.name} is paused: {one.trouble}", "yellow") for one in sight.jobs if one.trouble
    ]
    if sight.schedules:
        parts.append(_schedules_table(sight))
    if sight.workers:
        parts.append(_workers_table(sight, most))
    elif any(one.job.state == "running" for one in sight.jobs):
        parts.append(safe("no worker is running; start one with: shoal worker FILE.py", "yellow"))
    return parts


def _sorted(jobs: Sequence[JobSight]) -> list[JobSight]:
    """Those that run first, and the newest of each kind."""
    return sorted(jobs, key=lambda one: (_RANK[one.job.state], -one.job.created_at))


def _jobs_table(jobs: list[JobSight]) -> Table:
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
            Text(job.state, _STYLES[job.state]),
            Text.assemble(
                words.count(c.done), (f" of {words.count(c.admitted)}{'' if job.fed_all else '+'}", "dim")
            ),
            Text(words.rate(one.rate), "bold green") if one.rate else Text("-", "dim"),
            words.duration(one.eta) if one.eta is not None else Text("-", "dim"),
            Text(words.count(c.dead), "red" if c.dead else "dim"),
            Text(words.count(c.retried), "yellow" if c.retried else "dim"),
            Text(words.count(c.leased), "" if c.leased else "dim"),
            *([str(job.spec.priority)] if ranked else []),
            Text(when(job.created_at)[5:16], "dim"),
        )
    return shown


def _schedules_table(sight: FleetSight) -> Table:
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
    return f"{one.cron} (UTC)" if one.cron else f"every {words.span(one.every)}"


def _workers_table(sight: FleetSight, most: int) -> Table:
    numbers = ("pages/s", "in flight", "memory")
    shown = table("worker", "machine", *numbers, "jobs", "held back by", right=numbers)
    busiest = sorted(sight.workers, key=lambda worker: -worker.rate)
    for worker in busiest[:most]:
        shown.add_row(
            str(worker.pid),
            safe(worker.node),
            Text(words.rate(worker.rate), "bold green" if worker.rate else "dim"),
            f"{worker.in_flight}/{worker.slots}",
            words.size(worker.memory) if worker.memory else "-",
            safe(", ".join(worker.jobs) or "-"),
            Text(", ".join(reason.rule for reason in worker.pressure), "yellow"),
        )
    machines = len({worker.node for worker in sight.workers})
    lead = f"coordinator {sight.leader.holder}" if sight.leader else "no coordinator"
    shown.caption = (
        f"{words.plural(len(sight.workers), 'worker')} on {words.plural(machines, 'machine')}, "
        f"{words.rate(sight.rate)} pages/s, {lead}"
    )
    shown.caption_justify = "left"
    return shown


def as_dict(sight: FleetSight) -> dict[str, Any]:
    return {
        "jobs": [_job_dict(one) for one in _sorted(sight.jobs)],
        "schedules": [_schedule_dict(one) for one in sight.schedules],
        "workers": [_worker_dict(worker) for worker in sight.workers],
        "leader": sight.leader.holder if sight.leader else None,
        "now": sight.now,
    }


def _job_dict(one: JobSight) -> dict[str, Any]:
    job = one.job
    return {
        "job": job.spec.name,
        "spider": job.spec.spider,
        "state": job.state,
        **msgspec.to_builtins(job.counters),
        "rate": one.rate,
        "eta": one.eta,
        "priority": job.spec.priority,
        "fed": job.fed,
        "fed_all": job.fed_all,
        "created_at": job.created_at,
        "finished_at": job.finished_at or None,
        "workers": one.workers,
        "trouble": one.trouble or None,
    }


def _schedule_dict(one: Schedule) -> dict[str, Any]:
    return {
        "schedule": one.name,
        "every": one.every or None,
        "cron": one.cron or None,
        "next_at": one.next_at,
        "last_run": one.last_run or None,
        "paused": one.paused,
    }


def _worker_dict(worker: WorkerStatus) -> dict[str, Any]:
    return {
        "pid": worker.pid,
        "machine": worker.node,
        "rate": worker.rate,
        "in_flight": worker.in_flight,
        "slots": worker.slots,
        "memory": worker.memory or None,
        "jobs": worker.jobs,
        "spiders": worker.spiders,
        "lanes": worker.lanes,
        "pressure": [reason.sentence for reason in worker.pressure],
    }
