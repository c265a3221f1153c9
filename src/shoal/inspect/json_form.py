"""What people look at, as plain values: the same field names after `--json`, in the dashboard's API and in the docs."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from shoal.engine.history import History
from shoal.frontier.values import PastJob, WorkerRecord
from shoal.html.charset import codec_of
from shoal.html.decoding import decode
from shoal.inspect.freshness_form import freshness_dict
from shoal.inspect.held_back import Holdup, Holdups
from shoal.inspect.host import (
    CONDITIONS,
    Cause,
    HostView,
    OriginView,
    causes,
    rate_source,
)
from shoal.inspect.job import left_over
from shoal.inspect.lookup import PoolUse, ProxyView
from shoal.inspect.overview import JobView, Overview, PageInFlight
from shoal.inspect.why import Answer
from shoal.jobs.schedule import Schedule
from shoal.jobs.worker_status import WorkerStatus, heard
from shoal.model import DeadLetter, Failure, Snapshot, page_host
from shoal.model.counts import costs, without_costs
from shoal.policy.outcomes import rule_for
from shoal.policy.quality_alarms import alarms
from shoal.settings import HOST_KEYS, HostSettings
from shoal.spider.arguments import read_key
from shoal.valve import FOREVER

MOST_TEXT = 64 * 1024  # characters of a body

_RANK = {"running": 0, "paused": 1, "finished": 2, "cancelled": 3}


# -- jobs


def sorted_jobs(jobs: Sequence[JobView]) -> list[JobView]:
    """Those that run first, and the newest of each kind."""
    return sorted(jobs, key=lambda one: (_RANK[one.job.state], -one.job.created_at))


def job_dict(one: JobView, now: float = 0.0) -> dict[str, Any]:
    job = one.job
    return {
        "job": job.spec.name,
        "spider": job.spec.spider,
        "arguments": list(read_key(job.spec.spider)[1]),
        "state": job.state,
        **msgspec.to_builtins(job.counters),
        "progress": one.progress,
        "rate": one.rate,
        "eta": one.eta,
        "freshness": freshness_dict(one.freshness, now),
        "caught_up": one.caught_up,
        "priority": job.spec.priority,
        "fed": job.fed,
        "fed_all": job.fed_all,
        "created_at": job.created_at,
        "finished_at": job.finished_at or None,
        "workers": one.workers,
        "trouble": one.trouble or None,
        "left": left_over(job) or None,
        "counts": without_costs(job.counts),
        "costs": costs(job.counts),
    }


def past_dict(past: PastJob) -> dict[str, Any]:
    return {**job_dict(JobView(past.job)), "pruned_at": past.pruned_at}


def overview_dict(overview: Overview, holdups: Holdups) -> dict[str, Any]:
    conditions = holdups.conditions  # None: the hosts have not been counted yet
    return {
        "now": overview.now,
        "rate": overview.rate,
        "in_flight": overview.in_flight,
        "success": overview.success,
        "pending": overview.pending,
        "delayed": overview.delayed,
        "waiting": overview.waiting,
        "dead": overview.dead,
        "rejected": overview.rejected,
        "done": overview.done,
        "jobs": [job_dict(one, overview.now) for one in sorted_jobs(overview.jobs)],
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
        "slowest_hosts": [
            {
                "host": one.host.name,
                "condition": one.host.condition,
                "waiting": one.waiting,
                "needs": _needs(one, overview.now),
                "why": one.why,
            }
            for one in holdups.hosts
        ],
    }


def _needs(one: Holdup, now: float) -> float | None:
    return one.through - now if one.host.held is None and math.isfinite(one.through) else None


def schedule_dict(one: Schedule) -> dict[str, Any]:
    return {
        "schedule": one.name,
        "every": one.every or None,
        "cron": one.cron or None,
        "next_at": one.next_at,
        "last_run": one.last_run or None,
        "paused": one.paused,
    }


# -- workers and what they have in hand


def worker_dict(worker: WorkerStatus) -> dict[str, Any]:
    return {
        "pid": worker.pid,
        "machine": worker.node,
        "version": worker.version or None,
        "layout": worker.layout or None,
        "rate": worker.rate,
        "rates": worker.rates,
        "silent": worker.silent or None,
        "in_flight": worker.in_flight,
        "waiting": worker.waiting,
        "slots": worker.slots,
        "memory": worker.memory or None,
        "jobs": worker.jobs,
        "spiders": worker.spiders,
        "lanes": worker.lanes,
        "paused_lanes": sorted(worker.paused_lanes),
        "pressure": [{"rule": reason.rule, "sentence": reason.sentence} for reason in worker.pressure],
    }


def worker_dicts(records: Sequence[WorkerRecord], now: float) -> list[dict[str, Any]]:
    """The busiest first, each with its name in the store."""
    rows = [
        {**worker_dict(heard(record, now)), "worker": record.name, "seen_at": record.seen_at}
        for record in records
    ]
    return sorted(rows, key=lambda row: (-row["rate"], row["worker"]))


def flight_dict(one: PageInFlight) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return {**found, "pid": one.pid or None, "machine": one.machine or None}


# -- hosts


def host_dict(host: HostView) -> dict[str, Any]:
    return {
        "host": host.name,
        "condition": host.condition,
        "until": host.until,
        "rate": host.rate,
        "interval": host.valve.interval,
        "rate_by": rate_source(host),
        "in_flight": host.valve.in_flight,
        "cap": host.valve.cap,
        "latency": host.latency,
        "timeout": host.limits.timeout,
        "pending": host.pending,
        "visits": host.visits,
        "errors": host.state.errors,
        "domain": host.domain.name if host.domain is not None else None,
        "robots": _robots_dict(host),
        "origins": [_origin_dict(origin) for origin in host.origins.values()],
        "in_browser": list(host.in_browser),
        "quality_alarms": [alarm.sentence for alarm in alarms(host.state.quality)],
        "set_by_hand": _set_by_hand(host),
        "settings": settings_dict(host.own),
        "set_by": dict(host.sources),
        "causes": cause_dicts(causes(host)),
    }


def _robots_dict(host: HostView) -> dict[str, Any] | None:
    record = host.best.state.robots if host.best is not None else None
    if record is None:
        return None
    return {
        "verdict": record.verdict,
        "reason": record.reason,
        "fetched_at": record.fetched_at,
        "expires_at": record.expires_at,
        "crawl_delay": host.crawl_delay,
    }


def _origin_dict(origin: OriginView) -> dict[str, Any]:
    return {
        "origin": origin.name,
        "condition": origin.condition,
        "robots": origin.state.robots.verdict if origin.state.robots is not None else None,
        "why": origin.limits.why,
    }


def _set_by_hand(host: HostView) -> dict[str, Any]:
    manual = host.state.manual
    blocked = manual.blocked_until > host.now
    return {
        "blocked": blocked,
        "blocked_until": manual.blocked_until if blocked and manual.blocked_until < FOREVER else None,
        "reason": manual.reason,
        "rate": manual.rate,
        "per_host": manual.per_host,
    }


def settings_dict(settings: HostSettings) -> dict[str, Any]:
    """What is set for a host. Of headers only the names: their values may be secret."""
    given = {key: getattr(settings, key) for key in HOST_KEYS} | {"headers": list(settings.headers)}
    return {key: value for key, value in given.items() if value not in (None, [])}


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


def pool_dicts(proxies: Sequence[ProxyView], uses: Sequence[PoolUse]) -> list[dict[str, Any]]:
    """Each pool with its proxies, and the hosts that were asked through it."""
    pools: dict[str, dict[str, Any]] = {}
    for one in proxies:
        pool = pools.setdefault(one.pool, {"pool": one.pool, "cost": one.cost, "proxies": [], "hosts": []})
        told = msgspec.to_builtins(one)
        pool["proxies"].append({key: told[key] for key in told if key not in pool})
    for use in uses:
        if use.pool in pools:
            told = msgspec.to_builtins(use)
            pools[use.pool]["hosts"].append({key: told[key] for key in told if key != "pool"})
    return list(pools.values())


# -- dead letters


def letter_dict(letter: DeadLetter, *, response: bool = True) -> dict[str, Any]:
    """Without the response, it is short enough for a list."""
    task = letter.task
    found = {
        "id": task.id,
        "job": task.job,
        "url": task.url,
        "host": page_host(task.host),
        "handler": (task.item.handler if task.item is not None else "") or task.handler,
        "depth": task.depth,
        "hops": task.hops,
        "kind": letter.kind,
        "meaning": rule_for(letter.kind).meaning,
        "at": letter.at,
        "attempts": [_attempt_dict(failure) for failure in task.history],
    }
    if response:
        found["item"] = None if task.item is None else _item_text(task.body or b"")
        found["response"] = None if letter.snapshot is None else _response_dict(letter.snapshot)
    return found


def _item_text(body: bytes) -> str:
    """A rejected item, as people read it."""
    try:
        body = msgspec.json.format(body, indent=2)
    except msgspec.DecodeError:
        pass  # it was cut, or is no JSON
    return visible(body[: 4 * MOST_TEXT].decode("utf-8", "replace")[:MOST_TEXT])


def _attempt_dict(failure: Failure) -> dict[str, Any]:
    return {
        "attempt": failure.attempt,
        "at": failure.at,
        "seconds": failure.elapsed,
        "kind": failure.kind,
        "status": failure.status,
        "detail": failure.detail,
        "via": failure.via,
    }


def _response_dict(snapshot: Snapshot) -> dict[str, Any]:
    headers = snapshot.headers or {}
    said = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    body = snapshot.body[: 4 * MOST_TEXT]
    text = decode(body, codec_of(body, said))
    return {
        "status": snapshot.status,
        "headers": headers,
        "body": visible(text[:MOST_TEXT]),
        "cut": len(text) > MOST_TEXT,
        "body_base64": base64.b64encode(snapshot.body).decode(),
        "traceback": visible(snapshot.traceback),
    }


def visible(text: str) -> str:
    """Control characters as their pictures, and those that reorder or hide text as U+FFFD."""
    return "".join(c if c.isprintable() or c in "\n\t" else _picture(c) for c in text.replace("\r\n", "\n"))


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


# -- the past


def history_dict(history: History) -> dict[str, Any]:
    return {
        "interval": history.interval,
        "points": [
            {
                "at": point.at,
                "pages": point.slice.pages,
                "fetches": point.slice.fetches,
                "retries": point.slice.retries,
                "dead": point.slice.dead,
                "bytes": point.slice.bytes,
                "p50": point.slice.percentile(50),
                "p95": point.slice.percentile(95),
                "errors": point.slice.errors,
            }
            for point in history.points()
        ],
        "hosts": [
            {"host": host, "pages": past.pages, "failures": past.failures, "latency": past.latency}
            for host, past in sorted(history.hosts.items(), key=lambda item: -item[1].requests)
        ],
    }


def errors_dict(history: History) -> dict[str, Any]:
    totals = history.total().errors
    return {
        "errors": [
            {
                "kind": kind,
                "count": totals[kind],
                "meaning": rule_for(kind).meaning,
                "blames_host": rule_for(kind).blames_host,
            }
            for kind in history.kinds()
        ],
        "interval": history.interval,
        "points": [{"at": point.at, "errors": point.slice.errors} for point in history.points()],
    }
