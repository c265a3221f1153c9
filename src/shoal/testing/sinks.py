"""A sink around any journal, for engines under test."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.frontier.protocol import Journal
from shoal.model import Settlement
from shoal.sink.ownership import FileClaim


class JournalSink:
    """Rows go to the journal within the settlement; without one they go nowhere."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal

    async def open(self, asked: FileClaim | None = None) -> None:
        pass

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        return batch

    async def close(self) -> None:
        pass
