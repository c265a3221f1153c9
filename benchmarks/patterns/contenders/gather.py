"""Everything at once: the operating system's limit on open files is the only one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.patterns.client import Client, run


async def crawl(urls: Sequence[str], client: Client) -> None:
    async def fetch(url: str) -> None:
        await client.slot().get(url)

    await asyncio.gather(*[fetch(url) for url in urls])


if __name__ == "__main__":
    run(crawl)
