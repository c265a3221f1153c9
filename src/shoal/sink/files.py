"""Rows that the frontier writes itself, inside the transaction that settles their pages."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.model import Settlement
from shoal.sink.jsonl import JsonLines, MemoryJournal, StdoutJournal
from shoal.sink.ownership import FileClaim, claim


class FileSink:
    """A file, standard output or memory."""

    def __init__(self, journal: JsonLines | MemoryJournal | StdoutJournal) -> None:
        self.journal = journal

    def __repr__(self) -> str:
        return f"<FileSink {self.journal.key}>"

    async def open(self, asked: FileClaim | None = None) -> None:
        journal = self.journal
        if isinstance(journal, JsonLines) and asked is not None:
            claim(journal.path, asked)
            journal.owner = asked.owner
            # Opened now: should somebody remove it and put another file in its place, that one is not ours.
            journal.check(asked.committed or 0)

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        return batch

    async def close(self) -> None:
        self.journal.close()
