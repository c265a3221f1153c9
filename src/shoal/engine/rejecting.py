"""Items to rows; and the rejected ones to tasks, in which they are kept and replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from shoal.clock import Clock
from shoal.engine.page_hooks import PageHooks
from shoal.limits import PAGE_REJECTED, REJECTED_ITEMS
from shoal.model import ItemNote, Row, Task
from shoal.model.counts import DROPPED, with_reason
from shoal.sink.items import (
    KeptItem,
    Rejected,
    as_json,
    encode_rows,
    kept_item,
    rejected_task,
    without_meta,
)
from shoal.sink.row_meta import MetaWriter
from shoal.spider.handlers import JunkError
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.text import pack

NOT_WHOLE = "it was not kept whole, so it cannot be replayed; before that: "


class _Before:
    """The items of a page before hooks have seen them, as JSON, and which of them each item comes from."""

    def __init__(self, originals: Sequence[bytes | None] = (), origins: Sequence[int] = ()) -> None:
        self._originals = originals
        self._origins = origins
        self._pieces = Counter(origins)

    def kept(self, item: object, place: int, hooked: bool) -> tuple[KeptItem, bool]:
        """What is kept of a rejected item, and whether hooks have seen it."""
        if not self._originals:
            return kept_item(item), hooked
        origin = self._origins[place]
        original = self._originals[origin]
        # If hooks made several of it, the others may be rows: then only this one is kept.
        if original is None or self._pieces[origin] > 1:
            return kept_item(item), True
        return KeptItem(original, True), False


_UNHOOKED = _Before()


class ItemWriter:
    """Turns the items of a page into rows and rejected items."""

    def __init__(self, hooks: PageHooks, clock: Clock, meta: MetaWriter | None = None) -> None:
        self._hooks = hooks
        self._clock = clock
        self._meta = meta

    async def write(
        self,
        page: Page,
        handler: Handler,
        items: Sequence[object],
        at: float,
        record: str | None = None,
    ) -> tuple[tuple[Row, ...], tuple[Task, ...]]:
        """`at`: when the page was asked for. `record`: its id in the archive. The page may stand for an item that is
        replayed."""
        note = page.task.item
        before = _UNHOOKED
        if self._hooks.on_item and items and not (note is not None and note.hooked):
            originals = [as_json(item) for item in items]  # hooks may change an item in place
            hooked = await self._hooks.items(items, page)
            items, before = hooked.items, _Before(originals, hooked.origins)
            for reason in hooked.dropped:
                page._counts.add(with_reason(DROPPED, reason))
        table = note.table if note is not None else ""
        meta = (
            self._meta.page(page.url, at, page.task.job, handler.name, record, cached=page.cached)
            if self._meta and items
            else None
        )
        encoded = encode_rows(items, handler, at, table, meta)
        if not encoded.rejected:
            return encoded.rows, ()
        return encoded.rows, self._rejected(page.task, handler, items, encoded.rejected, at, before)

    def _rejected(
        self,
        task: Task,
        handler: Handler,
        items: Sequence[object],
        rejected: Sequence[Rejected],
        at: float,
        before: _Before,
        *,
        hooked: bool = False,
    ) -> tuple[Task, ...]:
        """Raises JunkError if they are too many to be kept in one transaction."""
        if len(rejected) > REJECTED_ITEMS:
            raise _too_many(handler, f"{len(rejected):,} items", f"{REJECTED_ITEMS:,}", rejected[0])
        hooked = hooked or (task.item is not None and task.item.hooked)
        room = PAGE_REJECTED
        each = len(pack(task.meta)) if task.meta else 0
        kept: list[Task] = []
        for one in rejected:
            item, is_hooked = before.kept(items[one.place], one.place, hooked)
            room -= len(item.data) + each
            if room < 0:
                raise _too_many(handler, "items", f"{PAGE_REJECTED:,} bytes of them", one)
            note = ItemNote(one.table, at, item.is_json, is_hooked, handler.name)
            kept.append(rejected_task(task, item, one.reason, note, self._clock.time()))
        return tuple(kept)

    def held(self, task: Task, handler: Handler, rows: Sequence[Row], reason: str) -> tuple[Task, ...]:
        """Rows that lack something, as rejected items."""
        items = [msgspec.Raw(without_meta(row)) for row in rows]
        rejected = [Rejected(place, reason, row.table) for place, row in enumerate(rows)]
        at = rows[0].at if rows else 0.0
        return self._rejected(task, handler, items, rejected, at, _UNHOOKED, hooked=True)

    async def again(self, page: Page, handler: Handler) -> tuple[tuple[Row, ...], tuple[Task, ...]]:
        """An item that was rejected before."""
        task, note = page.task, page.task.item
        assert note is not None
        if not note.is_json:
            said = task.history[-1].detail if task.history else ""
            reason = NOT_WHOLE + said.removeprefix(NOT_WHOLE)
            return (), (
                rejected_task(task, KeptItem(task.body or b"", False), reason, note, self._clock.time()),
            )
        return await self.write(page, handler, [msgspec.json.decode(task.body or b"null")], note.at)


def _too_many(handler: Handler, what: str, most: str, one: Rejected) -> JunkError:
    return JunkError(
        f"handler {handler.name!r} yielded {what} that are rejected, such as: {one.reason}; "
        f"of one page at most {most} are kept"
    )
