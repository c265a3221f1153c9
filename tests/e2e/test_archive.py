"""Crawls that keep what they fetch, read by warcio."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

import shoal
from shoal import Page, Spider
from shoal.archive.index import Index, rebuild
from shoal.errors import SettingsError
from shoal.sink.file_sink import FileSink
from shoal.sink.jsonl import MemoryJournal

BODY = "<h1>the same</h1>" * 100


class Record(NamedTuple):
    kind: str
    path: str
    headers: Any
    http: Any
    body: bytes


@asynccontextmanager
async def a_site() -> AsyncIterator[str]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private")
        if path == "/moved":
            return web.Response(status=302, headers={"Location": "/1"})
        if path == "/gone":
            return web.Response(status=404, text="gone")
        if path == "/busy":
            return web.Response(status=503, text="busy")
        if path == "/packed":
            packed = gzip.compress(b"<h1>unpacked</h1>")
            headers = {"Content-Encoding": "gzip", "Content-Type": "text/html", "Set-Cookie": "sid=s3cret"}
            return web.Response(body=packed, headers=headers)
        if path.startswith("/same"):
            return web.Response(text=BODY, content_type="text/html")
        return web.Response(text=f"<h1>{path}</h1>", content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def records(folder: Path) -> list[Record]:
    """All records but those about the files, in the order of the files. The digests are right."""
    found = []
    checker = Checker(type("Args", (), {"verbose": False, "inputs": ()}))
    for path in sorted(folder.glob("*.warc.gz")):
        checker.process_one(str(path))
        with path.open("rb") as file:
            for one in ArchiveIterator(file):
                if one.rec_type != "warcinfo":
                    url = one.rec_headers.get_header("WARC-Target-URI")
                    where = "/" + url.split("/", 3)[3]
                    body = one.content_stream().read()
                    found.append(Record(one.rec_type, where, one.rec_headers, one.http_headers, body))
    assert checker.exit_value == 0
    return found


def answers(folder: Path) -> dict[str, Record]:
    found = [one for one in records(folder) if one.kind in ("response", "revisit")]
    assert max(Counter(one.path for one in found).values()) == 1
    return {one.path: one for one in found}


def a_spider(site: str, *paths: str, **settings: Any) -> Spider:
    given = {"rate": 0, "retry_base": 0.01, "max_attempts": 2, **settings}
    spider = Spider("shop", start=[site + path for path in paths], allow_network=["127.0.0.0/8"], **given)

    @spider.handler
    async def parse(page: Page) -> Any:
        if page.url.endswith("/1"):
            inner = await page.fetch("/inner")
            yield {"inner": inner.text("h1")}
            yield page.follow("/2", meta={"from": [1]}, handler="second")
        yield {"title": page.text("h1")}

    @spider.handler
    def second(page: Page) -> Any:
        yield {"title": page.text("h1")}

    return spider


async def test_what_is_archived(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    async with a_site() as site:
        spider = a_spider(
            site, "/moved", "/gone", "/busy", "/packed", "/private", row_meta=True, archive=str(folder)
        )
        results = await shoal.crawl(spider)
    found = answers(folder)
    # robots.txt, the redirect, its target, a request inside a handler, a link, dead letters; /busy once.
    assert set(found) == {"/robots.txt", "/moved", "/1", "/inner", "/2", "/gone", "/busy", "/packed"}
    assert {path: one.http.get_statuscode() for path, one in found.items()} == {
        **dict.fromkeys(found, "200"),
        "/moved": "302",
        "/gone": "404",
        "/busy": "503",
    }
    packed = found["/packed"]
    assert packed.body == b"<h1>unpacked</h1>"
    assert packed.http.get_header("X-Crawler-Content-Encoding") == "gzip"
    assert packed.http.get_header("Set-Cookie") == "sid=***"
    about = {one.path: json.loads(one.body) for one in records(folder) if one.kind == "metadata"}
    assert about["/2"]["meta"] == {"from": [1]}
    assert {path: one.get("handler", "") for path, one in about.items()} == {
        **dict.fromkeys(found, "parse"),
        "/2": "second",
        "/robots.txt": "",
    }
    assert {path for path, one in about.items() if one.get("page")} == {"/1", "/2", "/packed"}
    assert about["/inner"]["inner"]
    assert about["/1"]["asked"].endswith("/moved")
    # Rows name their record, and records are no rows.
    ids = {path: one.headers.get_header("WARC-Record-ID") for path, one in found.items()}
    assert {row["_record"] for row in results} == {
        ids[path].removeprefix("<urn:uuid:").removesuffix(">") for path in ("/1", "/2", "/packed")
    }
    assert results.view.job.counters.items == len(results) == 4
    index = Index(folder)
    before = list(index.all())
    index.close()
    assert {place.entry.url.removeprefix(site) for place in before} == set(found)
    rebuild(folder)
    index = Index(folder)
    assert list(index.all()) == before
    index.close()
    assert [path.name for path in folder.iterdir() if "commits" in path.name] == []


async def test_a_body_that_is_there_already_is_not_kept_again(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    async with a_site() as site:
        for path in ("/same1", "/same2"):
            await shoal.crawl(a_spider(site, path, robots=False), archive=str(folder))
    first, second = answers(folder).values()
    assert (first.kind, second.kind) == ("response", "revisit")
    assert second.headers.get_header("WARC-Refers-To") == first.headers.get_header("WARC-Record-ID")
    assert second.headers.get_header("WARC-Refers-To-Target-URI") == f"{site}/same1"
    assert second.body == b""


async def test_a_job_goes_on_with_its_archive(tmp_path: Path) -> None:
    folder, store, rows = tmp_path / "pages", tmp_path / "store.db", tmp_path / "rows.jsonl"
    given = {"store": store, "output": rows, "archive": str(folder), "robots": False}
    async with a_site() as site:
        await shoal.crawl(a_spider(site, "/a", "/b", max_pages=1), **given)
        await shoal.crawl(a_spider(site, "/a", "/b", max_pages=10), **given)
        with pytest.raises(
            shoal.errors.ShoalError, match=r"was begun with an archive in .*pages: name it again"
        ):
            await shoal.crawl(a_spider(site, "/a", "/b"), **(given | {"archive": ""}))
        await shoal.crawl(a_spider(site, "/c"), **(given | {"fresh": True}))
    assert sorted(answers(folder)) == ["/a", "/b", "/c"]
    assert len(list(folder.glob("*.warc.gz"))) == 2
    assert rows.read_text().count("\n") == 1


async def test_settings_that_cannot_be(tmp_path: Path) -> None:
    sink = FileSink(MemoryJournal())
    spider = a_spider("http://127.0.0.1:1", "/")
    with pytest.raises(SettingsError, match="archive: not with a sink of your own"):
        await shoal.crawl(spider, output=sink, archive="pages")
    (tmp_path / "file").write_text("")
    with pytest.raises(shoal.errors.UsageError, match=r"that is a file; name a folder"):
        await shoal.crawl(spider, archive=str(tmp_path / "file"))
