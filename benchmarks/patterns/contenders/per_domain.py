"""A queue for each domain, emptied one request after the other with a timeout that follows the domain's latency.

A hundred requests run at once in all; domains take turns. A URL that failed goes to the end of its domain's queue,
three times at most. A domain that says when to come back is left alone until then, without holding a slot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from benchmarks.patterns.client import Client, Reply, domain_of, run
from benchmarks.patterns.terms import TIMEOUT, Terms

SLOTS = 100
ATTEMPTS = 3
FIRST, SHORTEST, LONGEST = 10.0, 2.0, 30.0  # seconds


class AdaptiveTimeout:
    """Three times the moving average of the latency; doubled by every timeout."""

    def __init__(self, terms: Terms) -> None:
        self._shortest, self._longest = terms.seconds(SHORTEST), terms.seconds(LONGEST)
        self._average: float | None = None
        self.seconds = terms.seconds(FIRST)

    def learn(self, reply: Reply) -> None:
        if reply.outcome == TIMEOUT:
            self.seconds = min(self._longest, self.seconds * 2)
        elif reply.outcome == 200:
            before = reply.elapsed if self._average is None else self._average
            self._average = 0.8 * before + 0.2 * reply.elapsed
            self.seconds = min(self._longest, max(self._shortest, 3 * self._average))


async def crawl(urls: Sequence[str], client: Client) -> None:
    slots = asyncio.Semaphore(SLOTS)
    queues: dict[str, deque[tuple[str, int]]] = {}
    for url in urls:
        queues.setdefault(domain_of(url), deque()).append((url, 1))

    async def empty(queue: deque[tuple[str, int]]) -> None:
        timeout = AdaptiveTimeout(client.terms)
        while queue:
            url, attempt = queue.popleft()
            async with slots:
                reply = await client.slot().get(url, timeout.seconds)
            timeout.learn(reply)
            if reply.failed and attempt < ATTEMPTS:
                queue.append((url, attempt + 1))
            if reply.retry_after:
                await asyncio.sleep(reply.retry_after)

    await asyncio.gather(*[empty(queue) for queue in queues.values()])


if __name__ == "__main__":
    run(crawl)
