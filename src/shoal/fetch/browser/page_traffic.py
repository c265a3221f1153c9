"""What a page receives: how much it unfolds to, and when it falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_SILENCE = 0.5  # seconds
_NEVER_ENDING = frozenset({"EventSource", "WebSocket", "Ping"})


class Wire:
    """Listens to the events of one page. `on_full` is called once, when more than `cap` bytes have been unfolded."""

    def __init__(self, session: CDPSession, cap: int, on_full: Callable[[], None]) -> None:
        self.received = 0  # bytes as they came
        self.unfolded = 0  # … and after decompression
        self._cap = cap
        self._on_full = on_full
        self._open: set[str] = set()  # requests under way
        self._last = asyncio.get_running_loop().time()
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.dataReceived", self._data)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.loadingFailed", self._ended)

    async def silence(self) -> None:
        """Until nothing has been under way for half a second."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        while True:
            rest = self._last + _SILENCE - loop.time()
            if rest > 0:
                await asyncio.sleep(rest)
            elif self._open:
                await asyncio.sleep(_SILENCE / 5)
            else:
                return

    def lift(self) -> None:
        """From now on the page may unfold as much as it likes."""
        self._cap = 1 << 62

    def _sent(self, event: dict[str, Any]) -> None:
        self._touch()
        if event.get("type") not in _NEVER_ENDING:
            self._open.add(event["requestId"])

    def _data(self, event: dict[str, Any]) -> None:
        self._touch()
        self.unfolded += event["dataLength"]
        if self.unfolded > self._cap:
            self.lift()
            self._on_full()

    def _finished(self, event: dict[str, Any]) -> None:
        self.received += int(event.get("encodedDataLength", 0))
        self._ended(event)

    def _ended(self, event: dict[str, Any]) -> None:
        self._touch()
        self._open.discard(event["requestId"])

    def _touch(self) -> None:
        self._last = asyncio.get_running_loop().time()
