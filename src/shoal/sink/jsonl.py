"""JSON Lines files, rows in memory and on standard output: what the frontier writes itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.items import encode_row
from shoal.sink.text.compression import Compression, Plain
from shoal.sink.text.formats import Format
from shoal.sink.text.formats.jsonl import JsonLinesFormat
from shoal.sink.text.text_files import TextFile

__all__ = ["JsonLines", "MemoryJournal", "StdoutJournal", "describe_existing", "encode_row"]


class JsonLines(TextFile):
    """A file of one JSON value a line."""

    def __init__(self, path: Path, key: str = "") -> None:
        super().__init__(path, JsonLinesFormat(), key=key)


class MemoryJournal:
    """Rows in a list, for crawls from code and for tests. For a resumed job it holds the rows of this run."""

    key = "memory"

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self._ends: list[int] = []  # the length after each row

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        while self._ends and self._ends[-1] > committed:
            self._ends.pop()
            self.rows.pop()
        for row in rows:
            committed += len(row.data)
            self.rows.append(row.data)
            self._ends.append(committed)
        return committed

    def close(self) -> None:
        pass


def standard_output() -> TextIO:
    """Where rows are printed. What a spider prints goes elsewhere (`telemetry/printing.py`)."""
    stream: TextIO = getattr(sys.stdout, "results", sys.stdout)
    return stream


class StdoutJournal:
    """Rows to standard output. Printed rows cannot be taken back, so after a crash between printing and commit they are
    printed again."""

    key = "stdout"

    def __init__(self, format: Format | None = None, compression: Compression | None = None) -> None:
        self._format = format or JsonLinesFormat()
        self._compression = compression or Plain()
        self._begun = self._ended = False

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        text = self._format.encode(rows, first=not self._begun)
        return committed + self._print(text) if text else committed

    def close(self) -> None:
        """Prints the end, if the format has one. Nothing is printed after a failure."""
        if not self._ended and (self._format.head or self._format.tail):
            self._print(b"")
            self._print(self._format.tail)
        self._ended = True

    def _print(self, text: bytes) -> int:
        if not self._begun:
            text = self._format.head + text
            self._begun = True
        data = self._compression.compress(text) if text else b""
        try:
            stream = standard_output().buffer
            stream.write(data)
            stream.flush()
        except OSError as error:
            self._ended = True
            raise SinkError(f"cannot write to standard output: {error.strerror or error}") from error
        return len(data)


def describe_existing(path: Path) -> str | None:
    """One line about a file that already holds something; None if there is nothing to lose."""
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return f"{path} already holds {size:,} bytes" if size else None
