"""A whole crawl whose rows go to an object store that fails meanwhile; a real server that speaks S3."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web

import shoal
from shoal import Page, Spider
from shoal.errors import OutputTaken, UsageError
from shoal.sink.objects import outage
from shoal.sink.objects.object_parts import MANIFEST, read_name
from shoal.sink.objects.object_store import ObjectStore
from shoal.testing.servers.s3 import S3Front, S3Server

pytest.importorskip("obstore")
PAGES = 30
URL = "s3://bucket/site/rows.jsonl"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def front(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3Front]:
    server.forget()
    server.make_bucket("bucket")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outage, "_FIRST", 0.01)
    with S3Front(server) as front:
        for name, value in server.environment_for(front.url).items():
            monkeypatch.setenv(name, value)
        yield front


@pytest.fixture
async def spider() -> AsyncIterator[Spider]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=request.path)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site = f"http://127.0.0.1:{runner.addresses[0][1]}"
    spider = Spider("site", [f"{site}/{n}" for n in range(PAGES)], rate=0, robots=False)

    @spider.handler
    def page(page: Page) -> Iterator[object]:
        yield {"n": int(page.url.rpartition("/")[2])}

    yield spider
    await runner.cleanup()


def rows() -> list[int]:
    store = ObjectStore(URL)
    parts = [part["name"] for part in json.loads(store.get(MANIFEST) or b"")["parts"]]
    assert sorted(parts) == sorted(key for key in store.sizes() if read_name(key))
    return sorted(json.loads(line)["n"] for part in parts for line in (store.get(part) or b"").splitlines())


async def crawl(spider: Spider, output: str = URL, **options: object) -> None:
    await shoal.crawl(spider, store="queue.db", output=output, allow_network=["127.0.0.0/8"], **options)  # type: ignore[arg-type]


async def test_a_store_that_is_away_at_the_end_gets_the_rows_when_it_is_back(
    front: S3Front, spider: Spider, caplog: pytest.LogCaptureFixture
) -> None:
    @spider.on_item
    def break_it(item: object, page: Page) -> object:
        if not front.refused:
            front.status = 503
        return item

    front.mended_after = 9
    await crawl(spider)
    assert rows() == list(range(PAGES))
    assert "is away (503 Service Unavailable (SlowDown)); results wait for it" in caplog.text
    assert "is back after" in caplog.text
    assert "not-shown" not in caplog.text


async def test_what_can_be_known_at_the_start_is_told_at_once(front: S3Front, spider: Spider) -> None:
    with pytest.raises(UsageError, match=r"^-o s3://none/rows.jsonl: there is no such bucket: 404 Not Found"):
        await crawl(spider, "s3://none/rows.jsonl")
    front.status, front.code = 403, "InvalidAccessKeyId"
    with pytest.raises(
        UsageError, match=r"^-o s3://bucket/site/rows.jsonl: the keys in the environment do not"
    ):
        await crawl(spider)
    front.status = 0
    await crawl(spider)
    assert rows() == list(range(PAGES))


async def test_another_job_is_refused_and_a_fresh_one_replaces_the_rows(
    front: S3Front, spider: Spider
) -> None:
    await crawl(spider)
    with pytest.raises(OutputTaken, match="holds 1 part of another job, 'site'"):
        await crawl(spider, job="other")
    await crawl(spider, fresh=True, max_pages=5)
    assert len(rows()) == 5
