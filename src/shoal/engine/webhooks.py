"""Webhooks: changes as tasks that are delivered, tried again and buried like pages.

    a visit finds changes ──▶ its settlement admits a task for every webhook ──▶ claim ──▶ POST ──▶ 2xx: done
                                                                     ▲                      │
                                                                     └── delayed ◀── else ──┤
                                                                                            └──▶ 410, or for days: dead

The task is committed with the visit, so no change is lost and none is sent that was not committed. It is sent at least
once, always with the same id. It is no page: it goes to a host key of its own, past robots.txt, limits and proxies, and
counts apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from shoal.events import event
from shoal.fetch.slots import in_the_network
from shoal.fetch.webhook_sending import Receiver, Sender, listed, read_receivers
from shoal.frontier.clock import FrontierClock
from shoal.limits import WEBHOOK_BODY, WEBHOOK_CHANGES
from shoal.model import (
    CHANGES,
    Dead,
    Done,
    Failure,
    ItemNote,
    Lease,
    Outcome,
    Response,
    Retry,
    Row,
    Settlement,
    Snapshot,
    Task,
    webhook_host,
)
from shoal.model.built_in import WEBHOOK
from shoal.model.counts import WEBHOOKS_DEAD, WEBHOOKS_RETRIED, WEBHOOKS_SENT
from shoal.policy.outcomes import rule_for, snapshot_of
from shoal.policy.retry import retry_after
from shoal.settings import Settings
from shoal.text import one_line

_LANE = "urgent"
_GROWTH = 4.0  # times the wait before
_LONGEST = (
    3600.0  # seconds between two attempts: a receiver that is back after a night has everything an hour later
)
_SPREAD = 0.2  # share of a wait by which it differs at random
_DAY = 86_400.0
_CUT = ("old", "new")  # what a change that is too long is sent without


# -- from changes to tasks


def webhook_tasks(changes: Sequence[Row], task: Task, settings: Settings) -> tuple[Task, ...]:
    """The deliveries of what a visit of that task has found to be changed: one for each webhook, or several if it is a
    lot."""
    count = len(listed(settings.webhook))
    if not count or not changes:
        return ()
    parts = list(_parts(changes))
    lane = _LANE if not settings.serve or _LANE in settings.serve else task.lane
    return tuple(
        _delivery(task, webhook, lane, part, place, len(parts))
        for webhook in range(1, count + 1)
        for place, part in enumerate(parts, 1)
    )


def _parts(changes: Sequence[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    size = 0
    for row in changes:
        if part and (size + len(row.data) > WEBHOOK_BODY or len(part) == WEBHOOK_CHANGES):
            yield part
            part, size = [], 0
        part.append(row)
        size += min(len(row.data), WEBHOOK_BODY)
    yield part


def _delivery(task: Task, webhook: int, lane: str, rows: Sequence[Row], part: int, parts: int) -> Task:
    id = uuid4().hex
    told: dict[str, Any] = {"id": id, "event": CHANGES, "job": task.job, "url": task.url}
    if rows[0].at:
        told["at"] = datetime.fromtimestamp(rows[0].at, UTC).isoformat(timespec="milliseconds")
    if parts > 1:
        told |= {"part": part, "parts": parts}
    told["changes"] = [_change(row.data) for row in rows]
    return Task(
        task.url,
        WEBHOOK,
        job=task.job,
        host=webhook_host(webhook),
        lane=lane,
        body=msgspec.json.encode(told),
        parent=task.id,
        meta={"webhook": webhook, "delivery": id},
        item=ItemNote(table=CHANGES, handler=WEBHOOK),
    )


def _change(data: bytes) -> Any:
    """A row as it stands; one that is too long to be sent, without its values."""
    if len(data) <= WEBHOOK_BODY:
        return msgspec.Raw(data.strip())
    change = msgspec.json.decode(data)
    return {key: value for key, value in change.items() if key not in _CUT} | {"too_long": True}


# -- from tasks to requests


class Webhooks:
    """Delivers the tasks of one job in one process."""

    def __init__(
        self, settings: Settings, clock: FrontierClock, rng: random.Random, environ: Mapping[str, str]
    ) -> None:
        receivers = read_receivers(settings, environ)
        self._receivers = {one.number: one for one in receivers}
        self._sender = Sender(settings, receivers, clock)
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._failing: set[int] = set()  # the numbers of those that failed last

    def __repr__(self) -> str:
        return f"<Webhooks: {', '.join(one.name for one in self._receivers.values()) or 'none'}>"

    async def deliver(self, lease: Lease) -> Settlement | None:
        """None: the task goes back untouched."""
        if lease.ahead:
            return None
        task, meta = lease.task, lease.task.meta or {}
        number = meta.get("webhook", 0)
        receiver = self._receivers.get(number)
        if receiver is None:
            have = len(self._receivers) or "none"
            detail = (
                f"webhook {number} is not in the settings of this process, which have {have}: "
                "set webhook there, too"
            )
            return self._failed(lease, number, detail, None)
        with in_the_network():
            outcome = await self._sender.send(
                receiver, task.body or b"", id=str(meta.get("delivery", "")), event=CHANGES
            )
        if isinstance(outcome, Response) and 200 <= outcome.status < 300:
            if number in self._failing:
                self._failing.discard(number)
                event("webhook_recovered", job=task.job, webhook=receiver.name)
            return Settlement(lease, Done(), counts=((WEBHOOKS_SENT, 1),))
        return self._failed(lease, number, _said(receiver, outcome), outcome)

    def _failed(self, lease: Lease, number: int, detail: str, outcome: Outcome | None) -> Settlement:
        task, now = lease.task, self._clock.now()
        meta = task.meta or {}
        tries, since = int(meta.get("tries", 0)) + 1, float(meta.get("since", now))
        elapsed = outcome.elapsed if outcome is not None else 0.0
        status = outcome.status if outcome is not None else None
        failure = Failure(
            "webhook", one_line(detail), self._clock.time(), status, elapsed, attempt=task.attempt
        )
        gone = status == 410
        if number not in self._failing:
            self._failing.add(number)
            event("webhook_failed", job=task.job, webhook=f"webhook {number}", error=failure.detail)
        if gone or now - since >= self._settings.webhook_days * _DAY:
            fresh = {name: meta[name] for name in ("webhook", "delivery") if name in meta}
            ended = replace(lease, task=replace(task, meta=fresh))  # so that a replay begins anew
            seen = snapshot_of(outcome, self._settings) if outcome is not None else None
            return Settlement(ended, Dead(failure, seen or Snapshot()), counts=((WEBHOOKS_DEAD, 1),))
        again = replace(lease, task=replace(task, meta={**meta, "tries": tries, "since": since}))
        # An attempt that does not count: it is no request of the crawl, whose retries have a budget.
        verdict = Retry(self._wait(tries, outcome), failure, counts=False)
        return Settlement(again, verdict, counts=((WEBHOOKS_RETRIED, 1),))

    def _wait(self, tries: int, outcome: Outcome | None) -> float:
        wait = min(_LONGEST, self._settings.retry_base * _GROWTH ** min(tries - 1, 20))
        wait *= 1 + self._rng.uniform(-_SPREAD, _SPREAD)
        if isinstance(outcome, Response):
            asked = retry_after(outcome.headers.get("Retry-After"), self._clock.time(), _LONGEST)
            return max(wait, asked or 0.0)
        return wait

    def settled(self, settlement: Settlement) -> None:
        """Called after the commit."""
        if isinstance(settlement.verdict, Dead):
            task = settlement.lease.task
            event(
                "webhook_dead",
                job=task.job,
                url=task.url,
                webhook=f"webhook {(task.meta or {}).get('webhook')}",
                error=settlement.verdict.failure.detail,
            )

    async def close(self) -> None:
        await self._sender.close()


def _said(receiver: Receiver, outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return f"{receiver.name}: {outcome.detail or rule_for(outcome.kind).meaning}"
    if 300 <= outcome.status < 400:
        return f"{receiver.name}: HTTP {outcome.status}: redirects are not followed; give the address it leads to"
    return f"{receiver.name}: HTTP {outcome.status}"
