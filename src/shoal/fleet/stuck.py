"""Notices jobs that do not move, and says why."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from msgspec import Struct

from shoal.frontier.protocol import OWN_START, Job
from shoal.observe.words import plural, span
from shoal.workerstatus import WorkerStatus

log = logging.getLogger("shoal")

LONG = 60.0  # seconds without progress that are worth a word
_AGAIN = 600.0  # … and before the next one


class _Seen(Struct, frozen=True):
    progress: tuple[int, ...]
    since: float
    warned_at: float = float("-inf")


class StuckWatch:
    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(self, jobs: Iterable[Job], workers: Sequence[WorkerStatus], now: float) -> dict[str, str]:
        """The sentences that are due: one for each job that has not moved for long. `now` is monotonic."""
        sentences, seen = {}, {}
        for job in jobs:
            if job.state != "running":
                continue
            name, progress = job.spec.name, _progress(job)
            last = self._seen.get(name)
            if last is None or last.progress != progress:
                last = _Seen(progress, now)
            elif now - last.since >= LONG and now - last.warned_at >= _AGAIN:
                waited = span(now - last.since)
                sentences[name] = f"job {name} has not moved for {waited}: {reason(job, workers)}"
                last = _Seen(progress, last.since, now)
            seen[name] = last
        self._seen = seen
        return sentences


def _progress(job: Job) -> tuple[int, ...]:
    c = job.counters
    return c.admitted, c.done, c.dead, c.merged, c.retried, job.fed


def _unfed(job: Job) -> str:
    lists = ", ".join(name for name in job.unfed if name != OWN_START)
    if lists:
        return f"those of {lists} are not fed to the end, run the same shoal submit again"
    return "the coordinator needs its spider, and whoever submitted URLs must feed them"


def reason(job: Job, workers: Sequence[WorkerStatus]) -> str:
    """What holds it up, as far as can be told from outside."""
    spider, counters = job.spec.spider, job.counters
    if not any(spider in worker.spiders or worker.serves(job.spec.name) for worker in workers):
        return f"no worker has its spider {spider!r}; start one with: shoal worker FILE.py"
    if counters.leased:
        return f"{plural(counters.leased, 'page')} in flight, which take long"
    if not counters.open:
        return f"it waits for start URLs: {_unfed(job)}"
    held = sorted({pressed.rule for worker in workers for pressed in worker.pressure})
    if held:
        return f"the workers hold back ({', '.join(held)}); see shoal why URL"
    if counters.pending:
        return (
            f"{plural(counters.pending, 'page')} wait, and their hosts may not be asked now; see shoal hosts"
        )
    return f"{plural(counters.delayed, 'page')} wait to be tried again; see shoal hosts"
