"""The newest rows of a job."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from shoal.engine.recent import Recent, RecentRow, read_recent
from shoal.frontier.protocol import Frontier
from shoal.inspect.job import unknown_job

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
    job = await frontier.job(name)
    if job is None:
        raise await unknown_job(frontier, name)
    noted = (await read_recent(frontier, name)).rows
    rows = [shown_row(one) for one in reversed(noted) if item in ("", one.item)]
    return NewestRows(name, tuple(rows[:limit]), job.counters.items, WORKERS, item)


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
