"""JSON: an array of all rows, one row a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from shoal.model import Row
from shoal.sink.text.formats import as_fields


class JsonArray:
    head = b"["
    tail = b"\n]\n"

    def encode(self, rows: Sequence[Row], first: bool) -> bytes:
        data = b",\n".join([row.data[:-1] for row in rows])
        if not data:
            return b""
        return (b"\n" if first else b",\n") + data

    def read(self, text: BinaryIO) -> Iterator[dict[str, object]]:
        text.readline()  # the bracket
        for line in text:
            yield as_fields(msgspec.json.decode(line.rstrip(b",\n")))
