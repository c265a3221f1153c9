"""A small site whose pages change when a test says so, and a store whose time does.

site.pages["/a"] = Content("12.50")      what the page shows; it has an ETag and a Last-Modified that follow
site.requests                            what was asked for: path, conditional or not, status, bytes of the body
later(store, hours=2)                    the next crawl of that store finds itself two hours later
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from typing import Literal

from aiohttp import web
from msgspec import Struct, field

Versions = Literal["true", "none", "date", "lies", "each request"]


class Content(Struct):
    """A page: what it says, and how."""

    price: str = "1"
    links: Sequence[str] = ()
    status: int = 200
    location: str = ""
    noise: str = ""  # an advertisement: not what the page is about
    more: str = ""  # HTML
    changed: float = 1_700_000_000.0

    def html(self, path: str) -> str:
        links = "".join(f'<a href="{link}">{link}</a>' for link in self.links)
        return (
            f"<html><head><title>{path}</title></head><body><h1>{path}</h1><p class=price>{self.price}</p>"
            f"{links}<aside>{self.noise}</aside>{self.more}</body></html>"
        )


class Asked(Struct, frozen=True):
    path: str
    conditional: bool
    status: int
    size: int


class ChangingSite(Struct):
    """`versions`: what its validators are: true, absent, dates only, the same for ever, or others each time."""

    pages: dict[str, Content] = field(default_factory=dict)
    versions: Versions = "true"
    requests: list[Asked] = field(default_factory=list)
    url: str = ""
    served: int = 0

    def take(self) -> list[Asked]:
        """The requests since the last call, in the order of their paths."""
        taken, self.requests = self.requests, []
        return sorted(taken, key=lambda one: one.path)

    def set(self, path: str, price: str, **more: str) -> None:
        page = self.pages[path]
        page.price, page.changed = price, page.changed + 3600
        for name, value in more.items():
            setattr(page, name, value)

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.path
        self.served += 1
        page = self.pages.get(path, Content(status=404))
        asked = request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since")
        headers = self._validators(path, page)
        tag, date = headers.get("ETag"), headers.get("Last-Modified")
        if page.status != 200:
            response = web.Response(
                status=page.status, headers={"Location": page.location} if page.location else {}
            )
        elif (asked[0] and asked[0] == tag) or (not asked[0] and asked[1] and asked[1] == date):
            response = web.Response(status=304, headers=headers)
        else:
            response = web.Response(text=page.html(path), content_type="text/html", headers=headers)
        size = len(response.body) if isinstance(response.body, bytes) else 0
        self.requests.append(Asked(path, any(asked), response.status, size))
        return response

    def _validators(self, path: str, page: Content) -> dict[str, str]:
        content = sha256(page.html(path).encode()).hexdigest()[:16]
        dated = {"Last-Modified": formatdate(page.changed, usegmt=True)}
        match self.versions:
            case "none":
                return {}
            case "date":
                return dated
            case "lies":
                return {"ETag": f'"{path}"'}
            case "each request":
                return {"ETag": f'"{path}-{self.served}"'}
        return {"ETag": f'"{content}"', **dated}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ChangingSite]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()


def later(store: Path, *, hours: float) -> None:
    """Moves the time of a SQLite store that nobody has open."""
    with sqlite3.connect(store) as db:
        db.execute("UPDATE meta SET value = value + ? WHERE key IN ('offset', 'last')", (hours * 3600,))
    db.close()
