"""The newest rows of a job."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shoal.engine.recent import Recent, RecentRow, read_recent
from shoal.errors import SinkError
from shoal.frontier.protocol import Frontier
from shoal.inspect.job import unknown_job
from shoal.inspect.sources import Source, Sources, kind_in, sources_of
from shoal.sink.reading import ItemRow, last_lines

WORKERS = "workers"  # the source of rows that are in a note of the store


class ShownRow(Struct, frozen=True):
    row: Any
    item: str = ""  # its kind; "": not known
    url: str = ""
    at: float = 0.0  # when it was committed; 0: not known
    whole: bool = True  # False: long values are cut


class NewestRows(Struct, frozen=True):
    """The newest first."""

    job: str
    rows: tuple[ShownRow, ...]
    total: int  # that the job has written
    source: str
    item: str = ""  # only rows of this kind were asked for


async def newest_rows(frontier: Frontier, name: str, limit: int, item: str = "") -> NewestRows:
    """From the job's file if that is here and its end can be read; else from the note that workers write, or, if that
    has too few, from any output that can be read here."""
    job = await frontier.job(name)
    if job is None:
        raise await unknown_job(frontier, name)
    noted = (await read_recent(frontier, name)).rows
    told = [shown_row(one) for one in reversed(noted) if item in ("", one.item)]
    total = job.counters.items
    found, source = told[:limit], WORKERS
    try:
        files = await sources_of(frontier, job, item)
        only = files.files[0] if len(files.files) == 1 else None
        if isinstance(only, Source) and not files.elsewhere:
            ends = await asyncio.to_thread(_at_the_end, only, limit, item, noted)
            if ends is not None:
                found, source = ends, str(only.path)
        if source == WORKERS and len(told) < min(limit, total) and files.files and not files.elsewhere:
            found = await asyncio.to_thread(_last_of, files, limit, item)
            source = ", ".join(one.place.target for one in files.files)
    except (SinkError, OSError):
        if not found:
            raise
    return NewestRows(name, tuple(found), total, source, item)


def _at_the_end(source: Source, limit: int, item: str, noted: Sequence[RecentRow]) -> list[ShownRow] | None:
    """The last rows of a file of JSON Lines. None: it is another file, or does not tell the kinds of its rows."""
    place, committed = source.place, source.committed
    if (place.format, place.compression) != ("jsonl", "") or committed is None:
        return None
    if source.path.stat().st_size < committed:
        raise SinkError(f"{source.path} is shorter than what the job has written: it was changed")
    if item and place.item != item:
        return None
    known = {one.data: one for one in noted}
    rows = []
    for line in last_lines(source.path, committed, limit):
        same = known.get(line)
        if same is not None:
            rows.append(shown_row(same))
        else:
            row = msgspec.json.decode(line)
            rows.append(ShownRow(row, place.item or kind_in(row)))
    return rows


def _last_of(sources: Sources, limit: int, item: str) -> list[ShownRow]:
    last: deque[ItemRow] = deque(maxlen=limit)
    for one in sources.files:
        kinds = ((kind or kind_in(row), row) for kind, row in one.rows())
        last.extend(found for found in kinds if item in ("", found[0]))
    return [ShownRow(row, kind) for kind, row in reversed(last)]


def shown_row(one: RecentRow) -> ShownRow:
    try:
        row = msgspec.json.decode(one.data)
    except msgspec.DecodeError:  # not written by us
        row = one.data.decode("utf-8", "replace")
    return ShownRow(row, one.item, one.url, one.at, len(one.data) >= one.size - 1)


def recent_dict(recent: Recent) -> dict[str, Any]:
    """Rows and pages, the newest first."""
    return {
        "rows": [msgspec.structs.asdict(shown_row(one)) for one in reversed(recent.rows)],
        "pages": [msgspec.structs.asdict(one) for one in reversed(recent.pages)],
    }
