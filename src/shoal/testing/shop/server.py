"""The shop on a socket: in this event loop, or in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Self
from urllib.request import urlopen

import msgspec
from aiohttp import web

import shoal
from shoal.testing.shop.catalogue import Catalogue
from shoal.testing.shop.paths import ACCOUNT, KIND, Routes, ShopSpec
from shoal.testing.shop.visits import ShopLog, Visit

LOG_PATH = "/_log"
_TIMEOUT = 10.0
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Shop:
    """Serves while its `async with` block runs."""

    def __init__(self, spec: ShopSpec | None = None, *, port: int = 0) -> None:
        self.spec = spec or ShopSpec()
        self.routes = Routes(self.spec)
        self.url = ""
        self._port = port
        self._visits: list[Visit] = []
        self._under_way = 0

    @property
    def catalogue(self) -> Catalogue:
        return self.routes.catalogue

    def log(self) -> ShopLog:
        return ShopLog(list(self._visits), list(self.routes.accounts.logins))

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._record])
        app.add_routes([*self.routes.table(), web.get(LOG_PATH, self._send_log)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        [address] = self._runner.addresses
        self.url = f"http://127.0.0.1:{address[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _record(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.path == LOG_PATH:
            return await handler(request)
        self._under_way += 1
        started, concurrent, status = time.monotonic(), self._under_way, 0
        try:
            await asyncio.sleep(self.spec.latency)
            answer = await handler(request)
            status = answer.status
            return answer
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            self._under_way -= 1
            kind, account = request.get(KIND, "none"), request.get(ACCOUNT, "")
            path, ended = request.path_qs, time.monotonic()
            self._visits.append(
                Visit(path, request.method, status, kind, account, started, ended, concurrent)
            )

    async def _send_log(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self.log()), content_type="application/json")


class ShopProcess:
    """Serves from a process of its own while its `with` block runs.

    The server ends when its standard input closes, so it cannot outlive the process that started it.
    """

    def __init__(self, spec: ShopSpec | None = None) -> None:
        self.spec = spec or ShopSpec()
        self.catalogue = Catalogue(self.spec.products, self.spec.file_bytes)
        self.url = ""

    def log(self) -> ShopLog:
        with urlopen(self.url + LOG_PATH, timeout=_TIMEOUT) as answer:
            return msgspec.json.decode(answer.read(), type=ShopLog)

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C is meant for the crawler, which may still have pages to finish.
        self._server = subprocess.Popen(
            [sys.executable, "-m", "shoal.testing.shop", "--spec", msgspec.json.encode(self.spec).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1])},
            start_new_session=True,
        )
        self.url = self._pipe(self._server.stdout).readline().decode().strip()
        if not self.url:
            raise RuntimeError("the shop did not start; its standard error says why")
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe(self._server.stdin).close()
        try:
            self._server.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        finally:
            self._pipe(self._server.stdout).close()

    def _pipe(self, pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe
