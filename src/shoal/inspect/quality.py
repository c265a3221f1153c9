"""The quality of what handlers yield, as a person looks at it: alarms, and every field that is watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.event_loop import in_turns
from shoal.errors import UsageError
from shoal.frontier.compare_and_set import change_host
from shoal.frontier.protocol import Frontier, Hosts
from shoal.frontier.values import HostRecord
from shoal.hosts.host_state import encode_state, state_of
from shoal.inspect.event_log import tell
from shoal.inspect.lookup import unknown_host
from shoal.policy.quality import FieldState, Kind, Quality
from shoal.policy.quality_alarms import (
    Alarm,
    QualityReport,
    accept,
    alarms,
    handler_of,
    never_filled,
    usual_range,
    where,
)
from shoal.policy.quality_sample import ROWS, number_of
from shoal.text import command

ROWS_WORD = "(rows)"  # stands for the rows of a page among its fields


class FieldQuality(Struct, frozen=True):
    """A field of what a handler yields for a host: as it was, and as it is on the latest pages."""

    spider: str
    handler: str
    table: str  # the kind of rows, if the handler yields several; else ""
    field: str  # ROWS_WORD: the rows of a page themselves
    pages: int  # that what was normal is known from
    filled_before: float  # share of pages
    filled_now: float
    range_before: tuple[float, float] | None  # that two thirds of its numbers were in; None: it is no number
    number_now: float | None
    alarm: Kind | None
    since: float | None  # when the alarm began
    sentence: str  # of the alarm; "": there is none


class HostQuality(Struct, frozen=True):
    host: str
    fields: tuple[FieldQuality, ...]  # those with an alarm first
    learning: bool  # there was only one run, or one visit of each page: nothing can be told yet
    unwatched: int  # fields that there was no room for

    @property
    def alarms(self) -> list[FieldQuality]:
        return [one for one in self.fields if one.alarm is not None]


# -- one host


def quality_of(record: HostRecord) -> HostQuality | None:
    """None: nothing is known."""
    quality = state_of(record).quality
    if not quality:
        return None
    fields = sorted(_fields(quality), key=lambda one: one.alarm is None)
    return HostQuality(
        record.name,
        tuple(fields),
        not any(unit.settled for unit in quality.values()),
        sum(unit.unwatched for unit in quality.values()),
    )


def _fields(quality: Quality) -> Iterator[FieldQuality]:
    told = {(one.unit, one.field): one for one in alarms(quality)}
    for unit, known in quality.items():
        spider, handler, table = (*unit.split("/", 2), "")[:3]
        for name, state in known.fields.items():
            alarm = told.get((unit, name))
            yield FieldQuality(
                spider,
                handler,
                table,
                name or ROWS_WORD,
                state.pages,
                round(state.share_seen, 3),
                state.now / 1000,
                _range(state),
                round(number_of(state.now_mean / 1000), 4) if state.is_number else None,
                state.kind,
                float(state.since) if alarm is not None else None,
                alarm.sentence if alarm is not None else "",
            )


def _range(state: FieldState) -> tuple[float, float] | None:
    if not state.is_number:
        return None
    low, high = usual_range(state)
    return round(number_of(low), 4), round(number_of(high), 4)


def alarms_of(record: HostRecord) -> list[Alarm]:
    return alarms(state_of(record).quality)


# -- all hosts


async def look_at_quality(frontier: Hosts, host: str | None = None) -> AsyncIterator[HostQuality]:
    """Of one host, or of all. Raises UsageError if nobody has met it."""
    if host is not None:
        record = await frontier.host(host)
        if record is None:
            raise unknown_host(host)
        if (found := quality_of(record)) is not None:
            yield found
        return
    async for record in in_turns(frontier.hosts()):
        if (found := quality_of(record)) is not None:
            yield found


_NEVER = 5  # pages on which a field was always empty, before that is mentioned


async def quality_of_job(frontier: Hosts, job: str, spider: str) -> QualityReport:
    """What is told at the end of a run."""
    found: list[str] = []
    pages: dict[tuple[str, str], int] = {}
    filled: set[tuple[str, str]] = set()
    hosts = 0
    own = spider.replace("/", "|") + "/"
    async for record in in_turns(frontier.hosts(job)):
        quality = {unit: one for unit, one in state_of(record).quality.items() if unit.startswith(own)}
        told = alarms(quality)
        hosts += bool(told)
        found += [f"{record.name}: {one.sentence}" for one in told]
        never = {(unit, field): seen for unit, field, seen in never_filled(quality)}
        for unit, one in quality.items():
            for field in one.fields:
                if (unit, field) in never:
                    pages[unit, field] = pages.get((unit, field), 0) + never[unit, field]
                else:
                    filled.add((unit, field))
    empty = [
        f"{where(unit, field)} was empty on all {seen} pages"
        for (unit, field), seen in pages.items()
        if (unit, field) not in filled and seen >= _NEVER and field != ROWS
    ]
    return QualityReport(tuple(found), tuple(empty), hosts)


# -- what a person decides


async def accept_quality(
    frontier: Frontier, host: str, handler: str | None = None, field: str | None = None
) -> list[Alarm]:
    """What is now is normal: of all alarms of the host, or of those of a handler or a field. Returns these."""
    ended: list[Alarm] = []

    def fold(record: HostRecord) -> HostRecord:
        state = state_of(record)
        quality = accept(state.quality, handler, ROWS if field == ROWS_WORD else field)
        left = {(one.unit, one.field) for one in alarms(quality)}
        ended[:] = [one for one in alarms(state.quality) if (one.unit, one.field) not in left]
        return replace(record, state=encode_state(replace(state, quality=dict(quality))))

    if await frontier.host(host) is None:
        raise unknown_host(host)
    await change_host(frontier, host, fold)
    if not ended:
        which = f" of {' '.join(filter(None, (handler, field)))}" if handler or field else ""
        raise UsageError(
            f"{host} has no quality alarm{which}; {command(f'quality show {host}')} tells what is watched"
        )
    for one in ended:
        await tell(
            frontier,
            "quality_ended",
            host=host,
            handler=handler_of(one.unit),
            field=one.field or ROWS_WORD,
        )
    return ended
