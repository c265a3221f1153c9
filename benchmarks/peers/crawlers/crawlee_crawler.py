"""The same crawl with Crawlee.

python crawlee_crawler.py START_FILE OUTPUT CONCURRENCY follow|list memory|files

Its HTTP crawler with a parser of one's own, as its guide to HTTP crawlers shows, because its crawlers for Parsel and
BeautifulSoup cost more. In memory, rows go to OUTPUT as in the bare loops; with its default storage, which keeps the
queue in files, they go to its dataset, which is a file a row.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import ada_url
import msgspec
import uvloop
from crawlee import ConcurrencySettings
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.storage_clients import FileSystemStorageClient, MemoryStorageClient
from reading import read


async def crawl(starts: list[str], output: Path, concurrency: int, follow: bool, in_memory: bool) -> None:
    encode = msgspec.json.Encoder().encode
    crawler = HttpCrawler(
        storage_client=MemoryStorageClient() if in_memory else FileSystemStorageClient(),
        http_client=ImpitHttpClient(persist_cookies_per_session=False),
        # Not fewer when it thinks that the machine is overloaded.
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrency, desired_concurrency=concurrency, max_concurrency=concurrency
        ),
        use_session_pool=False,
        retry_on_blocked=False,
        configure_logging=False,
        status_message_logging_interval=timedelta(hours=1),
    )
    with ExitStack() as stack:
        file = stack.enter_context(output.open("wb")) if in_memory else None

        @crawler.router.default_handler
        async def handle(context: HttpCrawlingContext) -> None:
            url, status = context.request.url, context.http_response.status_code
            hrefs: list[str] = []
            if follow:
                body = await context.http_response.read()
                row, hrefs = read(url, status, body, context.request.crawl_depth)
            else:
                row = {"url": url, "status": status}
            if file is not None:
                file.write(encode(row) + b"\n")
            else:
                await context.push_data(row)
            if hrefs:
                await context.add_requests([ada_url.join_url(url, href) for href in hrefs])

        await crawler.run(starts)


if __name__ == "__main__":
    starts = Path(sys.argv[1]).read_text().split()
    arguments = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "follow", sys.argv[5] == "memory"
    uvloop.run(crawl(starts, *arguments))
