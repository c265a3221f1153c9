"""Two connections that repeat to each other whatever they hear: a tunnel.

Protocols rather than streams: with a task and a buffer for each direction, busy tunnels would cost a third more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(
    near: Ends, far: Ends, on_sent: Callable[[int], None], on_received: Callable[[int], None]
) -> None:
    """Returns when the near connection has ended. The far one is the caller's to close; the streams are used up.
    `on_sent` and `on_received` hear the size of every piece, as seen from near."""
    near_side, far_side = (
        cast("asyncio.Transport", near[1].transport),
        cast("asyncio.Transport", far[1].transport),
    )
    if near_side.is_closing() or far_side.is_closing():
        return
    ended = asyncio.Event()
    outward = _Listener(near_side, far_side, on_sent, ended.set)
    inward = _Listener(far_side, near_side, on_received, near_side.close)
    outward.partner, inward.partner = inward, outward
    await outward.take_over(near[0])
    await inward.take_over(far[0])
    await ended.wait()


class _Listener(asyncio.Protocol):
    """Listens to one connection and repeats everything on the other, no faster than that one takes it."""

    partner: _Listener

    def __init__(
        self,
        own: asyncio.Transport,
        other: asyncio.Transport,
        on_data: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._own = own
        self._other = other
        self._on_data = on_data
        self._on_lost = on_lost
        self._heard_all = False

    async def take_over(self, reader: asyncio.StreamReader) -> None:
        """In place of the stream, of which nothing is lost: reading what it has does not wait."""
        over = reader.at_eof()
        self._own.set_protocol(self)
        reader.feed_eof()
        if rest := await reader.read():
            self.data_received(rest)
        if over:
            self.eof_received()

    def data_received(self, data: bytes) -> None:
        self._on_data(len(data))
        self._other.write(data)

    def eof_received(self) -> bool:
        """One side may be done before the other."""
        self._heard_all = True
        if self.partner._heard_all or not self._other.can_write_eof():
            self._other.close()
            self._own.close()
        else:
            self._other.write_eof()
        return self._own.can_write_eof()  # stays open, which TLS does not know

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()

    def pause_writing(self) -> None:
        if not self._other.is_closing():
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if not self._other.is_closing():
            self._other.resume_reading()
