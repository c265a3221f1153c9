"""The floor: fetch, parse, write a row, follow links, and keep nothing that would survive a crash.

python bare.py START_URL OUTPUT CONCURRENCY
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import IO, Any

import ada_url
import aiohttp
import msgspec
import uvloop
from selectolax.lexbor import LexborHTMLParser, LexborNode


async def crawl(start: str, output: IO[bytes], concurrency: int) -> None:
    seen = {start}
    queue: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    queue.put_nowait((start, 0))
    encode = msgspec.json.Encoder().encode

    async def work(session: aiohttp.ClientSession) -> None:
        while True:
            url, depth = await queue.get()
            async with session.get(url) as response:
                body = await response.read()
            row, hrefs = read(url, response.status, body, depth)
            output.write(encode(row) + b"\n")
            for href in hrefs:
                link = ada_url.join_url(url, href)
                if link not in seen:
                    seen.add(link)
                    queue.put_nowait((link, depth + 1))
            queue.task_done()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        workers = [asyncio.create_task(work(session)) for _ in range(concurrency)]
        await queue.join()
        for worker in workers:
            worker.cancel()


def read(url: str, status: int, body: bytes, depth: int) -> tuple[dict[str, Any], list[str]]:
    tree = LexborHTMLParser(body)
    hrefs = [href for node in tree.tags("a") if (href := node.attributes.get("href"))]
    row = {
        "url": url,
        "status": status,
        "title": text_of(tree.css_first("title")),
        "description": attribute(tree.css_first("meta[name=description]"), "content"),
        "canonical": attribute(tree.css_first("link[rel=canonical]"), "href"),
        "language": attribute(tree.root, "lang"),
        "text_length": len(text_of(tree.body)),
        "links": len(hrefs),
        "fetched_at": time.time(),
        "depth": depth,
    }
    return row, hrefs


def text_of(node: LexborNode | None) -> str:
    return node.text() if node is not None else ""


def attribute(node: LexborNode | None, name: str) -> str | None:
    return node.attributes.get(name) if node is not None else None


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as file:
        uvloop.run(crawl(sys.argv[1], file, int(sys.argv[3])))
