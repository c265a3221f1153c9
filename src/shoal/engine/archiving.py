"""Keeps what was fetched: gives settlements the WARC records of their answers.

An answer is archived once it is known what comes of it: a page that was handled, a redirect, a dead letter. What is
tried again is not. robots.txt belongs to no page, so its record goes with the next page that is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from msgspec.structs import replace

from shoal.admit.referrer import restored
from shoal.archive import records
from shoal.archive.members import Compression
from shoal.archive.record_id import new_id
from shoal.archive.records import Exchange, Metadata, Records, Target
from shoal.engine.etiquette import RobotsDirectives
from shoal.engine.fetching import Fetched
from shoal.engine.judging import Judgement
from shoal.errors import SinkError
from shoal.fetch.http_request import default_headers
from shoal.fetch.transport import FetchRequest, Transport
from shoal.frontier.verdicts import is_last_attempt
from shoal.model import Dead, Moved, Outcome, Response, Retry, Row, Settlement, Task
from shoal.settings import Settings
from shoal.spider.rendering import Rendered

if TYPE_CHECKING:
    from shoal.archive.index import Index

_MET = 50_000  # digests
_IN_A_THREAD = 128 * 1024  # bytes of a body; compressing them would hold up other pages


class Archiver:
    def __init__(self, settings: Settings, folder: Path, job: str, first: str) -> None:
        """`first`: the name of the handler for tasks that name none."""
        self._settings = settings
        self._manners = RobotsDirectives(settings)
        self._folder = folder
        self._job = job
        self._first = first
        self._compression: Compression = settings.archive_compression
        self._defaults: Mapping[str, str] = default_headers(settings)
        self._plain = list(self._defaults.items())
        self._index: Index | None = None
        # In a new archive, digests that this process has met: no other is looked up. None: all are.
        self._met: set[str] | None = None
        self._loose: dict[str, Records] = {}  # by their ids: records that belong to no page
        self._sent: dict[str, Records] = {}  # … and are with a settlement now

    def __repr__(self) -> str:
        return f"<Archiver {self._folder}>"

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    async def add(
        self, settlement: Settlement, response: Response, *, id: str, at: float, page: bool
    ) -> Settlement:
        """The settlement with the records of its answer, and those of requests inside its handler. `at`: when it was
        asked for. `page`: it was given to a handler."""
        task, verdict = settlement.lease.task, settlement.verdict
        failure = ""
        if isinstance(verdict, Retry | Dead):
            failure = verdict.failure.kind
        if isinstance(verdict, Retry) and not (
            verdict.counts and is_last_attempt(task, self._settings.max_attempts)
        ):
            return replace(settlement, archived=without_records(settlement.archived))
        told = "moved" if isinstance(verdict, Moved) else "dead" if failure else "done"
        metadata = self._metadata(task, response, at)
        metadata = replace(metadata, verdict=told, failure=failure, page=page)
        own = await self._encode(task, response, metadata, id)
        return replace(settlement, archived=(own, *settlement.archived, *self._take_loose()))

    def leaves_out(self, task: Task, response: Response) -> bool:
        """Whether the page asks not to be archived, and that is obeyed."""
        return self._manners.refuses_archive(task, response)

    async def inner(self, task: Task, fetched: Fetched, judgement: Judgement) -> Sequence[Row]:
        """The records of a request inside a handler."""
        response = fetched.outcome
        if not isinstance(response, Response) or isinstance(judgement.verdict, Retry):
            return ()
        if self.leaves_out(task, response):
            return ()
        metadata = replace(self._metadata(task, response, fetched.started), inner=True)
        return [await self._encode(task, response, metadata, new_id())]

    def watching(self, transport: Transport, now: Callable[[], float]) -> Transport:
        """The transport for robots.txt."""
        return _Watched(self, transport, now)

    async def loose(self, task: Task, response: Response, at: float) -> None:
        """An answer that belongs to no page."""
        metadata = replace(self._metadata(task, response, at), handler="")
        record = await self._encode(task, response, metadata, new_id())
        self._loose[record.entry.id] = record

    def settled(self, archived: Sequence[Row], accepted: bool) -> None:
        """Called after the commit. What was not accepted goes with another page."""
        for row in archived:
            if isinstance(row, Records) and (mine := self._sent.pop(row.entry.id, None)) and not accepted:
                self._loose[row.entry.id] = mine

    def _take_loose(self) -> Sequence[Records]:
        if not self._loose:
            return ()
        taken, self._loose = self._loose, {}
        self._sent |= taken
        return list(taken.values())

    def _metadata(self, task: Task, response: Response, at: float) -> Metadata:
        return Metadata(
            job=self._job,
            handler=task.handler or self._first,
            url=response.url if "#" in response.url else "",
            asked=task.origin if task.origin != response.url else "",
            hops=task.hops,
            depth=task.depth,
            parent=task.parent,
            task=task.id,
            method=task.method,
            variant=records.variant_of(task.method, task.body),
            lane=task.lane,
            session=task.session or "",
            fetched_at=at,
            elapsed=response.elapsed,
            rendered=isinstance(response, Rendered),
            plain=records.is_plain(task),
            **records.packed_meta(task.meta),
        )

    async def _encode(self, task: Task, response: Response, metadata: Metadata, id: str) -> Records:
        digest = records.digest_of(response.body)
        exchange = Exchange(
            id=id,
            task=task,
            response=response,
            metadata=metadata,
            request_headers=None if metadata.rendered else self._headers(task),
            refers_to=self._same(digest) if len(response.body) >= records.WORTH else None,
            digest=digest,
        )
        keep = self._settings.archive_secrets
        if len(response.body) < _IN_A_THREAD or exchange.refers_to is not None:
            return records.encode(exchange, secrets=keep, compression=self._compression)
        return await asyncio.to_thread(records.encode, exchange, secrets=keep, compression=self._compression)

    def _headers(self, task: Task) -> list[tuple[str, str]]:
        """As they were sent, but for cookies, and for what hooks have added."""
        if not task.headers and task.options.referer is None:
            return self._plain
        given = dict(task.headers or {})
        names = {name.lower() for name in given}
        if task.options.referer is not None and "referer" not in names:
            given["Referer"] = restored(task.options.referer, task.url)
        defaults = [(name, value) for name, value in self._defaults.items() if name.lower() not in names]
        return [*defaults, *given.items()]

    def _same(self, digest: str) -> Target | None:
        """A record with this body that is committed. The index may be away: then the body is archived again."""
        try:
            if self._index is None:
                from shoal.archive.index import Index

                self._index = Index(self._folder)
                self._met = set() if not self._index.count() else None
            if self._met is not None and digest not in self._met:
                self._met.add(digest)
                self._met = self._met if len(self._met) < _MET else None
                return None
            return self._index.target(digest)
        except (apsw.Error, SinkError, OSError):
            return None


class _Watched:
    def __init__(self, archiver: Archiver, transport: Transport, now: Callable[[], float]) -> None:
        self._archiver = archiver
        self._transport = transport
        self._now = now

    async def fetch(self, request: FetchRequest) -> Outcome:
        outcome = await self._transport.fetch(request)
        if isinstance(outcome, Response):
            task = Task(request.url, method=request.method)
            await self._archiver.loose(task, outcome, self._now() - outcome.elapsed)
        return outcome

    async def close(self) -> None:
        await self._transport.close()


def without_records(rows: Sequence[Row]) -> tuple[Row, ...]:
    """What is committed beside records: changes of the page."""
    return tuple(row for row in rows if not isinstance(row, Records))
