"""Connections to the dashboard: one that is slow to ask, or does not read its answer, or is one too many, is cut."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256  # at once: fifty viewers, and the rest of their pages
PATIENCE = 10.0  # seconds for a request to arrive, and for an answer to be gone


class Bounded(H11Protocol):
    """Looks at the connection from time to time: a request must be under way, or have come since the last look."""

    _looking: asyncio.TimerHandle | None = None
    _seen: object = None  # the latest request at the last look

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._seen = self.cycle
        self._looking = self.loop.call_later(PATIENCE, self._look)

    def _look(self) -> None:
        is_over = self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing() or (is_over and self.cycle is self._seen):
            self.transport.abort()
        else:
            self._look_later()
