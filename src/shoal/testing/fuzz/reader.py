"""Values from fuzzed bytes: each is taken from the front, and when nothing is left they are small and empty."""

from __future__ import annotations

_PLAIN = 200  # a length byte below this says how many bytes; above, a long text


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def raw(self) -> bytes:
        size = self.byte()
        return self.take(size if size < _PLAIN else (size - _PLAIN) * 512)

    def text(self) -> str:
        """Bytes that are no UTF-8 become lone surrogates, as in a header that was read by an HTTP client."""
        return as_text(self.raw())

    def texts(self, most: int) -> list[str]:
        return [self.text() for _ in range(self.byte() % (most + 1))]

    def number(self) -> int:
        """Small, large or negative."""
        kind = self.byte()
        if kind < 128:
            return kind
        value = int.from_bytes(self.take(8), "big")
        return value if kind < 192 else -value

    def choice(self, *values: str) -> str:
        return values[self.byte() % len(values)]

    def rest(self) -> bytes:
        start, self._at = self._at, len(self._data)
        return self._data[start:]


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def lines(data: bytes, count: int) -> list[bytes]:
    """The first lines, and the rest as the last; always `count` of them."""
    parts = data.split(b"\n", count - 1)
    return parts + [b""] * (count - len(parts))
