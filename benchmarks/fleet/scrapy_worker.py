"""One process of a scrapy-redis fleet: `python -m benchmarks.fleet.scrapy_worker`, told its limits as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from scrapy import Request
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from scrapy_redis.spiders import RedisSpider

NAME = "fleet"


class FleetSpider(RedisSpider):  # type: ignore[misc]
    name = NAME

    def make_request_from_data(self, data: bytes) -> Request:
        """The default exempts start URLs from the filter of duplicates, so that they are fetched again when linked."""
        return Request(data.decode())

    def parse(self, response: Response) -> Iterator[dict[str, str] | Request]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def settings(url: str, rate: float, per_host: int, slots: int) -> dict[str, Any]:
    return {
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
