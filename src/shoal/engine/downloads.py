"""Files: `await page.download(…)`.

A file is fetched like any request inside a handler (`inner_fetch.py`), but its body goes to a part file on the disk
while it arrives. After a cut connection the next attempt asks for the rest; so does the next process after a kill.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from shoal.admit.referrer import Referrer
from shoal.engine.inner_fetch import InnerFetcher
from shoal.engine.tally import Tally
from shoal.fetch.slots import waiting
from shoal.model import Lease, Task
from shoal.model.request import Request
from shoal.policy.outcomes import rule_for
from shoal.settings import Settings
from shoal.sink.files import FileStore, PartFile, request_key
from shoal.spider.inner import FetchFailed, File

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
