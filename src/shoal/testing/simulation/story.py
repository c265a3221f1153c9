"""What happened in a world, line by line. Two runs of one seed tell the same story."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b


class Story:
    def __init__(self, time: Callable[[], float], aloud: Callable[[str], None] | None = None) -> None:
        self._time = time
        self._aloud = aloud
        self.lines: list[str] = []

    def tell(self, who: str, what: str) -> None:
        line = f"{self._time():10.4f} {who:<9} {what}"
        self.lines.append(line)
        if self._aloud is not None:
            self._aloud(line)

    @property
    def digest(self) -> str:
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()
