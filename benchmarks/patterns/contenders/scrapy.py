"""Scrapy with AutoThrottle, a hundred requests at once, and otherwise its defaults: two retries, eight a domain.

Its times are scaled like everybody's. A slot is one of the hundred; a request that waits in its domain's queue for
AutoThrottle's delay holds one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response

from benchmarks.patterns.terms import ROWS, TIMEOUT, Attempt, AttemptLog, Terms, read_terms, read_urls

SLOTS = 100
START_DELAY, MAX_DELAY = 5.0, 60.0  # AutoThrottle's defaults, in seconds


class ListSpider(Spider):
    name = "list"

    async def start(self) -> AsyncIterator[Request]:
        for url in read_urls():
            yield Request(url)

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}


class NotingHandler(HTTP11DownloadHandler):
    """Scrapy's own, noting every request."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._log = AttemptLog()
        crawler.signals.connect(self._slot_taken, signals.request_reached_downloader)

    def _slot_taken(self, request: Request) -> None:
        request.meta["slot_taken"] = monotonic()

    async def download_request(self, request: Request) -> Response:
        sent = monotonic()
        outcome: int | str = "error"
        try:
            response = await super().download_request(request)
            outcome = response.status
            return response
        except DownloadTimeoutError:
            outcome = TIMEOUT
            raise
        finally:
            waited = sent - request.meta["slot_taken"]
            self._log.write(Attempt(request.url, waited, sent, monotonic(), outcome))

    async def close(self) -> None:
        self._log.close()
        await super().close()


def settings(terms: Terms) -> dict[str, Any]:
    return {
        "CONCURRENT_REQUESTS": SLOTS,
        "DOWNLOAD_TIMEOUT": terms.seconds(terms.timeout),
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": terms.seconds(START_DELAY),
        "AUTOTHROTTLE_MAX_DELAY": terms.seconds(MAX_DELAY),
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_HANDLERS": {"http": NotingHandler},
        "FEEDS": {str(ROWS): {"format": "jsonlines"}},
        "LOG_LEVEL": "CRITICAL",  # every URL given up is an error otherwise
        "TELNETCONSOLE_ENABLED": False,
    }


if __name__ == "__main__":
    process = CrawlerProcess(settings(read_terms()))
    process.crawl(ListSpider)
    process.start()
