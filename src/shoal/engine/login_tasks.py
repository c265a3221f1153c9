"""What becomes of tasks in sessions that log in: which session they have, and where they go when it is logged out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.model import Lease, Moved, Retry, Settlement, Task

_waiting: set[asyncio.Task[Any]] = set()  # pages that wait for their session to log in


@contextmanager
def waiting_for_login() -> Iterator[None]:
    page = asyncio.current_task()
    assert page is not None
    _waiting.add(page)
    try:
        yield
    finally:
        _waiting.discard(page)


def waits_for_login(page: asyncio.Task[Any]) -> bool:
    """Such a page has not been sent: a process that stops hands it back, and does not wait for the login."""
    return page in _waiting


def weight(task: Task, name: str) -> bytes:
    """Spreads tasks over accounts. If one of these is left out, only its own tasks go to others."""
    return blake2b(f"{task.id} {name}".encode(errors="replace"), digest_size=8).digest()


def with_session(lease: Lease, name: str) -> Lease:
    return lease if lease.task.session == name else replace(lease, task=of_session(lease.task, name))


def restored(lease: Lease, settlement: Settlement) -> Settlement:
    """The settlement without the session that was chosen for the page: next time it may be another."""
    session, made = lease.task.session, settlement.lease
    if made.task.session == session:
        return settlement
    verdict = settlement.verdict
    if isinstance(verdict, Moved):
        verdict = Moved(of_session(verdict.to, session))
    return replace(settlement, lease=replace(made, task=of_session(made.task, session)), verdict=verdict)


def unmerged(settlement: Settlement) -> Settlement:
    """A redirect that is not merged with others to the same page: that may turn out to be a login page, from which each
    goes back to where it began."""
    verdict = settlement.verdict
    if not isinstance(verdict, Moved) or not verdict.to.session:
        return settlement
    return replace(settlement, verdict=Moved(replace(verdict.to, fingerprint=None, variant=None)))


def of_session(task: Task, session: str | None) -> Task:
    return replace(task, options=replace(task.options, session=session))


def back_to_start(task: Task, verdict: Retry) -> Retry | Moved:
    """A page that was redirected goes back to where it began: the login page is not what was asked for."""
    if not task.hops:
        return verdict
    again = verdict.task(task)
    origin = task.hops[0]
    return Moved(
        replace(
            again,
            url=origin,
            host=host_key(origin),
            hops=(),
            renewed=0,
            cookies=(),
            trail=(),
            fingerprint=task.trail[0] if task.trail else None,
            variant=None,
        )
    )


def times_logged_out(task: Task) -> int:
    """How often the page looked logged out. A page that went back to where it began has the same attempt again."""
    met = 0
    for failure in reversed(task.history):
        if failure.attempt > task.attempt:
            break  # before it was replayed
        met += failure.kind == "logged_out"
    return met
