"""A sink of the user's: what goes wrong in it stops the crawl with one line that names it. Nothing is lost by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shoal.errors import SinkError, UsageError
from shoal.spider.spider import place_of_error
from shoal.text import error_line

if TYPE_CHECKING:
    from shoal.frontier.protocol import Journal
    from shoal.model import Settlement
    from shoal.sink import Sink
    from shoal.sink.ownership import FileClaim


class OwnSink:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._name = type(sink).__name__
        self._is_open = False
        for member in ("journal", "open", "write", "close"):
            if not hasattr(sink, member):
                raise UsageError(
                    f"output: {self._name} is not a sink: it needs {member}; give a file, a database, "
                    "or an object as in docs/extending.md"
                )

    @property
    def journal(self) -> Journal | None:
        return self._sink.journal

    @property
    def writes_first(self) -> bool:
        return self._sink.journal is None

    async def open(self, asked: FileClaim | None = None) -> None:
        with self._telling("open"):
            await self._sink.open(asked)
        self._is_open = True

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        with self._telling("write"):
            settled: object = await self._sink.write(batch)
        if not isinstance(settled, list | tuple) or len(settled) != len(batch):
            raise SinkError(f"sink {self._name}: write returned something else than the batch; return batch")
        return settled

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            with self._telling("close"):
                await self._sink.close()

    @contextmanager
    def _telling(self, verb: str) -> Iterator[None]:
        try:
            yield
        except SinkError:
            raise
        except Exception as error:
            where = place_of_error(error)
            at = f" ({where})" if where else ""
            raise SinkError(f"sink {self._name}: {verb} failed{at}: {error_line(error)}") from error
