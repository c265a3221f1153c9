"""Where items go. A sink is a journal that the frontier's settlement drives, and that can be closed."""

from __future__ import annotations

from typing import Protocol

from shoal.frontier.protocol import Journal


class Sink(Journal, Protocol):
    def close(self) -> None: ...
