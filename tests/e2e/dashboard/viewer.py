"""A viewer without a browser: logs in, asks, acts, and reads the stream. And what there is to see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from shoal import Page, Spider
from shoal.dashboard.server import Served
from shoal.frontier import open_frontier
from shoal.frontier.values import Claim
from shoal.testing import WebProcess

DEADLINE = 30.0  # seconds
SCRIPT = "<script>alert(1)</script>"


class Viewer:
    def __init__(self, http: aiohttp.ClientSession, served: Served) -> None:
        self.http = http
        self.served = served
        self.csrf = ""

    async def log_in(self) -> None:
        async with self.http.post("/login", data={"token": self.served.token}) as answer:
            assert answer.status == 200, await answer.text()
        self.csrf = (await self.get("/api/session"))["csrf"]

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        async with self.http.request(method, path, **more) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def get(self, path: str, **query: str | int) -> Any:
        status, value = await self.ask("GET", path, params=query)
        assert status == 200, value
        return value

    async def post(self, path: str, **body: Any) -> tuple[int, Any]:
        return await self.ask("POST", path, json=body, headers={"X-Shoal-CSRF": self.csrf})

    async def hosts(self, **query: str | int) -> list[dict[str, Any]]:
        found = await self.get("/api/hosts", **query)
        return sorted(found["hosts"], key=lambda host: str(host["host"]))

    async def a_host(self) -> str:
        return str((await self.hosts())[0]["host"])

    async def replay_all(self) -> None:
        """Makes the dead letters pending."""
        assert await self.post("/api/dead", action="replay", filter={"job": "books"}) == (200, {"count": 6})

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Names and values of what the stream brings, until it ends."""
        async with self.http.get("/api/stream", timeout=aiohttp.ClientTimeout(total=None)) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            name = ""
            async for line in answer.content:
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    yield name, msgspec.json.decode(line[6:])


@asynccontextmanager
async def viewing(served: Served) -> AsyncIterator[Viewer]:
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address
    async with aiohttp.ClientSession(served.url, cookie_jar=jar) as http:
        yield Viewer(http, served)


def spider_of(web: WebProcess) -> Spider:
    """Its handler fails on one page, asks for two that are not there, and meets a script in a title."""
    spider = Spider("books", start=web.start_urls, rate=0, robots=False, retry_base=0.01)

    @spider.handler
    def page(page: Page) -> Iterator[Any]:
        if page.url.endswith("/p/1"):
            raise ValueError(f"{SCRIPT}\x1b[2J")
        if page.url.endswith("/p/0"):
            yield page.follow("/missing/1")
            yield page.follow(f"/missing/{SCRIPT}")
        yield {"url": page.url, "title": SCRIPT}
        yield from page.follow_all("a", page_handler)

    page_handler = page
    return spider


async def claimed(store: str) -> set[str]:
    """The hosts of what a worker would get now; it is handed back."""
    async with open_frontier(store) as frontier:
        leases = (await frontier.claim(Claim("w", ["books"], {"normal": 50}, 50))).leases
        await frontier.release(leases)
        return {lease.task.host for lease in leases}
