"""A queue and fifty workers. A worker tries a URL three times, and sleeps in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.patterns.client import Client, run

WORKERS = 50
ATTEMPTS = 3
BACKOFF = 1.0  # seconds before the second attempt, doubled before the third


async def crawl(urls: Sequence[str], client: Client) -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()
    for url in urls:
        queue.put_nowait(url)

    async def work() -> None:
        while not queue.empty():
            url = queue.get_nowait()
            slot = client.slot()
            for attempt in range(ATTEMPTS):
                reply = await slot.get(url)
                if not reply.failed:
                    break
                if attempt + 1 < ATTEMPTS:
                    backoff = client.terms.seconds(BACKOFF * 2**attempt)
                    await asyncio.sleep(max(backoff, reply.retry_after))

    await asyncio.gather(*[work() for _ in range(WORKERS)])


if __name__ == "__main__":
    run(crawl)
