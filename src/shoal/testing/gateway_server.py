"""A gateway on loopback: a service that fetches a page when it is asked for it by HTTP, with a key.

    async with GatewayServer() as gateway:
        pool = {"gateway": gateway.template, "status_header": "X-Status", "url_header": "X-Url"}
        ... Settings(proxies={"api": PoolSettings(**pool)}, pool="api")

It is asked as GET /?key=KEY&url=URL, or with the key in the header X-Key; it follows redirects. By its own account it
answers 401 to another key, 402 without credits, 429 beyond `at_once`, and as its `habit` says:

    broken   500 to everything
    silent   takes requests, and never answers
    leaky    sends the key back, in a header and in pages that failed
"""

from __future__ import annotations

import asyncio
from typing import Literal, Self

import aiohttp
from aiohttp import web
from yarl import URL

Habit = Literal["good", "broken", "silent", "leaky"]

_PASSED_ON = "X-Pass-"  # before the name of a header that is for the page


class GatewayServer:
    """One gateway while its `async with` block runs. `habit`, `credits`, `at_once` and `key` may be changed."""

    def __init__(
        self,
        key: str = "gateway-key",
        *,
        credits: int | None = None,
        at_once: int = 100,
        habit: Habit = "good",
    ) -> None:
        self.key = key
        self.credits = credits  # that are left; None: without end
        self.at_once = at_once
        self.habit: Habit = habit
        self.tells_status = True  # with X-Status, X-Url and X-Cost; its own status is 200 then
        self.asked: list[dict[str, str]] = []  # the queries that it got
        self.fetched: list[str] = []  # the URLs that it fetched
        self.port = 0
        self._running = 0
        self._closing = asyncio.Event()
        self._key = key
        self._runner: web.ServerRunner | None = None
        self._client: aiohttp.ClientSession | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def template(self) -> str:
        """Its address for the setting `gateway`, with the key that it was made with."""
        return f"http://{self.address}/?key={self._key}&url={{url}}"

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        assert self._client is not None
        self._closing.set()
        await self._runner.cleanup()
        await self._client.close()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        query = dict(request.query)
        self.asked.append(query)
        self._running += 1
        try:
            if (refusal := self._refusal(query.get("key", request.headers.get("X-Key", "")))) is not None:
                return refusal
            return await self._fetch(query, request)
        finally:
            self._running -= 1

    def _refusal(self, key: str) -> web.Response | None:
        if key != self.key:
            return web.Response(status=401, text=f"unknown key {key}")
        if self.credits == 0:
            return web.Response(status=402, text="no credits left")
        if self._running > self.at_once:
            return web.Response(status=429, text="too many at once")
        return web.Response(status=500, text="we failed") if self.habit == "broken" else None

    async def _fetch(self, query: dict[str, str], request: web.BaseRequest) -> web.Response:
        if self.habit == "silent":
            await self._closing.wait()
            return web.Response()
        assert self._client is not None
        passed = {
            name.removeprefix(_PASSED_ON): value
            for name, value in request.headers.items()
            if name.startswith(_PASSED_ON) or name == "Content-Type"
        }
        self.fetched.append(query["url"])
        if self.credits is not None:
            self.credits -= 1
        body = await request.read()
        async with self._client.request(
            request.method, URL(query["url"], encoded=True), headers=passed, data=body or None
        ) as answer:
            content = await answer.read()
            headers = {"Content-Type": answer.headers.get("Content-Type", "")}
            if self.tells_status:
                headers |= {"X-Status": str(answer.status), "X-Url": str(answer.url), "X-Cost": "5"}
            if self.habit == "leaky":
                headers["X-Asked"] = request.raw_path
                content += self.key.encode()
            status = 200 if self.tells_status else answer.status
            return web.Response(status=status, body=content, headers=headers)
