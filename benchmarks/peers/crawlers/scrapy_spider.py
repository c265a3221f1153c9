"""The same crawl as a plain Scrapy spider, run with `scrapy runspider`. Settings are given on the command line.

`response.follow_all` on the hrefs, because LinkExtractor costs more and finds the same links here.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.http import Request, TextResponse


class BenchmarkSpider(scrapy.Spider):
    name = "benchmark"

    def __init__(self, first: str, mode: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._first = Path(first).read_text().split()
        self._callback = self.parse if mode == "follow" else self.parse_of_list

    async def start(self) -> AsyncIterator[Request]:
        # Not start_urls: those bypass the duplicate filter, and the first page would be crawled twice.
        for url in self._first:
            yield Request(url, self._callback)

    def parse(self, response: TextResponse) -> Iterator[dict[str, Any] | Request]:  # type: ignore[override]
        hrefs = response.css("a::attr(href)").getall()
        yield {
            "url": response.url,
            "status": response.status,
            "title": response.css("title::text").get(),
            "description": response.css("meta[name=description]::attr(content)").get(),
            "canonical": response.css("link[rel=canonical]::attr(href)").get(),
            "language": response.css("html::attr(lang)").get(),
            "text_length": len(response.xpath("string(//body)").get() or ""),
            "links": len(hrefs),
            "fetched_at": time.time(),
            "depth": response.meta["depth"],
        }
        yield from response.follow_all(hrefs)

    def parse_of_list(self, response: TextResponse) -> dict[str, Any]:
        return {"url": response.url, "status": response.status}
