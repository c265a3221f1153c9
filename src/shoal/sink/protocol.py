"""Where a job's rows go.

Either the frontier writes them, inside the transaction that settles their pages (`journal`: a file), or the sink does,
just before it (`write`: a database). Then a crash in between means that the page is fetched and written again, so
what is written must replace itself.
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
        """Makes sure that rows can be written; raises SinkError if not. `asked`: for which job."""
        ...

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        """Makes the rows of these settlements durable. Waits and tries again while the store of results is away.
        Answers what is to be settled: the same, but pages whose rows were refused are buried."""
        ...

    async def close(self) -> None: ...
