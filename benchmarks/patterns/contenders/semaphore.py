"""Fifty permits: three attempts a URL, one right after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.patterns.client import Client, run

PERMITS = 50
ATTEMPTS = 3


async def crawl(urls: Sequence[str], client: Client) -> None:
    permits = asyncio.Semaphore(PERMITS)

    async def fetch(url: str) -> None:
        async with permits:
            slot = client.slot()
            for _ in range(ATTEMPTS):
                if not (await slot.get(url)).failed:
                    break

    await asyncio.gather(*[fetch(url) for url in urls])


if __name__ == "__main__":
    run(crawl)
