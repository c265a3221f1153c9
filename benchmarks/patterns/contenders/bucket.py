"""A hundred workers, ten a domain at most, with a token bucket and a circuit breaker for each domain and backoff.

A worker that has taken a URL waits for a place in its domain and for a token. A URL that failed, or that an open
breaker turned away, comes back later, five times at most; meanwhile it holds no worker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from time import monotonic

from msgspec import Struct

from benchmarks.patterns.client import Client, Reply, Slot, domain_of, run
from benchmarks.patterns.terms import Terms

WORKERS, PER_DOMAIN = 100, 10
RATE, BURST = 5.0, 10  # what the hosts allow
ATTEMPTS = 5
BACKOFF = 1.0  # seconds, doubled with every attempt, up to half of it taken off at random
FAILURES, COOLDOWN = 5, 60.0  # in a row, until the breaker opens; seconds until it lets one request through


class Job(Struct, frozen=True):
    url: str
    attempt: int = 1


class Domain:
    def __init__(self, terms: Terms) -> None:
        self.places = asyncio.Semaphore(PER_DOMAIN)
        self._rate, self._tokens, self._filled_at = terms.per_second(RATE), float(BURST), monotonic()
        self._cooldown = terms.seconds(COOLDOWN)
        self._failures = 0
        self._closed_until = 0.0  # for requests, which is when the breaker is open

    async def token(self) -> None:
        now = monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._filled_at) * self._rate) - 1.0
        self._filled_at = now
        if self._tokens < 0.0:
            await asyncio.sleep(-self._tokens / self._rate)

    def refused_for(self) -> float:
        """Seconds until a request may be tried; the one that may be tried first keeps the others out."""
        now = monotonic()
        if self._failures < FAILURES:
            return 0.0
        if now < self._closed_until:
            return self._closed_until - now
        self._closed_until = now + self._cooldown
        return 0.0

    def learn(self, reply: Reply) -> None:
        if not reply.failed:
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= FAILURES:
            self._closed_until = monotonic() + self._cooldown


async def crawl(urls: Sequence[str], client: Client) -> None:
    domains = {domain: Domain(client.terms) for domain in {domain_of(url) for url in urls}}
    queue: asyncio.Queue[Job] = asyncio.Queue()
    for url in urls:
        queue.put_nowait(Job(url))
    left = len(urls)
    finished = asyncio.Event()

    async def work() -> None:
        nonlocal left
        while True:
            job = await queue.get()
            delay = await attempt(job, client.slot(), domains[domain_of(job.url)])
            if delay is not None and job.attempt < ATTEMPTS:
                again = Job(job.url, job.attempt + 1)
                asyncio.get_running_loop().call_later(delay, queue.put_nowait, again)
                continue
            left -= 1
            if not left:
                finished.set()

    workers = [asyncio.create_task(work()) for _ in range(WORKERS)]
    await finished.wait()
    for worker in workers:
        worker.cancel()


async def attempt(job: Job, slot: Slot, domain: Domain) -> float | None:
    """Seconds after which the URL is to be tried again; None: it is done with."""
    async with domain.places:
        if refused := domain.refused_for():
            return refused
        await domain.token()
        reply = await slot.get(job.url)
    domain.learn(reply)
    if not reply.failed:
        return None
    backoff = slot.terms.seconds(BACKOFF * 2 ** (job.attempt - 1))
    return max(backoff * random.uniform(0.5, 1.0), reply.retry_after)


if __name__ == "__main__":
    run(crawl)
