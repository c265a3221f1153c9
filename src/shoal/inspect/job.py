"""One look at a running crawl: what progress, summary and a watching caller are shown."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from shoal.engine.tally import TallyReport
from shoal.errors import UsageError
from shoal.frontier.protocol import Jobs
from shoal.frontier.values import OWN_START, Job, PastJob
from shoal.inspect.freshness import Freshness
from shoal.policy.quality_alarms import QualityReport
from shoal.text import command, humanize

_NAMED = 20  # jobs that a message names


class View(Struct, frozen=True):
    job: Job
    report: TallyReport
    elapsed: float = 0.0  # seconds since this run began
    rate: float = 0.0  # pages a second, lately
    eta: float | None = None  # seconds, of a standing job until nothing is due; None: no telling yet
    queues: Sequence[tuple[str, int]] = ()  # the longest: (host, pending)
    processes: int = 1
    note: str = ""  # what is going on, when it is not plain crawling: "draining", "already finished" …
    restarts: int = 0  # of the process, in this run
    quality: QualityReport = QualityReport()  # of what handlers yield; told at the end
    freshness: Freshness | None = None  # of a standing job
    now: float = 0.0  # the frontier's time


def has_ended(job: Job) -> bool:
    return job.state in ("finished", "cancelled")


def remaining(job: Job) -> int:
    """Pages still to come, as far as is known: the open tasks but for those that wait for their next visit, or what the
    page budget leaves of them. Of a job that has ended, those that it left."""
    counters, budget = job.counters, job.spec.max_pages
    if has_ended(job):
        return counters.open
    left = counters.open - counters.waiting
    return min(left, max(0, budget - counters.done)) if budget else left


def left_over(job: Job) -> str:
    """What a job that has ended did not fetch, and why; "": nothing, or it has not ended."""
    if not has_ended(job) or not job.counters.open:
        return ""
    why = "it was cancelled"
    if job.state == "finished":
        why = f"it has its {humanize.plural(job.spec.max_pages, 'page')}; with a larger max_pages it goes on"
    c = job.counters
    if c.waiting:
        new = f", {humanize.count(c.open - c.waiting)} not fetched" if c.open > c.waiting else ""
        return f"{humanize.plural(c.waiting, 'page')} not visited any more{new}: {why}"
    return f"{humanize.plural(c.open, 'page')} not fetched: {why}"


def waits_for(job: Job) -> str:
    """The lists that a job with nothing else to do waits for; "": none. The command that fed them was cut short, or is
    slow."""
    lists = ", ".join(name for name in job.unfed if name != OWN_START)
    if not lists or job.state != "running" or job.counters.open:
        return ""
    return f"it waits for the rest of {lists}: if its shoal submit has ended, run it again"


async def unknown_job(frontier: Jobs, name: str, kind: str = "job") -> UsageError:
    """Why there is no such job: it was pruned, or it was never here."""
    past = await frontier.past_job(name)
    if past is not None:
        return UsageError(f"{said_of(past, await frontier.now())}: {command(f'report {name}')}")
    jobs = [job.spec.name for job in await frontier.jobs()]
    more = f", and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    known = ", ".join(jobs[-_NAMED:]) + more if jobs else "none"
    return UsageError(f"no {kind} {name!r} in this store; there is: {known}")


def said_of(past: PastJob, now: float) -> str:
    ago = humanize.span(max(0.0, now - past.pruned_at))
    return f"job {past.job.spec.name} was pruned {ago} ago, and only its counters and a short report are left"
