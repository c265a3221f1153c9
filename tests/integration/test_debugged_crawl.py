"""While the event loop stands still in a debugger: leases are renewed, and pages in flight do not fail."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import shoal
from shoal import Page, Spider
from shoal.frontier import for_other_thread, open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Claim, JobSpec
from shoal.model import Task
from shoal.spider import debugging
from shoal.testing.servers import ValkeyServer

TIMEOUT = 5.0  # of a request: a busy machine takes seconds


@pytest.mark.parametrize("home", ["file", "memory", "valkey"])
async def test_another_thread_renews_leases(
    home: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = {"file": str(tmp_path / "shoal.db"), "memory": ":memory:"}.get(home)
    if store is None:
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        store = str(valkey.url)
    async with open_frontier(store) as frontier:
        await frontier.open_job(JobSpec("job"))
        await frontier.add("job", [Task("http://a.test/", job="job", host="a.test", fingerprint=1)])
        [lease] = (await frontier.claim(Claim("w", ["job"], {"normal": 1}, 1, 10.0))).leases
        thread = threading.Thread(target=lambda: asyncio.run(renew(frontier)))
        thread.start()
        thread.join(30)  # this loop stands still
        assert not thread.is_alive()
        found = await frontier.find("job", lease.task)
        assert found is not None
        assert found.deadline > lease.deadline + 900
        await frontier.release([lease])


async def renew(frontier: Frontier) -> None:
    async with for_other_thread(frontier) as beside:
        assert await beside.extend("w", 1000.0) == 1


class Site(ThreadingHTTPServer):
    """The first answer of /slow does not come before it is allowed to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: Counter[str] = Counter()
        self.allowed = threading.Event()


class Answer(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        if self.path == "/slow" and self.server.asked[self.path] == 1:
            self.server.allowed.wait(30)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        yield site
        site.allowed.set()
        site.shutdown()
        thread.join()


async def test_pages_in_flight_go_back_and_do_not_time_out(site: Site) -> None:
    root = f"http://127.0.0.1:{site.server_port}"
    spider = Spider("s", start=[f"{root}/slow", root], rate=0, per_host=4, robots=False, trust_start=True)
    at_once = []

    @spider.handler
    async def page(page: Page) -> AsyncIterator[object]:
        if page.url.endswith("/"):
            while not site.asked["/slow"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            with debugging.prompting():
                time.sleep(TIMEOUT + 1)  # noqa: ASYNC251
            site.allowed.set()
            yield from_here(page)
        else:
            at_once.append(debugging.is_active())
            yield from_here(page)

    found = await shoal.crawl(spider, total_timeout=TIMEOUT, max_attempts=1)
    assert sorted(item["url"] for item in found) == [f"{root}/", f"{root}/slow"]
    assert site.asked["/slow"] == 2
    assert found.view.job.counters.retried == found.view.job.counters.dead == 0
    assert at_once == [True]


def from_here(page: Page) -> dict[str, str]:
    return {"url": page.url}
