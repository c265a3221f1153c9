"""Rows that the frontier writes itself, inside the transaction that settles their pages."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.model import Settlement
from shoal.sink.jsonl import JsonLines, MemoryJournal, StdoutJournal


class FileSink:
    """A file, standard output or memory. What it must look like before a crawl is checked with the job (`plan.py`)."""

    def __init__(self, journal: JsonLines | MemoryJournal | StdoutJournal) -> None:
        self.journal = journal

    def __repr__(self) -> str:
        return f"<FileSink {self.journal.key}>"

    async def open(self) -> None:
        pass

    async def write(self, batch: Sequence[Settlement]) -> None:
        pass

    async def close(self) -> None:
        self.journal.close()
