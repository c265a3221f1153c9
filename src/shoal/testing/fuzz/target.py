"""What a fuzz target is, and how it reads values from the bytes it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from msgspec import Struct

Run: TypeAlias = Callable[[bytes], None]


class Target(Struct, frozen=True):
    """Something that reads bytes. `open` gives the function to call with them, which raises if a rule is broken."""

    name: str
    rule: str  # what must hold, in a sentence
    open: Callable[[], AbstractContextManager[Run]]
    words: Sequence[bytes] = ()  # what the inputs of this target are made of
    inputs: int = 1_000_000  # of a run by command
    largest: int = 4096  # bytes of an ordinary input
    structured: bool = (
        False  # a longer input is read as other values: nothing can be said of how its time grows
    )
    per_byte: float = 2e-6  # CPU seconds that a byte of input may take
    base: float = 0.02  # … and any input at all
    # CPU seconds below which growth says nothing: a clock is too coarse, or the target has a budget of its own.
    floor: float = 0.01

    def bound(self, size: int) -> float:
        """The CPU seconds that an input of this size may take before it is looked at more closely."""
        return self.base + self.per_byte * size


def pure(run: Run) -> Callable[[], AbstractContextManager[Run]]:
    """For a target that needs nothing but its input."""

    @contextmanager
    def opened() -> Iterator[Run]:
        yield run

    return opened


def rule_of(run: Run) -> str:
    """The docstring of a target's function, as one line."""
    assert run.__doc__
    return " ".join(run.__doc__.split())


_PLAIN = 200  # a length byte below this says how many bytes; above, a long text


class Reader:
    """Values from fuzzed bytes: each is taken from the front, and when nothing is left they are small and empty."""

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
