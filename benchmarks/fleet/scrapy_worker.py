"""One process of a scrapy-redis fleet: `python -m benchmarks.fleet.scrapy_worker`, told its limits as JSON."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import Response
from scrapy_redis.spiders import RedisSpider

NAME = "fleet"
RETRIES = 10  # of a request through proxies, as is the custom with them


class FleetSpider(RedisSpider):  # type: ignore[misc]
    name = NAME

    def make_request_from_data(self, data: bytes) -> Request:
        """The default exempts start URLs from the filter of duplicates, so that they are fetched again when linked."""
        return Request(data.decode())

    def parse(self, response: Response) -> Iterator[dict[str, str] | Request]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


class RandomProxy:
    """The usual rotation: any proxy for a request, and another one when it is tried again."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._proxies = proxies

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings.getlist("PROXIES"))

    def process_request(self, request: Request) -> None:
        request.meta["proxy"] = random.choice(self._proxies)


def settings(
    url: str, rate: float, per_host: int, slots: int, timeout: float, proxies: Sequence[str]
) -> dict[str, Any]:
    rotation = {
        "PROXIES": proxies,
        "DOWNLOADER_MIDDLEWARES": {RandomProxy: 740},  # before HttpProxyMiddleware, at 750
        "RETRY_TIMES": RETRIES,
    }
    return {
        **(rotation if proxies else {}),
        "DOWNLOAD_TIMEOUT": timeout,
        "REDIS_URL": url,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_PERSIST": True,
        # In the order of arrival, hosts take turns; the default queue sorts by URL, and one host fills every slot.
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
        "CONCURRENT_REQUESTS": slots,
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_host,
        "DOWNLOAD_DELAY": 1 / rate,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "INFO",
        "LOG_FORMAT": "%(message)s",
        "TELNETCONSOLE_ENABLED": False,
    }


if __name__ == "__main__":
    process = CrawlerProcess(settings(**json.loads(sys.argv[1])))
    process.crawl(FleetSpider)
    process.start()
