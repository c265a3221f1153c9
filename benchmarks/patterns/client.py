"""What the hand-written contenders share: an HTTP client that notes every request, and a way to run.

A contender takes a `Slot` at the moment one of its workers or permits is taken, and gives it to nobody else; so the
time until the slot sends a request, or the next one, is time in which it did nothing.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Self

import aiohttp
import msgspec
import uvloop
from yarl import URL

from benchmarks.patterns.terms import (
    NOT_SENT,
    ROWS,
    TIMEOUT,
    Attempt,
    AttemptLog,
    Terms,
    read_terms,
    read_urls,
)

_KEEP_ALIVE = 15.0  # aiohttp's default, in unscaled seconds


class Reply(msgspec.Struct, frozen=True):
    outcome: int | str
    elapsed: float
    retry_after: float = 0.0  # seconds the server asks for

    @property
    def failed(self) -> bool:
        """In a way that another attempt may mend."""
        return isinstance(self.outcome, str) or self.outcome == 429 or self.outcome >= 500


class Client:
    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._default_timeout = terms.seconds(terms.timeout)
        self._log = AttemptLog()
        self._rows = ROWS.open("wb", buffering=1 << 16)

    async def __aenter__(self) -> Self:
        keep_alive = self.terms.seconds(_KEEP_ALIVE)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=keep_alive)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._log.close()
        self._rows.close()

    def slot(self) -> Slot:
        return Slot(self)

    async def fetch(self, url: str, taken: float, timeout: float | None) -> Reply:
        sent = monotonic()
        retry_after = 0.0
        outcome: int | str
        limit = aiohttp.ClientTimeout(total=timeout or self._default_timeout)
        try:
            async with self._session.get(URL(url, encoded=True), timeout=limit) as response:
                await response.read()
                outcome = response.status
                retry_after = float(response.headers.get("Retry-After", 0.0))
        except TimeoutError:
            outcome = TIMEOUT
        except aiohttp.ClientConnectorError:
            outcome = NOT_SENT
        except aiohttp.ClientError as error:
            outcome = type(error).__name__
        ended = monotonic()
        self._log.write(Attempt(url, sent - taken, sent, ended, outcome))
        if outcome == 200:
            self._rows.write(msgspec.json.encode({"url": url}) + b"\n")
        return Reply(outcome, ended - sent, retry_after)


class Slot:
    def __init__(self, client: Client) -> None:
        self.terms = client.terms
        self._client = client
        self._idle_since = monotonic()

    async def get(self, url: str, timeout: float | None = None) -> Reply:
        reply = await self._client.fetch(url, self._idle_since, timeout)
        self._idle_since = monotonic()
        return reply


Crawl = Callable[[Sequence[str], Client], Awaitable[None]]


def run(crawl: Crawl) -> None:
    uvloop.run(_run(crawl))


async def _run(crawl: Crawl) -> None:
    async with Client(read_terms()) as client:
        crawling = asyncio.ensure_future(crawl(read_urls(), client))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, crawling.cancel)
        try:
            await crawling
        except asyncio.CancelledError:
            pass  # its time was up


def domain_of(url: str) -> str:
    return url.split("/", 3)[2]
