"""A worker died: its pages are given back at once, by whoever has seen it die.

Without this they would wait for their leases to run out, a minute or so, and nobody would know which of them did it.
"""

from __future__ import annotations

from shoal.events import event
from shoal.frontier.loss import Loss
from shoal.frontier.protocol import Queue
from shoal.frontier.verdicts import verdict_on, where
from shoal.model import Lease, Settlement


async def report_loss(frontier: Queue, loss: Loss) -> int:
    """Takes back what the worker held: a page that hung has spent an attempt, its stack is kept, and the others go
    back unharmed. Answers how many there were; 0 if another process has already done so."""
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
    """In the log: that it died, of what, and that another takes its place."""
    if loss.hung:
        event("worker_hung", worker=worker, seconds=loss.seconds, where=where(loss.stack).strip())
        return
    said = f"worker {worker} died (exit {loss.exit}), starting it again{f': {reason}' if reason else ''}"
    event("worker_died", said, worker=worker, exit=loss.exit, reason=reason)
