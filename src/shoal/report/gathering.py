"""What a report is made of, read from the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shoal.engine.history import MOST_HOSTS, History
from shoal.engine.history_recorder import history_of_past, read_history
from shoal.events import Event
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, Job
from shoal.inspect.event_log import read_events
from shoal.inspect.freshness import Freshness, PageView, details_of, freshness_of, is_standing
from shoal.inspect.job import has_ended, said_of, unknown_job
from shoal.inspect.overview import look_at_followed
from shoal.jobs.note import note_of
from shoal.model import DeadLetter
from shoal.settings import SECRET, Settings
from shoal.sink import describe_noted

_LETTERS_READ = 500
_LETTERS_SHOWN = 24
_OF_A_KIND = 4
_EVENTS_SHOWN = 24
_GRAVE = ("warning", "error")

_DEFAULTS = msgspec.to_builtins(Settings())


class Changed(Struct, frozen=True):
    """A setting that is not at its default."""

    name: str
    value: object
    default: object


class Findings(Struct, frozen=True):
    job: Job
    history: History
    letters: Sequence[DeadLetter]  # a few of every kind
    events: Sequence[Event]  # the grave ones of its time, oldest first
    settings: Sequence[Changed] | None  # None: not known
    output: str  # where the rows are; empty: they were printed, or handed to the program that crawled
    now: float  # the frontier's time
    gone: str = ""  # what is missing, if the job was pruned
    freshness: Freshness | None = None  # of a standing job that is open
    troubled: Sequence[PageView] = ()  # pages of it that failed at their last visit

    @property
    def ended_at(self) -> float:
        """… or when something last happened, if the job has not ended."""
        last = self.history.points()[-1:]
        return self.job.finished_at or (min(self.now, last[0].at + last[0].seconds) if last else self.now)

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended_at - self.job.created_at)


async def gather(frontier: Frontier, name: str) -> Findings:
    job = await frontier.job(name)
    now = await frontier.now()
    past = await frontier.past_job(name) if job is None else None
    if past is not None:
        job, history = past.job, history_of_past(past)
    elif job is None:
        raise await unknown_job(frontier, name)
    else:
        history = await read_history(frontier, name)
    return Findings(
        job,
        history,
        _few_of_each(await frontier.dead(DeadFilter(job=name, limit=_LETTERS_READ))),
        [event for event in await read_events(frontier) if concerns(event, job, history, now)][
            -_EVENTS_SHOWN:
        ],
        _changed(job),
        _output(job),
        now,
        said_of(past, now) if past is not None else "",
        *(await _followed(frontier, job) if past is None else ()),
    )


async def _followed(frontier: Frontier, job: Job) -> tuple[Freshness, Sequence[PageView]] | tuple[()]:
    if not is_standing(job) or has_ended(job):
        return ()
    seen = await look_at_followed(frontier, job)
    details = details_of(seen.job, seen.following, seen.at)
    return freshness_of(seen.job, seen.following, seen.at), details.troubled


def _few_of_each(letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
    counts: Counter[str] = Counter()
    chosen = []
    for letter in letters:
        counts[letter.kind] += 1
        if counts[letter.kind] <= _OF_A_KIND:
            chosen.append(letter)
    return chosen[:_LETTERS_SHOWN]


def concerns(event: Event, job: Job, history: History, now: float) -> bool:
    """Grave, of the job's time, and not of another job, nor of a host that only others ask."""
    if event.level not in _GRAVE or not job.created_at <= event.at <= (job.finished_at or now) + 1:
        return False
    if (name := event.fields.get("job")) is not None:
        return name == job.spec.name
    host = event.fields.get("host")
    return host is None or host in history.hosts or len(history.hosts) >= MOST_HOSTS  # then not all are known


def _changed(job: Job) -> Sequence[Changed] | None:
    given = note_of(job.spec).settings
    if given is None:
        return None
    return [Changed(name, value, _DEFAULTS.get(name)) for name, value in given.items() if name not in SECRET]


def _output(job: Job) -> str:
    output = note_of(job.spec).output
    return describe_noted(output) if output else ""
