"""The floor: fetch, parse, write a row, follow links, and keep nothing that would survive a crash.

python bare_aiohttp.py START_FILE OUTPUT CONCURRENCY follow|list
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import ada_url
import aiohttp
import msgspec
import uvloop
from reading import read


async def crawl(starts: Sequence[str], output: IO[bytes], concurrency: int, follow: bool) -> None:
    seen = set(starts)
    queue: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    for start in starts:
        queue.put_nowait((start, 0))
    encode = msgspec.json.Encoder().encode

    async def work(session: aiohttp.ClientSession) -> None:
        while True:
            url, depth = await queue.get()
            async with session.get(url) as response:
                body = await response.read()
            if follow:
                row, hrefs = read(url, response.status, body, depth)
                output.write(encode(row) + b"\n")
                for href in hrefs:
                    link = ada_url.join_url(url, href)
                    if link not in seen:
                        seen.add(link)
                        queue.put_nowait((link, depth + 1))
            else:
                output.write(encode({"url": url, "status": response.status}) + b"\n")
            queue.task_done()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        workers = [asyncio.create_task(work(session)) for _ in range(concurrency)]
        ended = asyncio.create_task(queue.join())
        done, _ = await asyncio.wait([ended, *workers], return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, *workers):
            task.cancel()
        for task in done:
            task.result()


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as file:
        starts = Path(sys.argv[1]).read_text().split()
        uvloop.run(crawl(starts, file, int(sys.argv[3]), sys.argv[4] == "follow"))
