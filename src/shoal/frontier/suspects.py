"""Telling a page that kills its worker from those that merely died with it. Pure.

A worker that dies takes all its pages down, and nobody knows which one did it. Given back together they would be
claimed together, and buried together with the guilty one. So from the second loss on they are spread over time, each
time differently: the guilty page goes on meeting its end, the others get through in between.
"""

from __future__ import annotations

from shoal.model import Task

_ROOM = 0.5  # seconds for each suspect, so that few run at the same time
_MIX = 0x9E3779B97F4A7C15  # spreads neighbouring numbers far apart
_BITS = 64


def wait_of_suspect(task: Task, company: int) -> float:
    """Seconds until a task that was lost with its worker may run again; `company` tasks were lost together."""
    losses = 1 + sum(failure.kind == "worker_lost" for failure in task.history)
    if losses < 2 or company < 2:
        return 0.0
    place = ((task.id * _MIX + losses * (_MIX >> 7)) * _MIX) % (1 << _BITS) / (1 << _BITS)
    return place * _ROOM * company * (losses - 1)
