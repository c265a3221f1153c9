"""A receiver of webhooks: it notes what it is sent, and answers as it is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from msgspec import Struct


class Received(Struct, frozen=True):
    headers: Mapping[str, str]
    body: bytes
    path: str


class WebhookReceiver:
    """Answers with the statuses that are left, one after another, and then with 200."""

    def __init__(self, *statuses: int, headers: Mapping[str, str] | None = None) -> None:
        self.statuses = deque(statuses)
        self.received: list[Received] = []
        self._headers = headers or {}
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.hold: asyncio.Event | None = None  # nothing is answered before it is set

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/t0ken-of-mine"

    async def __aenter__(self) -> WebhookReceiver:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return self

    async def __aexit__(self, *_: Any) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.received.append(Received(request.headers.copy(), await request.read(), request.path_qs))
        if self.hold is not None:
            await self.hold.wait()
        status = self.statuses.popleft() if self.statuses else 200
        return web.Response(status=status, headers=self._headers, text="thanks")
