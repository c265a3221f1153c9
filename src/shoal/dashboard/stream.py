"""Server-sent events: what is published once goes to every viewer, and a viewer who does not keep up is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shoal.dashboard.responses import Refusal, encode

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_MOST = 50  # viewers at once
_QUEUE = 32  # messages that a viewer may be behind
_HEARTBEAT = 15.0  # seconds of silence
_LAST_WORDS = 0.5
_START = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy in between must not collect it
]


def message(name: str, value: object) -> bytes:
    """JSON has no line breaks of its own, so it is always one line of data."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode(value))


class Viewer:
    def __init__(self, still_welcome: Callable[[], bool]) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE)
        self.ending = asyncio.Event()
        self.still_welcome = still_welcome


class Hub:
    def __init__(self) -> None:
        self._viewers: set[Viewer] = set()
        self._closed = False
        self.arrived = asyncio.Event()  # somebody new is there

    def __repr__(self) -> str:
        return f"<Hub with {len(self._viewers)} viewers>"

    def __len__(self) -> int:
        return len(self._viewers)

    def publish(self, name: str, value: object) -> None:
        if not self._viewers:
            return
        data = message(name, value)
        for viewer in list(self._viewers):
            try:
                viewer.queue.put_nowait(data)
            except asyncio.QueueFull:
                self.leave(viewer)

    def enter(self, first: Sequence[bytes], still_welcome: Callable[[], bool]) -> Viewer:
        """`still_welcome` is asked before everything that is sent."""
        if self._closed or len(self._viewers) >= _MOST:
            raise Refusal(503, "no more viewers can be served", retry_after=5)
        viewer = Viewer(still_welcome)
        for data in first:
            viewer.queue.put_nowait(data)
        self._viewers.add(viewer)
        self.arrived.set()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        viewer.ending.set()

    def close(self) -> None:
        """Ends every stream at once."""
        self._closed = True
        for viewer in list(self._viewers):
            self.leave(viewer)


class StreamReply:
    """A response that lasts until the viewer leaves, is dropped, or has logged out."""

    def __init__(self, hub: Hub, viewer: Viewer) -> None:
        self._hub = hub
        self._viewer = viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = [
            asyncio.create_task(self._send_all(send)),
            asyncio.create_task(_until_gone(receive)),
            asyncio.create_task(self._viewer.ending.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(self._viewer)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_WORDS):  # one that reads nothing is cut off by the server
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            pass

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _START})
        data = b"retry: 2000\n\n"
        while self._viewer.still_welcome():
            await send({"type": "http.response.body", "body": data, "more_body": True})
            try:
                async with asyncio.timeout(_HEARTBEAT):
                    data = await self._viewer.queue.get()
            except TimeoutError:
                data = b": still here\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
