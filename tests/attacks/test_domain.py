"""A wildcard in the DNS: one server with as many names as its pages link to, each a host with a limit of its own.

The names are resolved by a proxy, which is the server itself, so that no name server is needed. It is also asked for
the robots.txt of the honest hosts, and knows none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from attacks.stage import NOT_FOUND, Answer, Stage, Villain, html
from lateness import Lateness

NAMES = 30
DOMAIN_RATE, PER_DOMAIN = 20.0, 3
TAKES = 0.1  # seconds an answer takes

SPIDER = """
from shoal import Request, Spider

def start():
    yield Request("http://n0.wild.example/", handler="wild")
    yield from {honest!r}

spider = Spider("beside", start=start, any_host=True, proxies={{"wild": ["{proxy}"]}}, pool="wild",
                domain_rate={rate}, per_domain={places})

@spider.handler(pool="direct")
def honest(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a", honest)

@spider.handler
def wild(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a", wild)
"""


class Wildcard(Villain):
    """Answers for every name of a domain, and counts what comes."""

    def __init__(self) -> None:
        super().__init__({})
        self.times: list[float] = []
        self.most_at_once = self._at_once = 0
        self.answers = _AnyName(self)

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.times.append(time.monotonic())
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        yield
        self._at_once -= 1


class _AnyName(dict[str, Answer]):
    def __init__(self, server: Wildcard) -> None:
        super().__init__()
        self._server = server

    def get(self, url: str, _: object = None) -> Answer:  # type: ignore[override]
        if "wild.example" not in url:
            return NOT_FOUND
        links = "".join(f'<a href="http://n{n}.wild.example/">x</a>' for n in range(NAMES))
        page = html(links.encode()) if urlsplit(url).path == "/" else NOT_FOUND

        async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
            with self._server.counted():
                await asyncio.sleep(TAKES)
            writer.write(page)
            await writer.drain()

        return answer


def test_names_of_one_server_share_a_limit(stage: Stage, twice: float) -> None:
    with Wildcard() as server:
        proxy = f"http://{server.addresses[0]}:{server.port}"
        spider = stage.desk.folder / "beside.py"
        spider.write_text(
            SPIDER.format(proxy=proxy, honest=stage.web.start_urls, rate=DOMAIN_RATE, places=PER_DOMAIN)
        )
        with Lateness() as late:
            result = stage.crawl(str(spider))
    assert result.code == 0, result.err
    stage.check_honest(result, at_most=twice)
    assert {f"http://n{n}.wild.example/" for n in range(NAMES)} <= set(result.rows)
    assert len(server.times) == 2 * NAMES  # robots.txt and a page of each
    assert server.most_at_once <= PER_DOMAIN
    seconds = server.times[-1] - server.times[0]
    # The first may have been seen late, and the last at once.
    assert (len(server.times) - 1) / (seconds + late.seconds) <= DOMAIN_RATE * 1.1
