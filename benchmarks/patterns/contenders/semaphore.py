"""Fifty permits: one attempt a URL, whatever it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.patterns.client import Client, run

PERMITS = 50


async def crawl(urls: Sequence[str], client: Client) -> None:
    permits = asyncio.Semaphore(PERMITS)

    async def fetch(url: str) -> None:
        async with permits:
            await client.slot().get(url)

    await asyncio.gather(*[fetch(url) for url in urls])


if __name__ == "__main__":
    run(crawl)
