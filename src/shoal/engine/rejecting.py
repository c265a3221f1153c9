"""Items to rows; and the rejected ones to tasks, in which they are kept and replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from shoal.clock import Clock
from shoal.counts import DROPPED, with_reason
from shoal.engine.page_hooks import PageHooks
from shoal.limits import PAGE_ROWS
from shoal.model import REJECTED, Failure, ItemNote, Row, Task, items_of
from shoal.sink.items import KeptItem, as_json, encode_rows, kept_item
from shoal.spider.handlers import JunkError
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.text import one_line

NOT_WHOLE = "it was not kept whole, so it cannot be replayed; before that: "


class ItemWriter:
    """Turns the items of a page into rows and rejected items."""

    def __init__(self, hooks: PageHooks, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock

    async def write(
        self, page: Page, handler: Handler, items: Sequence[object], at: float
    ) -> tuple[tuple[Row, ...], tuple[Task, ...]]:
        """`at`: when the page was asked for. The page may stand for an item that is replayed."""
        note = page.task.item
        originals: Sequence[bytes | None] = ()
        origins: Sequence[int] = ()
        if self._hooks.on_item and items and not (note is not None and note.hooked):
            originals = [as_json(item) for item in items]  # hooks may change an item in place
            hooked = await self._hooks.items(items, page)
            items, origins = hooked.items, hooked.origins
            for reason in hooked.dropped:
                page._counts.add(with_reason(DROPPED, reason))
        encoded = encode_rows(items, handler, at, note.table if note is not None else "")
        if not encoded.rejected:
            return encoded.rows, ()
        pieces = Counter(origins)
        rejected: list[Task] = []
        size = 0
        for one in encoded.rejected:
            kept, is_hooked = kept_item(items[one.place]), note is not None and note.hooked
            if originals:
                # If hooks made several of it, the others may be rows: then only this one is kept.
                origin = origins[one.place]
                original = originals[origin] if pieces[origin] == 1 else None
                kept, is_hooked = (KeptItem(original, True), False) if original else (kept, True)
            size += len(kept.data)
            if size > PAGE_ROWS:
                raise JunkError(
                    f"handler {handler.name!r} yielded rejected items of more than {PAGE_ROWS:,} bytes for one page"
                )
            found = ItemNote(one.table, at, kept.is_json, is_hooked, handler.name)
            rejected.append(self._task(page.task, kept, one.reason, found))
        return encoded.rows, tuple(rejected)

    async def again(self, page: Page, handler: Handler) -> tuple[tuple[Row, ...], tuple[Task, ...]]:
        """An item that was rejected before."""
        task, note = page.task, page.task.item
        assert note is not None
        if not note.is_json:
            said = task.history[-1].detail if task.history else ""
            reason = NOT_WHOLE + said.removeprefix(NOT_WHOLE)
            return (), (self._task(task, KeptItem(task.body or b"", False), reason, note),)
        return await self.write(page, handler, [msgspec.json.decode(task.body or b"null")], note.at)

    def _task(self, task: Task, kept: KeptItem, reason: str, note: ItemNote) -> Task:
        failure = Failure(REJECTED, one_line(reason), at=self._clock.time(), attempt=task.attempt)
        if task.item is not None:  # it was replayed, and is rejected again
            return replace(task, body=kept.data, item=note).failed(failure)
        item = Task(
            task.url,
            task.handler,
            host=items_of(task.host),
            lane=task.lane,
            priority=task.priority,
            depth=task.depth,
            parent=task.id,
            body=kept.data,
            pool=task.pool,
            options=task.options,
            meta=task.meta,
            item=note,
        )
        return item.failed(failure)
