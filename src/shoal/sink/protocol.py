"""What a sink is.

Either the frontier writes the rows inside the transaction that settles their pages (`journal`: a file), or the sink
writes them just before it (`write`: a database). After a crash in between, the page is fetched and written again, so
writing must be idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shoal.frontier.protocol import Journal
from shoal.model import Settlement
from shoal.sink.ownership import FileClaim


class Sink(Protocol):
    @property
    def journal(self) -> Journal | None: ...

    async def open(self, asked: FileClaim | None = None) -> None:
        """Checks that rows can be written; raises SinkError if not. `asked`: for which job."""
        ...

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        """Makes the rows of these settlements durable. Tries again while the database is away. Returns what is to be
        settled: the same, but with dead letters for pages whose rows were refused."""
        ...

    async def close(self) -> None: ...
