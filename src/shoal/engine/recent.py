"""The newest rows and pages of a job, as a note in its store: for people who look at a job from another machine, or
whose rows are in a database.

Each process keeps its own newest ones, and adds them to the note every few seconds, when the history is written. The
note is small: long values are cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from shoal.frontier.compare_and_set import change_note
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Note
from shoal.model import Dead, Done, Moved, Retry, Row, Settlement, Verdict
from shoal.text import UNREADABLE

ROWS_KEPT, PAGES_KEPT = 20, 30
MOST_ROW = 3_000  # bytes of a row in the note
_PARSED = (
    256 * 1024
)  # bytes; a longer row is not decoded, which would hold up the loop: its beginning is kept
_HEAD = 1_000  # characters of it
_MOST_URL = 500
_KEYS = 1_000  # of rows that are remembered
_TRIES = 5  # the next write brings what this one could not
# Of one value: characters of a text, elements of a list, fields of an object, levels. The first that suits is taken.
_LIMITS = ((400, 10, 50, 4), (100, 5, 30, 2), (40, 2, 20, 1))

Ending = Literal["done", "redirect", "retry", "dead"]
T = TypeVar("T", "RecentRow", "RecentPage")


class RecentRow(Struct, frozen=True, array_like=True):
    at: float  # when it was committed, in the frontier's time
    url: str
    item: str  # its kind
    data: bytes  # JSON
    size: int  # bytes of the row; `data` may have less
    key: int | None = None


class RecentPage(Struct, frozen=True, array_like=True):
    at: float
    url: str
    handler: str
    ending: Ending
    status: int = 0  # 0: there was no answer
    kind: str = ""  # of its failure
    seconds: float = 0.0  # that the request took
    items: int = 0
    links: int = 0  # that were not known to the process


class Recent(Struct, frozen=True, array_like=True):
    """The oldest first."""

    created_at: float = 0.0  # of the job
    rows: tuple[RecentRow, ...] = ()
    pages: tuple[RecentPage, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Recent).decode


def recent_key(job: str) -> str:
    return f"recent:{job}"


class RecentRecorder:
    """`first`: the name of the handler of pages that name none."""

    def __init__(self, frontier: Frontier, job: str, now: Callable[[], float], first: str = "") -> None:
        self._frontier = frontier
        self._job = job
        self._now = now
        self._first = first
        self._rows: deque[tuple[float, str, Row, int]] = deque(maxlen=ROWS_KEPT)  # with time, URL and length
        self._keys: dict[int, None] = {}  # of the latest rows, the oldest first
        self._pages: deque[RecentPage] = deque(maxlen=PAGES_KEPT)

    def __repr__(self) -> str:
        return f"<RecentRecorder of {self._job}>"

    def add(self, settlement: Settlement) -> None:
        """Called for every page that is committed, so it only takes note."""
        task, now = settlement.lease.task, self._now()
        for row in settlement.rows[-ROWS_KEPT:]:
            if row.key is not None and not self._is_new(row.key):
                continue
            size = len(row.data)
            if size > _PARSED:
                row = Row(row.data[: 4 * _HEAD], row.key, row.table)
            self._rows.append((now, task.url, row, size))
        ending = _ending(settlement.verdict)
        if task.item is not None or ending is None:
            return
        failure = getattr(settlement.verdict, "failure", None)
        self._pages.append(
            RecentPage(
                now,
                task.url[:_MOST_URL],
                task.handler or self._first,
                ending,
                settlement.status or (failure.status or 0 if failure is not None else 0),
                failure.kind if failure is not None else "",
                settlement.elapsed or (failure.elapsed if failure is not None else 0.0),
                len(settlement.rows),
                len(settlement.found),
            )
        )

    def _is_new(self, key: int) -> bool:
        """False: a row with this key was written lately, so that this one is dropped. Earlier ones are forgotten."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _KEYS:
            del self._keys[next(iter(self._keys))]
        return True

    @property
    def is_due(self) -> bool:
        """Whether there is something to write."""
        return bool(self._rows or self._pages)

    async def write(self, created_at: float) -> None:
        """Adds what is new to the note. `created_at`: of the job that is crawled here."""
        rows, pages = tuple(self._rows), tuple(self._pages)
        self._rows.clear()
        self._pages.clear()
        mine = Recent(created_at, tuple(_recent(*one) for one in rows), pages)
        written = None
        try:
            written = await self._add(mine)
        finally:
            if written is None:
                self._rows.extendleft(reversed(rows[len(self._rows) :]))
                self._pages.extendleft(reversed(pages[len(self._pages) :]))

    async def _add(self, mine: Recent) -> Note | None:
        """None: other processes wrote first every time."""

        async def merged(note: Note | None) -> bytes | None:
            job = await self._frontier.job(self._job)
            if job is None or job.created_at != mine.created_at:
                return None  # it was dropped
            known = _recent_of(note, mine.created_at)
            both = Recent(
                mine.created_at,
                _newest(_once([*known.rows, *mine.rows]), ROWS_KEPT),
                _newest([*known.pages, *mine.pages], PAGES_KEPT),
            )
            return _encode(both) if both != known else None

        return await change_note(self._frontier, recent_key(self._job), merged, tries=_TRIES)


async def read_recent(frontier: Frontier, job: str) -> Recent:
    """The newest rows and pages up to a few seconds ago; nothing if there is no such job."""
    found = await frontier.job(job)
    return (
        _recent_of(await frontier.note(recent_key(job)), found.created_at) if found is not None else Recent()
    )


def _recent_of(note: Note | None, created_at: float) -> Recent:
    try:
        recent = _decode(note.value) if note is not None and note.value else Recent()
    except UNREADABLE:
        return Recent()  # written by another version
    return recent if recent.created_at == created_at else Recent()


def _ending(verdict: Verdict) -> Ending | None:
    """None: the page waits, and has not been fetched."""
    if isinstance(verdict, Done):
        return "done"
    if isinstance(verdict, Dead):
        return "dead"
    if isinstance(verdict, Moved):
        return "redirect"
    return "retry" if isinstance(verdict, Retry) and verdict.counts else None


def _newest(entries: Iterable[T], most: int) -> tuple[T, ...]:
    return tuple(sorted(entries, key=lambda one: one.at)[-most:])


def _once(rows: Iterable[RecentRow]) -> list[RecentRow]:
    """Of rows with the same key only the first, as in a file."""
    met: set[tuple[str, int]] = set()
    fresh = []
    for row in sorted(rows, key=lambda one: one.at):
        if row.key is not None:
            if (row.item, row.key) in met:
                continue
            met.add((row.item, row.key))
        fresh.append(row)
    return fresh


# -- short forms of rows


def _recent(at: float, url: str, row: Row, size: int) -> RecentRow:
    return RecentRow(at, url[:_MOST_URL], row.table, short_row(row.data, size), size, row.key)


def short_row(data: bytes, size: int) -> bytes:
    """A row as JSON of at most MOST_ROW bytes. `size`: of the whole row, of which `data` may be the beginning."""
    if size <= MOST_ROW:
        return data.rstrip(b"\n")
    if len(data) == size:
        value = msgspec.json.decode(data)
        for limits in _LIMITS:
            short = msgspec.json.encode(_short(value, *limits))
            if len(short) <= MOST_ROW:
                return short
    head = data[: 4 * _HEAD].decode("utf-8", "ignore")[:_HEAD]
    for most in (_HEAD, _HEAD // 10):  # escapes make text longer
        short = msgspec.json.encode({"…": f"{head[:most]}…"})
        if len(short) <= MOST_ROW:
            break
    return short


def _short(value: Any, text: int, elements: int, fields: int, levels: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text else f"{value[:text]}…"
    if isinstance(value, list):
        if not levels:
            return f"… {len(value):,}"
        cut = [_short(one, text, elements, fields, levels - 1) for one in value[:elements]]
        return cut if len(value) <= elements else [*cut, f"… {len(value) - elements:,} more"]
    if isinstance(value, dict):
        if not levels:
            return f"… {len(value):,}"
        names = list(value)[:fields]
        cut_fields = {
            _short(name, text, 0, 0, 0): _short(value[name], text, elements, fields, levels - 1)
            for name in names
        }
        return cut_fields if len(value) <= fields else {**cut_fields, "…": f"{len(value) - fields:,} more"}
    return value
