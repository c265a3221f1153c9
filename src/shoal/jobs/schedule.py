"""Jobs that run again and again: when, under which name, and where that is kept.

A run is a job of its own, named after the schedule and the time it was due. It is not started while the one before is
not through, and times that were missed, for that or because nobody led, are made up for by one run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.frontier.codec import stored
from shoal.frontier.compare_and_set import change_note
from shoal.frontier.protocol import Frontier, Notes
from shoal.frontier.values import OWN_START, Job, JobSpec, Note
from shoal.jobs.cron import parse_cron
from shoal.jobs.note import encode_note, note_of
from shoal.sink import lines_of
from shoal.sink.outputs import read_output, split_suffixes
from shoal.text.humanize import read_span

KEY = "schedules"


def read_times(every: str, cron: str, *, mark: str = "") -> tuple[float, str]:
    """Seconds between two runs, or a line of cron; neither: (0, ""). Raises UsageError; `mark` is what it writes before
    the two names."""
    if every and cron:
        raise UsageError(f"give one of {mark}every and {mark}cron")
    if cron:
        parse_cron(cron)
    if not every:
        return 0.0, cron
    seconds = read_span(every)
    if seconds is None:
        raise UsageError(f"{mark}every {every[:40]!r} is not a time: write it like 30s, 10m, 2h or 1d")
    if seconds < 1:
        raise UsageError(f"{mark}every {every}: at least 1s")
    return seconds, ""


class Schedule(Struct, frozen=True):
    spec: JobSpec  # of its runs, with the schedule's own name and output
    next_at: float  # when a run is due (the frontier's time)
    every: float = 0.0  # seconds; 0: by cron
    cron: str = ""
    last_run: str = ""  # the job of the latest run
    paused: bool = False
    keep: int = 10  # runs that have ended; older ones are forgotten

    @property
    def name(self) -> str:
        return self.spec.name

    def following(self, now: float) -> float:
        """The first time later than now. Those that were missed are passed over."""
        if self.cron:
            return parse_cron(self.cron).after(now)
        steps = int((now - self.next_at) // self.every) + 1
        return self.next_at + max(1, steps) * self.every

    def due(self, now: float, open_jobs: frozenset[str]) -> bool:
        return not self.paused and now >= self.next_at and self.last_run not in open_jobs

    def run(self) -> JobSpec:
        """The job of the run that is due. The same time gives the same name, so that a run which was begun by a leader
        that died is not begun twice."""
        at = datetime.fromtimestamp(self.next_at, UTC)
        stamp = at.strftime("%Y%m%d-%H%M" if self.cron else "%Y%m%d-%H%M%S")
        note = note_of(self.spec)
        output = "\n".join(run_output(line, stamp) for line in lines_of(note.output))
        note = replace(note, output=output.encode(errors="surrogateescape"))
        return replace(
            self.spec,
            name=f"{self.name}-{stamp}",
            settings=encode_note(replace(note, output=output.encode(errors="surrogateescape"))),
        )

    def is_run(self, job: str) -> bool:
        return _run_names(self).fullmatch(job) is not None

    def started(self, run: str, now: float) -> Schedule:
        return replace(self, last_run=run, next_at=self.following(now))


def _run_names(schedule: Schedule) -> re.Pattern[str]:
    return re.compile(re.escape(schedule.name) + r"-\d{8}-\d{4}(\d\d)?")


def old_runs(schedule: Schedule, jobs: Sequence[Job]) -> list[str]:
    """Runs that have ended, without the latest ones: their data would fill the store."""
    through = [
        job for job in jobs if job.state in ("finished", "cancelled") and schedule.is_run(job.spec.name)
    ]
    through.sort(key=lambda job: job.created_at)
    return [job.spec.name for job in through[: max(0, len(through) - schedule.keep)]]


def run_output(output: str, stamp: str) -> str:
    """books.jsonl becomes books-20261115-1200.jsonl: every run has a file of its own. A database is shared. {date} is
    replaced instead, if there is one."""
    place = next(iter(read_output(output or None, stored=True)), None)
    if place is None or place.kind == "database":
        return output
    if "{date}" in place.target:
        return replace(place, target=place.target.replace("{date}", stamp)).text
    before, suffix = split_suffixes(place.target)
    return replace(place, target=f"{before}-{stamp}{suffix}").text


_encode = msgspec.msgpack.Encoder().encode
# Unreadable data raises an error: taken for an empty list, the next change would delete all schedules.
_decode = stored("list of schedules")(msgspec.msgpack.Decoder(dict[str, Schedule]).decode)

Schedules = dict[str, Schedule]


async def schedules(frontier: Notes) -> Schedules:
    return _read(await frontier.note(KEY))


def _read(note: Note | None) -> Schedules:
    return _decode(note.value) if note is not None else {}


async def change_schedules(frontier: Notes, change: Callable[[Schedules], Schedules]) -> Schedules:
    """`change` is called again if another process was quicker."""
    changed: Schedules = {}

    async def encoded(note: Note | None) -> bytes:
        nonlocal changed
        changed = change(_read(note))
        return _encode(changed)

    await change_note(frontier, KEY, encoded)
    return changed


async def start_due_runs(frontier: Frontier, open_jobs: frozenset[str]) -> list[str]:
    """Starts every run that is due; returns their names."""
    begun = []
    for schedule in (await schedules(frontier)).values():
        now = await frontier.now()
        if schedule.due(now, open_jobs):
            run = schedule.run()
            if await frontier.job(run.name) is None:
                await frontier.open_job(run, OWN_START)
            await change_schedules(frontier, lambda known: _with_run(known, schedule, run.name, now))  # noqa: B023
            begun.append(run.name)
    return begun


def _with_run(known: Schedules, schedule: Schedule, run: str, now: float) -> Schedules:
    """Changes nothing if the schedule was replaced or removed meanwhile."""
    if known.get(schedule.name) != schedule:
        return known
    return {**known, schedule.name: schedule.started(run, now)}
