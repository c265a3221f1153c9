"""When a sitemap or a feed was last read to its end, so that `since="last"` takes only what has changed.

A source belongs to a spider: its URL, and what is taken from it. The time is that at which the run began, since pages
may have changed while it ran. It counts once the run has finished, with nothing left and every file of the source read.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.frontier.codec import stored
from shoal.frontier.compare_and_set import change_note
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, Job, Note
from shoal.model.built_in import is_source
from shoal.model.request import Request
from shoal.spider.start_sources import read_note
from shoal.text import pack

_RUNS = 50  # of a source that have begun and not ended
_SOURCES = 10_000  # of a job
_LETTERS = 100_000  # that are looked through


class _SourceRuns(Struct, frozen=True, omit_defaults=True):
    last: float = 0.0  # when the last run began that has finished
    begun: dict[str, float] = {}  # when the others did, by job


class _JobSources(Struct, frozen=True):
    made_at: float
    sources: list[str]


_encode = msgspec.json.Encoder().encode
_read_runs = stored("runs of a source")(msgspec.json.Decoder(_SourceRuns).decode)
_read_sources = stored("sources of a job")(msgspec.json.Decoder(_JobSources).decode)


def sources_key(job: str) -> str:
    return f"sources/{job}"


def _runs_key(source: str) -> str:
    return f"source-runs/{source}"


def _runs(note: Note | None) -> _SourceRuns:
    return _read_runs(note.value) if note is not None else _SourceRuns()


async def begin_run(frontier: Frontier, spider: str, request: Request, job: str, made_at: float) -> Request:
    """Notes that the job reads the source. Returns its request, with the time of the last run if that is asked for."""
    wanted = read_note(request.meta)
    asked = [spider, request.handler, request.url, *wanted.identity]
    source = blake2b(pack(asked), digest_size=12).hexdigest()
    last = 0.0
    await _catch_up(frontier, source, job)

    async def begun(note: Note | None) -> bytes | None:
        nonlocal last
        runs = _runs(note)
        last = runs.last
        if runs.begun.get(job) == made_at:
            return None
        others = {name: at for name, at in runs.begun.items() if name != job}
        latest = sorted(others.items(), key=lambda run: run[1])[-_RUNS:]
        return _encode(replace(runs, begun={**dict(latest), job: made_at}))

    async def listed(note: Note | None) -> bytes | None:
        known = _read_sources(note.value) if note is not None else None
        sources = known.sources if known is not None and known.made_at == made_at else []
        if source in sources or len(sources) >= _SOURCES:
            return None
        return _encode(_JobSources(made_at, [*sources, source]))

    await change_note(frontier, _runs_key(source), begun)
    await change_note(frontier, sources_key(job), listed)
    if not wanted.is_since_last:
        return request
    since = replace(wanted, since=last or None, is_since_last=False)
    return replace(request, meta=since.as_meta())


async def _catch_up(frontier: Frontier, source: str, job: str) -> None:
    """Ends runs whose process died after their job had finished."""
    for name in _runs(await frontier.note(_runs_key(source))).begun:
        other = await frontier.job(name) if name != job else None
        if other is not None and other.state == "finished":
            await end_run(frontier, other)


async def end_run(frontier: Frontier, job: Job) -> None:
    """Called when a job has finished; again does no harm."""
    note = await frontier.note(sources_key(job.spec.name))
    if note is None or job.counters.open or await _has_unread(frontier, job):
        return
    known = _read_sources(note.value)
    if known.made_at != job.created_at:
        return
    for source in known.sources:
        await change_note(frontier, _runs_key(source), lambda note: _ended(note, job))


async def _ended(note: Note | None, job: Job) -> bytes | None:
    runs = _runs(note)
    if runs.begun.get(job.spec.name) != job.created_at:
        return None
    others = {name: at for name, at in runs.begun.items() if name != job.spec.name}
    return _encode(_SourceRuns(max(runs.last, job.created_at), others))


async def _has_unread(frontier: Frontier, job: Job) -> bool:
    """Whether a sitemap or a feed was given up: what it lists was not seen, and must not be taken for unchanged."""
    if not job.counters.dead:
        return False
    query = DeadFilter(job=job.spec.name, limit=1_000)
    for _ in range(_LETTERS // 1_000):
        letters = await frontier.dead(query)
        if any(is_source(letter.task.handler) for letter in letters):
            return True
        if len(letters) < 1_000:
            return False
        query = replace(query, before=(letters[-1].at, letters[-1].task.id))
    return True  # nobody knows
