"""Gives back the pages of a worker that died, at once.

Without this they would wait about a minute for their leases to run out, and nobody would know which page killed it.
"""

from __future__ import annotations

from shoal.events import event
from shoal.frontier.loss import Loss
from shoal.frontier.protocol import Queue
from shoal.frontier.verdicts import verdict_on, where
from shoal.model import Lease, Settlement


async def report_loss(frontier: Queue, loss: Loss) -> int:
    """Takes the worker's leases back and returns how many there were; 0 if another process was first. A page that hung
    loses an attempt and keeps the stack; the others go back unharmed."""
    held = await frontier.held(loss.worker) if loss.worker else ()
    now = await frontier.now()
    settlements: list[Settlement] = []
    unharmed: list[Lease] = []
    for place, lease in enumerate(held):
        verdict = verdict_on(lease.task, lease.token, loss, place, len(held), now)
        if verdict is None:
            unharmed.append(lease)
        else:
            settlements.append(Settlement(lease, verdict[0], snapshot=verdict[1]))
    if settlements:
        await frontier.settle(settlements)
    if unharmed:
        await frontier.release(unharmed)
    return len(held)


def tell_loss(loss: Loss, worker: str | int, reason: str = "") -> None:
    """Logs that the worker died or hung, and that another takes its place."""
    if loss.hung:
        event("worker_hung", worker=worker, seconds=loss.seconds, where=where(loss.stack).strip())
        return
    said = f"worker {worker} died (exit {loss.exit}), starting it again{f': {reason}' if reason else ''}"
    event("worker_died", said, worker=worker, exit=loss.exit, reason=reason)
