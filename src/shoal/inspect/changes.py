"""What has changed on the pages of a job, by the rows of its output for changes."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.inspect.job import unknown_job
from shoal.inspect.sources import RowSource, sources_of
from shoal.jobs.note import note_of
from shoal.model import CHANGES
from shoal.sink import lines_of
from shoal.sink.outputs import Place, read_output
from shoal.sink.reading import ItemRow


class Change(Struct, frozen=True):
    at: float
    change: str  # appeared, changed or vanished
    table: str
    key: str
    field: str  # "": the item as a whole
    old: Any
    new: Any
    page: str


class Wish(Struct, frozen=True):
    """Which changes are wanted."""

    limit: int
    since: float | None = None
    key: str = ""
    field: str = ""

    def takes(self, one: Change) -> bool:
        return (
            (self.since is None or one.at >= self.since)
            and self.key in ("", one.key)
            and self.field in ("", one.field)
        )


class NewestChanges(Struct, frozen=True):
    """The newest first."""

    job: str
    changes: tuple[Change, ...]
    total: int  # that are as they are wanted
    source: str
    elsewhere: tuple[str, ...] = ()  # outputs that are not on this machine


async def newest_changes(frontier: Frontier, name: str, wish: Wish) -> NewestChanges:
    job = await frontier.job(name)
    if job is None:
        raise await unknown_job(frontier, name)
    sources, elsewhere = await _sources(frontier, job)
    changes, total = await asyncio.to_thread(_newest, sources, wish)
    return NewestChanges(
        name, tuple(changes), total, ", ".join(one.place.target for one in sources), elsewhere
    )


async def _sources(frontier: Frontier, job: Job) -> tuple[Sequence[RowSource], tuple[str, ...]]:
    name = job.spec.name
    places = read_output(lines_of(note_of(job.spec).output) or None, stored=True)
    own = [place for place in places if place.item == CHANGES]
    if not own:
        raise UsageError(
            f"job {name} does not write down what has changed: crawl with -o {CHANGES}={CHANGES}.jsonl beside its "
            "other output, and pages that are visited again (--revisit 1h)"
        )
    if any(place.kind == "file" for place in own):
        found = await sources_of(frontier, job, CHANGES)
        return found.files, found.elsewhere
    if own[0].kind == "database":
        return [_database(own[0], name)], ()
    raise UsageError(f"the changes of job {name} go to {own[0].target}: look at them there")


def _database(place: Place, job: str) -> RowSource:
    from shoal.sink.postgres.address import read_address

    try:
        from shoal.sink.postgres.reading import PostgresSource
    except ModuleNotFoundError as error:
        raise UsageError(f"PostgreSQL needs {error.name}: pip install 'shoal[postgres]'") from None
    shown = replace(place, target=read_address(place.target).shown)
    return PostgresSource(shown, place.target, job, expected=False, table=CHANGES)


def _newest(sources: Sequence[RowSource], wish: Wish) -> tuple[list[Change], int]:
    newest: list[tuple[float, int, Change]] = []
    total, places = 0, count()
    for source in sources:
        for one in filter(wish.takes, _changes(source.rows())):
            total += 1
            entry = (one.at, next(places), one)
            (heapq.heappush if len(newest) < wish.limit else heapq.heappushpop)(newest, entry)
    # The fields of one item in their order.
    return [one for _, _, one in sorted(newest, key=lambda entry: (-entry[0], entry[1]))], total


def _changes(rows: Iterator[ItemRow]) -> Iterator[Change]:
    for _, row in rows:
        try:
            at = datetime.fromisoformat(row["at"]).timestamp()
            change = str(row["change"])
        except (KeyError, TypeError, ValueError):
            continue  # not one of ours
        names = ("table", "key", "field", "page")
        texts = {name: str(row[name]) if row.get(name) is not None else "" for name in names}
        old, new = (_whole(row.get(name), change) for name in ("old", "new"))
        yield Change(at=at, change=change, old=old, new=new, **texts)


def _whole(value: Any, change: str) -> Any:
    """Tables and text files keep an item as text."""
    if change != "changed" and isinstance(value, str) and value.startswith("{"):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return value
