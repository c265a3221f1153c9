"""What the pages are given: the store's values in the words of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.engine.history import History
from shoal.frontier.values import HostQueue, WorkerRecord
from shoal.inspect.host import HostSight, causes, rate_source, settings_in_words
from shoal.inspect.inquiry import ProxySight
from shoal.inspect.json_form import cause_dicts, worker_dict
from shoal.jobs.worker_status import heard
from shoal.policy.outcomes import rule_for
from shoal.valve import FOREVER


def worker_rows(records: Sequence[WorkerRecord], now: float) -> list[dict[str, Any]]:
    rows = []
    for record in records:
        status = heard(record, now)
        rows.append(
            {
                **worker_dict(status),
                "worker": record.name,
                "rates": status.rates,
                "paused_lanes": sorted(status.paused_lanes),
                "pressure": [{"rule": one.rule, "sentence": one.sentence} for one in status.pressure],
                "seen_at": record.seen_at,
            }
        )
    return sorted(rows, key=lambda row: (-row["rate"], row["worker"]))


def pool_rows(proxies: Sequence[ProxySight]) -> list[dict[str, Any]]:
    pools: dict[str, dict[str, Any]] = {}
    for one in proxies:
        pool = pools.setdefault(one.pool, {"pool": one.pool, "cost": one.cost, "proxies": []})
        pool["proxies"].append(
            {
                "proxy": one.proxy,
                "requests": one.requests,
                "success": one.success,
                "latency": one.latency,
                "condition": one.condition,
                "until": one.until,
                "banned_by": one.banned_by,
            }
        )
    return list(pools.values())


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


def host_dict(host: HostSight, queues: Sequence[HostQueue]) -> dict[str, Any]:
    """One host in full; a list has less."""
    robots, manual = host.best.state.robots if host.best is not None else None, host.state.manual
    blocked = manual.blocked_until > host.now
    return {
        "now": host.now,
        "host": host.name,
        "condition": host.condition,
        "until": host.until,
        "rate": host.rate,
        "interval": host.valve.interval,
        "in_flight": host.valve.in_flight,
        "cap": host.valve.cap,
        "latency": host.latency,
        "timeout": host.limits.timeout,
        "pending": host.pending,
        "errors": host.state.errors,
        "causes": cause_dicts(causes(host)),
        "queues": queues,
        "robots": None
        if robots is None
        else {
            "verdict": robots.verdict,
            "reason": robots.reason,
            "fetched_at": robots.fetched_at,
            "expires_at": robots.expires_at,
            "crawl_delay": host.crawl_delay,
        },
        "origins": [
            {
                "origin": origin.name,
                "condition": origin.condition,
                "robots": origin.state.robots.verdict if origin.state.robots is not None else None,
            }
            for origin in host.origins.values()
        ],
        "manual": {
            "blocked": blocked,
            "blocked_until": manual.blocked_until if blocked and manual.blocked_until < FOREVER else None,
            "reason": manual.reason,
            "rate": manual.rate,
            "per_host": manual.per_host,
        },
        "rate_by": rate_source(host),
        "settings": [
            {"key": key, "said": said, "by": host.sources.get(key, "")}
            for key, said in settings_in_words(host.own).items()
        ],
    }
