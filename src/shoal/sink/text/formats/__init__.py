"""Text formats: how rows are written, and read again. `sink/text/text_files.py` makes files of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol

from shoal.model import Row


class Format(Protocol):
    """A file is `head`, rows, `tail`. The tail is written anew with each commit, so the file is always complete."""

    head: bytes
    tail: bytes

    def encode(self, rows: Sequence[Row], first: bool) -> bytes:
        """The rows as text. `first`: no rows are before them."""
        ...

    def read(self, text: BinaryIO) -> Iterator[dict[str, object]]:
        """The rows of a file that has no tail."""
        ...


def as_fields(value: object) -> dict[str, object]:
    """The fields of a row. An item need not have fields: it may be a plain string."""
    return value if isinstance(value, dict) else {"value": value}
