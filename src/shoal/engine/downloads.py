"""Files: `await page.download(…)` and the handler option `files=`.

A file is fetched like any request inside a handler (`inner_fetch.py`), but its body goes to a part file on the disk
while it arrives. After a cut connection the next attempt asks for the rest; so does the next process after a kill.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from shoal.admit.referrer import Referrer
from shoal.engine.inner_fetch import InnerFetcher
from shoal.engine.tally import Tally
from shoal.fetch.slots import waiting
from shoal.model import Lease, Request, Task
from shoal.policy.outcomes import rule_for
from shoal.settings import Settings
from shoal.sink.files import FileStore, PartFile, request_key
from shoal.spider.handlers import JunkError
from shoal.spider.inner import FetchFailed, File
from shoal.spider.page import Page
from shoal.spider.spider import Handler

_LOOK_AGAIN = 0.2  # seconds between looks for the end of another process's download


class Downloads:
    def __init__(
        self,
        settings: Settings,
        inner: InnerFetcher,
        store: Callable[[], FileStore],
        tally: Tally,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._inner = inner
        self._store = store
        self._tally = tally
        self._sleep = sleep
        self._under_way: dict[str, asyncio.Lock] = {}

    async def download(
        self,
        request: Request,
        *,
        lease: Lease,
        to: str = "",
        name: str = "",
        referrer: Referrer | None = None,
    ) -> File:
        """The file that the request asks for, when it is whole and in its place. Raises FetchFailed."""
        task = self._inner.admit(request, lease, referrer)
        task = replace(task, max_attempts=request.max_attempts or self._settings.max_attempts)
        key = request_key(task.method, task.url, task.body, to)
        store = self._store()
        if to:
            store.check(to)
        async with self._one_at_a_time(key):
            part = await self._part(store, key)
            if isinstance(part, File):
                return part
            keep = True
            try:
                return await self._fetch(store, part, task, lease, to, name)
            except FetchFailed as failed:
                # What came without a login is no part of the file.
                keep = failed.counts and rule_for(failed.kind).action == "retry"
                raise
            finally:
                part.close(keep=keep)

    async def _part(self, store: FileStore, key: str) -> PartFile | File:
        """The part to write to; or the file, if this job has fetched it already."""
        while True:
            if (done := store.done(key)) is not None:
                return done
            # A part of an earlier process is read to be hashed, which may take seconds.
            part = await asyncio.to_thread(store.part, key, self._settings.max_file)
            if part is not None:
                if (done := store.done(key)) is None:
                    return part
                part.close(keep=False)
                return done
            with waiting():
                await self._sleep(_LOOK_AGAIN)

    async def _fetch(
        self, store: FileStore, part: PartFile, task: Task, lease: Lease, to: str, name: str
    ) -> File:
        if not part.is_whole:
            try:
                task, _ = await self._inner.exchange(task, lease, sink=part)
            except OSError as error:
                raise store.error(error) from None
        file = await asyncio.to_thread(store.keep, part, url=task.url, name=name, to=to)
        self._tally.file_kept(part.fetched)
        return file

    @asynccontextmanager
    async def _one_at_a_time(self, key: str) -> AsyncIterator[None]:
        lock = self._under_way.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._under_way.pop(key, None)


# -- files of items


async def with_files(
    items: Sequence[object], handler: Handler, page: Page, tally: Tally, *, last: bool
) -> list[object]:
    """The items, with files in place of their URLs. `last`: the page has no further attempt."""
    return [await _with_files(item, handler, page, tally, last) for item in items]


async def _with_files(item: object, handler: Handler, page: Page, tally: Tally, last: bool) -> object:
    filled: dict[str, object] = {}
    for field in handler.files:
        value = item.get(field) if isinstance(item, Mapping) else getattr(item, field, None)
        if isinstance(value, list | tuple):
            # An empty URL is no file: it would be the page itself.
            filled[field] = [await _file(url, field, handler, page, tally, last) for url in value if url]
        elif value:
            filled[field] = await _file(value, field, handler, page, tally, last)
    return _replaced(item, filled)


def _replaced(item: object, values: Mapping[str, object]) -> object:
    """A copy of the item with these values, whatever the annotations of its class say: its schema checks them later."""
    if isinstance(item, Mapping):
        return {**item, **values}
    if isinstance(item, Struct):
        return replace(item, **values)
    if hasattr(item, "model_copy"):  # of pydantic
        return item.model_copy(update=values)
    made = copy(item)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # a frozen class lets nobody set it otherwise
    return made


async def _file(
    url: object, field: str, handler: Handler, page: Page, tally: Tally, last: bool
) -> dict[str, Any]:
    """The file as a row has it. One that cannot be had leaves its row alone: it says why."""
    if not isinstance(url, str):
        raise JunkError(
            f"handler {handler.name!r} yielded an item whose {field!r} is not a URL but a {type(url).__name__}"
        )
    try:
        return asdict(await page.download(url))
    except FetchFailed as failed:
        if rule_for(failed.kind).action == "retry" and not last:
            raise
        tally.cut(f"files ({failed.kind})", 1)
        return {"url": failed.url, "error": failed.kind}
