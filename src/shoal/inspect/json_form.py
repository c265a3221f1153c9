"""What people look at, as plain values: the same words after `--json` and in the dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shoal.frontier.values import PastJob
from shoal.inspect.fleet import JobSight
from shoal.inspect.host import CONDITIONS, Cause
from shoal.inspect.in_flight import PageInFlight
from shoal.inspect.overview import Overview
from shoal.inspect.progress import left_over
from shoal.inspect.why import Answer
from shoal.jobs.schedule import Schedule
from shoal.jobs.worker_status import WorkerStatus
from shoal.model import Failure

_RANK = {"running": 0, "paused": 1, "finished": 2, "cancelled": 3}


def sorted_jobs(jobs: Sequence[JobSight]) -> list[JobSight]:
    """Those that run first, and the newest of each kind."""
    return sorted(jobs, key=lambda one: (_RANK[one.job.state], -one.job.created_at))


def job_dict(one: JobSight) -> dict[str, Any]:
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
        "left": left_over(job) or None,
    }


def past_dict(past: PastJob) -> dict[str, Any]:
    return {**job_dict(JobSight(past.job)), "pruned_at": past.pruned_at}


def overview_dict(overview: Overview, conditions: Mapping[str, int] | None) -> dict[str, Any]:
    """`conditions`: None while the hosts have not been counted."""
    return {
        "now": overview.now,
        "rate": overview.rate,
        "in_flight": overview.in_flight,
        "success": overview.success,
        "pending": overview.pending,
        "delayed": overview.delayed,
        "dead": overview.dead,
        "done": overview.done,
        "jobs": [{**job_dict(one), "progress": one.progress} for one in sorted_jobs(overview.jobs)],
        "lanes": [
            {"lane": lane, "pending": load.pending, "in_flight": load.in_flight}
            for lane, load in overview.lanes.items()
        ],
        "pressure": [
            {"rule": held.rule, "sentence": held.sentence, "worker": held.worker}
            for held in overview.pressure
        ],
        "pace": overview.pace,
        "workers": len(overview.workers),
        "hosts": None if conditions is None else sum(conditions.values()),
        "conditions": None if conditions is None else {name: conditions.get(name, 0) for name in CONDITIONS},
        "leader": overview.leader.holder if overview.leader else None,
        "schedules": [schedule_dict(one) for one in overview.schedules],
    }


def schedule_dict(one: Schedule) -> dict[str, Any]:
    return {
        "schedule": one.name,
        "every": one.every or None,
        "cron": one.cron or None,
        "next_at": one.next_at,
        "last_run": one.last_run or None,
        "paused": one.paused,
    }


def worker_dict(worker: WorkerStatus) -> dict[str, Any]:
    return {
        "pid": worker.pid,
        "machine": worker.node,
        "version": worker.version or None,
        "layout": worker.layout or None,
        "rate": worker.rate,
        "silent": worker.silent or None,
        "in_flight": worker.in_flight,
        "waiting": worker.waiting,
        "slots": worker.slots,
        "memory": worker.memory or None,
        "jobs": worker.jobs,
        "spiders": worker.spiders,
        "lanes": worker.lanes,
        "pressure": [reason.sentence for reason in worker.pressure],
    }


def flight_dict(one: PageInFlight) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return {**found, "pid": one.pid or None, "machine": one.machine or None}


def attempt_dict(failure: Failure) -> dict[str, Any]:
    return {
        "attempt": failure.attempt,
        "at": failure.at,
        "seconds": failure.elapsed,
        "kind": failure.kind,
        "status": failure.status,
        "detail": failure.detail,
        "via": failure.via,
    }


def answer_dict(answer: Answer) -> dict[str, Any]:
    return {
        "url": answer.url,
        "job": answer.job,
        "place": answer.place,
        "answer": answer.causes[0].sentence,
        "causes": cause_dicts(answer.causes),
    }


def cause_dicts(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"name": cause.name, "sentence": cause.sentence} for cause in causes]
