"""The freshness of a standing job as plain values: the same after `--json` and in the dashboard's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shoal.engine.history import History, Point
from shoal.engine.history_recorder import read_history
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.inspect.freshness import EDGES, Freshness, details_of, freshness_of, is_late, is_standing


def freshness_dict(freshness: Freshness | None, now: float) -> dict[str, Any] | None:
    """None: it is no standing job."""
    if freshness is None:
        return None
    return {
        "followed": freshness.followed,
        "on_time": freshness.on_time,
        "overdue": freshness.overdue,
        "new": freshness.new,
        "failing": freshness.failing,
        "held_back": freshness.held,
        "ratio": freshness.ratio,
        "next_due": freshness.next_due,
        "oldest_due": freshness.oldest_due,
        "late": is_late(freshness, now),
        "estimated": freshness.about,
        **msgspec.to_builtins(freshness.visits),
    }


def visits_over_time(history: History) -> dict[str, Any]:
    return {"interval": history.interval, "points": [_point(point) for point in history.finest_points()]}


def _point(point: Point) -> dict[str, Any]:
    visits = point.slice.visits
    return {
        "at": point.at,
        "seconds": point.seconds,
        "visits": visits.visits,
        "unchanged": visits.unchanged,
        "changed": visits.changed,
        "missed": visits.missed,
        "gone": visits.gone,
        "held": visits.held,
        "freshness": visits.freshness,
    }


async def freshness_page(frontier: Frontier, jobs: Sequence[Job], name: str | None) -> dict[str, Any]:
    """Of the job with that name, or of the newest standing job. All but `jobs` is missing if there is none."""
    from shoal.inspect.overview import latest_followed

    standing = sorted((job for job in jobs if is_standing(job)), key=lambda job: -job.created_at)
    names = [job.spec.name for job in standing]
    chosen = next((job for job in standing if name in (None, job.spec.name)), None)
    seen = await latest_followed(frontier, chosen) if chosen is not None else None
    now = await frontier.now()
    if chosen is None or seen is None:
        return {"now": now, "jobs": names, "job": None}
    details = details_of(seen.job, seen.following, seen.at)
    return {
        "now": now,
        "jobs": names,
        "job": chosen.spec.name,
        "freshness": freshness_dict(freshness_of(seen.job, seen.following, seen.at), now),
        "due": {"edges": EDGES, "pages": details.due},
        "hosts": details.hosts,
        "restless": details.restless,
        "overdue": details.overdue,
        "troubled": details.troubled,
        **visits_over_time(await read_history(frontier, chosen.spec.name)),
    }
