"""The shops on sockets: in this event loop, or in a process of their own. Each has an address of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self
from urllib.parse import urlencode
from urllib.request import urlopen

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

import shoal
from shoal.testing.shops.shop_plans import PLANS, Plan
from shoal.testing.shops.storefront import Storefront, storefronts
from shoal.testing.web.loopback import bind

LOG_PATH = "/_log"
_BREAK_PATH = "/_break"
_TIMEOUT = 10.0


class ShopsSpec(Struct, frozen=True):
    shops: int = len(PLANS)  # the first so many, spread over all manners if there are fewer
    products: int = 40  # in each

    def plans(self) -> list[Plan]:
        """Spread over the list, so that a few of them are of every sort."""
        wanted = min(self.shops, len(PLANS))
        return [PLANS[number * len(PLANS) // wanted] for number in range(wanted)]


def broken(body: bytes, how: str) -> bytes:
    """A page after a redesign: "renamed": what was called price has another name; "cents": prices lose their decimal
    point; "": nothing was changed."""
    if how == "renamed":
        return body.replace(b"price", b"cost").replace(b"Price", b"Cost")
    return re.sub(rb"(\d)[.,](\d\d)(?!\d)", rb"\1\2", body) if how == "cents" else body


class Visit(Struct, frozen=True):
    shop: str
    path: str  # with the query
    status: int


class Shops:
    """Serves while its `async with` block runs. `fronts` are the shops, each with its address and its truth."""

    def __init__(self, spec: ShopsSpec | None = None) -> None:
        self.spec = spec or ShopsSpec()
        self.fronts: list[Storefront] = []
        self.visits: list[Visit] = []
        self.breaks: dict[str, str] = {}  # by the shop's name: see `broken`
        self._by_address: dict[str, Storefront] = {}

    async def __aenter__(self) -> Self:
        plans = self.spec.plans()
        sockets = bind(len(plans))
        addresses = ["{}:{}".format(*sock.getsockname()) for sock in sockets]
        self.fronts = storefronts(plans, [f"http://{address}" for address in addresses], self.spec.products)
        self._by_address = dict(zip(addresses, self.fronts, strict=True))
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        for sock in sockets:
            await web.SockSite(self._runner, sock).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == LOG_PATH:
            return web.Response(body=msgspec.json.encode(self.visits), content_type="application/json")
        assert request.transport is not None
        front = self._by_address["{}:{}".format(*request.transport.get_extra_info("sockname"))]
        if request.path == _BREAK_PATH:
            self.breaks[request.query["shop"]] = request.query["how"]
            return web.Response()
        answer = front.answer(request.raw_path)
        if front.is_product(request.raw_path) and (how := self.breaks.get(front.plan.name)):
            answer = replace(answer, body=broken(answer.body, how))
        self.visits.append(Visit(front.plan.name, request.raw_path, answer.status))
        headers = {"Content-Type": answer.content_type}
        return web.Response(body=answer.body, status=answer.status, headers=headers)


class ShopsProcess:
    """Serves from a process of its own while its `with` block runs, and ends with the one that started it."""

    def __init__(self, spec: ShopsSpec | None = None) -> None:
        self.spec = spec or ShopsSpec()
        self.fronts: list[Storefront] = []

    def visits(self) -> list[Visit]:
        with urlopen(self.fronts[0].base + LOG_PATH, timeout=_TIMEOUT) as answer:
            return msgspec.json.decode(answer.read(), type=list[Visit])

    def break_shop(self, shop: str, how: str) -> None:
        """Changes the markup of a shop's product pages, or mends it again: see `broken`."""
        query = urlencode({"shop": shop, "how": how})
        urlopen(f"{self.fronts[0].base}{_BREAK_PATH}?{query}", timeout=_TIMEOUT).close()

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C is meant for the crawler, which may still have pages to finish.
        self._server = subprocess.Popen(
            [sys.executable, "-m", "shoal.testing.shops", "--spec", msgspec.json.encode(self.spec).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1])},
            start_new_session=True,
        )
        line = self._pipe(self._server.stdout).readline()
        if not line:
            raise RuntimeError("the shops did not start; their standard error says why")
        bases: Sequence[str] = list(msgspec.json.decode(line, type=dict[str, str]).values())
        self.fronts = storefronts(self.spec.plans(), bases, self.spec.products)
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
