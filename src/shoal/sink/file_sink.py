"""Outputs that the frontier writes itself, inside the transaction that settles their pages; and several outputs at
once, some of which are databases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from shoal.frontier.protocol import Journal
from shoal.model import ARCHIVE, Row, Settlement
from shoal.sink import Sink
from shoal.sink.journals import LocalJournal, take
from shoal.sink.jsonl import StdoutJournal
from shoal.sink.objects.in_objects import claim_objects
from shoal.sink.outputs import Place
from shoal.sink.ownership import FileClaim


class FileSink:
    """A file, several, standard output or memory."""

    writes_first = False

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def __repr__(self) -> str:
        return f"<FileSink {self.journal.key}>"

    async def open(self, asked: FileClaim | None = None) -> None:
        if asked is None:
            return
        if isinstance(self.journal, LocalJournal):
            take(self.journal, asked)
        await asyncio.to_thread(claim_objects, self.journal, asked)

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        return batch

    async def close(self) -> None:
        if isinstance(self.journal, LocalJournal | StdoutJournal):
            self.journal.close()


class SeveralSinks:
    """Databases, which are written first, and a journal for the other outputs, if there are any."""

    writes_first = True

    def __init__(self, databases: Sequence[tuple[Place, Sink]], journal: Journal | None) -> None:
        self._databases = databases
        self._files = FileSink(journal) if journal is not None else None
        self.journal = journal

    def __repr__(self) -> str:
        return f"<SeveralSinks {[sink for _, sink in self._databases]} {self.journal}>"

    async def open(self, asked: FileClaim | None = None) -> None:
        opened: list[Sink] = []
        try:
            for sink in self._sinks():
                await sink.open(asked)
                opened.append(sink)
        except BaseException:
            for sink in opened:
                await sink.close()
            raise

    def _sinks(self) -> list[Sink]:
        files = [self._files] if self._files is not None else []
        return [*(sink for _, sink in self._databases), *files]

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        for place, sink in self._databases:
            given = [
                replace(one, rows=_taken(one.rows, place), archived=_taken(one.archived, place))
                for one in batch
            ]
            written = await sink.write(given)
            batch = [_refused(*three) for three in zip(batch, given, written, strict=True)]
        return batch

    async def close(self) -> None:
        for sink in self._sinks():
            await sink.close()


def _taken(rows: Sequence[Row], place: Place) -> tuple[Row, ...]:
    return tuple(row for row in rows if place.takes(row.table))


def _refused(settlement: Settlement, given: Settlement, written: Settlement) -> Settlement:
    """The settlement without what a database has refused: nobody else gets it either."""
    if written is given:
        return settlement
    archived = settlement.archived
    if written.verdict is not given.verdict:
        return replace(written, rows=(), archived=tuple(row for row in archived if row.table == ARCHIVE))
    kept = {id(row) for row in written.rows}
    lost = {id(row) for row in given.rows if id(row) not in kept}
    rows = tuple(row for row in settlement.rows if id(row) not in lost)
    return replace(written, rows=rows, archived=archived)
