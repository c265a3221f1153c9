"""Sinks: where the rows of a job go.

Either the frontier writes the rows inside the transaction that settles their pages (`journal`: a file), or the sink
writes them just before it (`write`: a database). After a crash in between, the page is fetched and written again, so
writing must be idempotent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Journal
    from shoal.model import Settlement
    from shoal.sink.ownership import FileClaim

__all__ = ["Sink", "describe", "is_database", "open_sink", "output_key"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES = re.compile(r"postgres(ql)?:(//|$)", re.IGNORECASE)


class Sink(Protocol):
    @property
    def journal(self) -> Journal | None: ...

    async def open(self, asked: FileClaim | None = None) -> None:
        """Checks that rows can be written; raises SinkError if not. `asked`: for which job."""
        ...

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        """Makes the rows of these settlements durable. Tries again while the database is away. Returns what is to be
        settled: the same, but without rows that were refused: their items are rejected, or their pages dead letters."""
        ...

    async def close(self) -> None: ...


def open_sink(output: str | Path | None, *, job: str, local: bool = True) -> Sink:
    """The sink for `output`: a path, `postgresql://…`, or None for standard output. The caller opens it. Not `local`:
    the store is shared with other machines, where the same path is another file."""
    if is_database(output):
        try:
            from shoal.sink.postgres.sink import PostgresSink
        except ModuleNotFoundError as error:
            raise UsageError(f"PostgreSQL needs {error.name}: pip install 'shoal[postgres]'") from None
        return PostgresSink(str(output), job=job)
    from shoal.sink.jsonl import FileSink, JsonLines, StdoutJournal

    if output is None:
        return FileSink(StdoutJournal())
    if local:
        return FileSink(JsonLines(Path(output)))
    from shoal.sink.ownership import identity_of

    return FileSink(JsonLines(Path(output), key=identity_of(Path(output))))


def is_database(output: str | Path | None) -> bool:
    """Whether rows go to a database and not to a file. Raises for anything else."""
    if not isinstance(output, str):
        return False
    if _POSTGRES.match(output):
        return True
    if scheme := _SCHEME.match(output):
        raise UsageError(
            f"no results of kind {scheme[1]!r}: name a file such as rows.jsonl, - for standard output, "
            "or postgresql://HOST/DATABASE"
        )
    return False


def describe(output: str | Path | None) -> str:
    """The output as it may be shown: without user and password."""
    if output is None:
        return "stdout"
    if not is_database(output):
        return str(output)
    from shoal.sink.postgres.address import read_address

    return read_address(str(output)).shown


def output_key(output: str | Path | None) -> bytes:
    """What a job stores about its output. For a database, the address without its password: processes have that in
    their environment."""
    if output is None:
        return b""
    if not is_database(output):
        return os.path.abspath(output).encode(errors="surrogateescape")
    from shoal.sink.postgres.address import read_address

    return read_address(str(output)).key.encode()
