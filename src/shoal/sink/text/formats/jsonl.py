"""JSON Lines: one JSON value a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from shoal.model import Row
from shoal.sink.text.formats import as_fields


class JsonLinesFormat:
    head = b""
    tail = b""

    def encode(self, rows: Sequence[Row], first: bool) -> bytes:
        return b"".join([row.data for row in rows])

    def read(self, text: BinaryIO) -> Iterator[dict[str, object]]:
        for line in text:
            yield as_fields(msgspec.json.decode(line))
