"""Text files that hold every row exactly once, whatever crashes.

The frontier keeps the position: how many bytes are committed. A settlement writes its rows at that position inside its
transaction. What is beyond it, left by a crash, belongs to pages that will be fetched again, and is overwritten. The
end that a format needs, such as the bracket of a JSON array, is also beyond the position: the next rows replace it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.durable import write_at
from shoal.sink.text.committed_file import CommittedFile, beginning_of
from shoal.sink.text.compression import Compression, Plain
from shoal.sink.text.formats import Format


class TextFile(CommittedFile):
    """A file of a head, rows and a tail."""

    def __init__(
        self, path: Path, format: Format, compression: Compression | None = None, key: str = ""
    ) -> None:
        super().__init__(path, format.tail, compression, key)
        self._format = format

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        text = self._format.encode(rows, first=not committed)
        if text and not committed:
            text = self._format.head + text
        data = self._packed(text)
        with self._ours(committed), self._complaining():
            file = self._open()
            length = self._length(file, committed)
            return self._put(file, committed, data, length)

    def check(self, committed: int) -> None:
        """Checks that the file can be opened and is complete. Changes nothing, so others may be writing."""
        head = self._format.head if isinstance(self._compression, Plain) else b""
        with self._complaining():
            file = self._open()
            self._length(file, committed)
            if committed and os.pread(file, len(head), 0) != head:
                raise SinkError(
                    f"{self.path} is not in the format that its name says: it was changed, or written by an earlier"
                    " version; restore it or start again with --fresh"
                )

    def finish(self, committed: int) -> None:
        """Makes a result without rows a complete file, too: gunzip refuses an empty one. Cuts nothing off, for another
        process may have committed more."""
        if committed:
            return
        with self._ours(0), self._complaining():
            file = self._open()
            if self._length(file, 0) == 0:
                write_at(file, self._compression.compress(self._format.head + self._format.tail), 0)
        self.sync()

    def read(self, committed: int) -> Iterator[dict[str, object]]:
        """The committed rows."""
        if not committed:
            return
        with self._complaining("read"), open(self.path, "rb", buffering=0) as file:
            text = self._compression.reader(beginning_of(file, committed))
            yield from self._format.read(text)
