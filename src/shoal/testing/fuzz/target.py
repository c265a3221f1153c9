"""What a fuzz target is."""

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
