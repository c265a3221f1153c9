"""Parquet files that hold every row exactly once.

A Parquet file is complete when it is closed, and cannot be added to. So rows go to a spool (`spool.py`), which turns
them into parts while the crawl goes on; at its end the parts become one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import UsageError
from shoal.limits import MB
from shoal.model import Row
from shoal.sink.spool import SEGMENT, Part, Spool

if TYPE_CHECKING:
    from shoal.sink.parquet.parquet_parts import ParquetParts

Columns = Mapping[str, Mapping[str, object]]  # for each kind of item: its fields and their annotations

_FILES = 100  # whose mixed columns are remembered
_QUICK = 512 * MB  # bytes of rows that are written anew in some seconds


# By file, the columns of which the log has said that they are mixed: a crawl opens its file anew when it ends.
_told: dict[str, set[str]] = {}


def _told_columns(path: Path) -> set[str]:
    told = _told.setdefault(os.path.abspath(path), set())
    if len(_told) > _FILES:
        del _told[next(iter(_told))]
    return told


class ParquetFile(Spool):
    """A journal. `columns`: what the schemas of handlers say. `shown`: its name in the log, if that is not the path."""

    def __init__(
        self, path: Path, columns: Columns, key: str = "", *, segment: int = SEGMENT, shown: str = ""
    ) -> None:
        if find_spec("pyarrow") is None:
            raise UsageError("Parquet needs pyarrow: pip install 'shoal[parquet]'")
        self._told = _told_columns(path)
        self._parts = _LazyParts(path, columns, shown or str(path), self._told)
        super().__init__(path, self._parts, key, segment=segment)

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        if not committed:
            self._told.clear()  # it is begun anew
        return super().write(committed, rows)

    def pause(self, committed: int) -> None:
        """Writes the file when a run ends before its job, unless it is large: whoever stops a crawl does not want to
        wait for minutes."""
        if committed <= _QUICK:
            self.finish(committed)

    def read(self, committed: int) -> Iterator[dict[str, object]]:
        """The committed rows."""
        for _, row in self.items(committed):
            yield row

    def items(self, committed: int) -> Iterator[tuple[str, dict[str, object]]]:
        """… each with its kind."""
        yield from self._parts.loaded().read(self.folder, committed)


class _LazyParts:
    """pyarrow is loaded when the first part is written: it takes a moment, and most commands do not need it."""

    def __init__(self, path: Path, columns: Columns, shown: str, told: set[str]) -> None:
        self._path = path
        self._shown = shown
        self._told = told
        self._columns = columns
        self._parts: ParquetParts | None = None

    def loaded(self) -> ParquetParts:
        if self._parts is None:
            from shoal.sink.parquet.parquet_parts import ParquetParts

            self._parts = ParquetParts(self._path, self._columns, self._shown, self._told)
        return self._parts

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        self.loaded().ship(part, rows)

    def unship(self, part: Part) -> None:
        self.loaded().unship(part)

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        self.loaded().finish(position, parts)
