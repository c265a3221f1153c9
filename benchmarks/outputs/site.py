"""A site on loopback that publishes rows, and knows them all.

A page links to ten further pages. It publishes rows of one of three kinds: products (nested values, odd texts, fields
that only later pages have), reviews (with a schema), and brands (with a key: many pages publish the same).
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

Row = dict[str, Any]

KINDS = ("brand", "product", "product", "review", "review")
BRANDS = 40
LINKS = 10
TEXTS = (
    "plain",
    'a comma, and "quotes"',
    "two\nlines",
    "two\r\nlines of Windows",
    "a\ttab; a | bar",
    "=1+1",
    "  blanks around  ",
    "",
    "日本語 🐟 Größe",
    "<b>bold &amp; ]]> more</b>",
    "null",
    "0012",
    "\u2028 and \u00a0",
    "back\\slash \\N \\n",
)


def kind_of(page: int) -> str:
    return KINDS[page % len(KINDS)]


def rows_of(page: int, pages: int) -> list[Row]:
    """What page `page` of `pages` publishes."""
    kind = kind_of(page)
    if kind == "brand":
        return [_brand(page % BRANDS), _brand(page * 7 % BRANDS)]
    if kind == "product":
        return [_product(page, number, pages) for number in range(2)]
    return [_review(page, number) for number in range(page % 4)]


def _brand(number: int) -> Row:
    return {"kind": "brand", "id": f"brand-{number}", "country": ("de", "日本", "")[number % 3]}


def _product(page: int, number: int, pages: int) -> Row:
    row: Row = {
        "kind": "product",
        "id": f"product-{page}-{number}",
        "name": TEXTS[(page + number) % len(TEXTS)],
        "price": page + number / 4,
        "stock": page * number,
        "sale": page % 3 == 0,
        "tags": [TEXTS[page % len(TEXTS)], "b"][: page % 3],
        "size": {"w": page, "h": 0.5, "unit": "cm"},
    }
    if page % 7:
        row["note"] = None if page % 2 else TEXTS[page % 11]
    if page > pages // 2:
        row["rating"] = 4.5 - page % 3
    if page > pages * 4 // 5:
        row["colour"] = {"name": "grün", "hex": f"{page:06x}"}
    return row


def _review(page: int, number: int) -> Row:
    return {
        "kind": "review",
        "id": f"review-{page}-{number}",
        "stars": page % 6,
        "text": TEXTS[(page + number) % len(TEXTS)],
        "at": f"2031-05-{page % 28 + 1:02}T12:00:{number:02}Z",
        "helpful": page if page % 2 else None,
        "tags": [str(tag) for tag in range(number)],
    }


def changing_rows_of(page: int, pages: int) -> list[Row]:
    """… with fields whose values are of another type on every page, and long texts that do not compress."""
    values: tuple[object, ...] = (
        None,
        page,
        page + 0.5,
        f"no {page}",
        True,
        [page],
        {"n": page},
        [{"n": [None]}],
    )
    text = random.Random(page).randbytes(15_000).hex()
    return [
        row | {"any": values[page % len(values)], "late": values[page * len(values) // pages], "long": text}
        if row["kind"] == "product"
        else row
        for row in rows_of(page, pages)
    ]


Publish = Callable[[int, int], list[Row]]  # what a page of so many publishes


def everything(pages: int, publish: Publish = rows_of) -> dict[str, Row]:
    """All rows of the site, by their id."""
    return {row["id"]: row for page in range(pages) for row in publish(page, pages)}


def links_of(page: int, pages: int) -> Iterator[int]:
    first = page * LINKS + 1
    yield from range(min(first, pages), min(first + LINKS, pages))


class Site:
    """Serves from a thread of this process while its `with` block runs. `padding` makes pages longer."""

    def __init__(self, pages: int, publish: Publish = rows_of, padding: int = 0) -> None:
        self.pages = pages
        self.publish = publish
        self.padding = "x" * padding
        self.url = ""
        self.visits = 0  # requests for pages so far
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()

    def answer(self, path: str) -> bytes:
        if not path.startswith("/page/"):
            return _response("404 Not Found", b"")
        self.visits += 1
        return _response("200 OK", self.body(int(path.removeprefix("/page/"))))

    def body(self, page: int) -> bytes:
        links = [{"page": link, "kind": kind_of(link)} for link in links_of(page, self.pages)]
        content = {"rows": self.publish(page, self.pages), "links": links, "padding": self.padding}
        return json.dumps(content).encode()


def _response(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, site: Site) -> None:
        self._site = site
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._transport.write(self._site.answer(head.split(b" ", 2)[1].decode()))
