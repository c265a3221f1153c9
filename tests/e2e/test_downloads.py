"""Files: `await page.download(…)` and `files=`, with a server that cuts, changes and lies."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from aiohttp import web

import shoal
from shoal import FetchFailed, Page, Spider
from shoal.errors import SinkError, SpiderError
from shoal.fetch import body_reader
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter

DATA = Random(1).randbytes(300_000)
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Site:
    """By path, what answers; and what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str | None]] = []  # path and Range
        self.url = ""

    @property
    def hits(self) -> Counter[str]:
        return Counter(path for path, _ in self.asked)

    def ranges(self, path: str) -> list[str | None]:
        return [asked for its, asked in self.asked if its == path]

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.path, request.headers.get("Range")))
        if request.path in self.answers:
            return await self.answers[request.path](request)
        return web.Response(text="page", content_type="text/html")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


def plain(data: bytes, **headers: str) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(
            body=data,
            headers={
                "Content-Type": "application/pdf",
                **{k.replace("_", "-"): v for k, v in headers.items()},
            },
        )

    return answer


def ranged(data: bytes, *, cut: list[int], etag: str = '"v1"') -> Answer:
    """Answers ranges. Each of the first answers breaks off after so many bytes."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked, status, start = request.headers.get("Range"), 200, 0
        headers = {"ETag": etag, "Content-Type": "application/pdf", "Accept-Ranges": "bytes"}
        if asked and request.headers.get("If-Range") == etag:
            status, start = 206, int(asked.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = len(data) - start
        await response.prepare(request)
        if cut:
            await response.write(data[start : start + cut.pop(0)])
            assert request.transport is not None
            request.transport.close()  # sends what is written first
        else:
            await response.write(data[start:])
            await response.write_eof()
        return response

    return answer


def spider_for(site: Site, folder: Path, *paths: str, **settings: object) -> Spider:
    usual: dict[str, object] = {
        "rate": 0,
        "robots": False,
        "max_attempts": 3,
        "retry_base": 0.01,
        "policies": [],
    }
    usual["files"] = str(folder / "files")
    return Spider("s", [site.url + path for path in paths or ("/start",)], **(usual | settings))


def downloading(spider: Spider, *urls: str, **options: str) -> None:
    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        for url in urls:
            try:
                yield await page.download(url, **options)  # type: ignore[arg-type]
            except FetchFailed as error:
                yield {"url": url, "error": error.kind, "detail": error.detail}


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def left(folder: Path) -> list[Path]:
    """What is in the folder besides whole files."""
    return [path for path in folder.rglob("*") if ".shoal" in path.parts]


async def test_files_are_stored_whole_and_once(site: Site, tmp_path: Path) -> None:
    site.answers = {
        "/a.pdf": plain(DATA, Content_Disposition='attachment; filename="manual 1.pdf"'),
        "/copy": plain(DATA),
        "/other.pdf": plain(DATA[::-1], Content_Disposition='inline; filename="../../manual 1.pdf"'),
    }
    spider = spider_for(site, tmp_path, "/1", "/2")
    downloading(spider, "/a.pdf", "/copy", "/other.pdf", "/a.pdf")
    results = await shoal.crawl(spider, per_host=2)
    rows = list(results)
    assert len(rows) == 8
    first, copy, other, again = rows[:4]
    assert again == first
    assert first["url"] == f"{site.url}/a.pdf"
    assert (first["name"], first["size"], first["type"]) == ("manual 1.pdf", len(DATA), "application/pdf")
    assert first["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert read(first["path"]) == DATA
    assert copy["path"] == first["path"]  # the same bytes
    assert (other["name"], read(other["path"])) == ("manual 1.pdf", DATA[::-1])
    assert other["path"] != first["path"]
    assert all(Path(row["path"]).is_relative_to(tmp_path / "files") for row in rows)
    assert site.hits == {"/1": 1, "/2": 1, "/a.pdf": 1, "/copy": 1, "/other.pdf": 1}
    assert len([path for path in (tmp_path / "files").rglob("*") if path.is_file()]) == 2
    assert left(tmp_path) == []
    report = results.view.report
    assert (report.files, report.file_bytes) == (3, 3 * len(DATA))


async def test_a_cut_connection_is_gone_on_with(site: Site, tmp_path: Path) -> None:
    site.answers["/f"] = ranged(DATA, cut=[100_000, 50_000])
    spider = spider_for(site, tmp_path)
    downloading(spider, "/f", name="own.bin")
    [row] = await shoal.crawl(spider)
    assert (row["name"], read(row["path"])) == ("own.bin", DATA)
    first, second, third = site.ranges("/f")
    assert first is None
    assert second is not None
    assert third is not None
    begun = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in (second, third)]
    assert 0 < begun[0] <= 100_000 < begun[1] <= 150_000
    assert left(tmp_path) == []


async def test_a_later_attempt_of_the_page_goes_on(site: Site, tmp_path: Path) -> None:
    site.answers["/f"] = ranged(DATA, cut=[100_000])
    spider = spider_for(site, tmp_path)

    @spider.handler
    async def start(page: Page) -> object:
        return await page.download("/f", max_attempts=1)

    [row] = await shoal.crawl(spider)
    assert row["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert site.hits["/start"] == 2
    assert site.ranges("/f")[1] is not None


async def test_a_file_that_changed_is_fetched_anew(site: Site, tmp_path: Path) -> None:
    before = ranged(DATA, cut=[100_000])
    after = ranged(DATA[::-1], cut=[], etag='"v2"')

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await (before if site.hits["/f"] == 1 else after)(request)

    site.answers["/f"] = answer
    spider = spider_for(site, tmp_path)
    downloading(spider, "/f")
    [row] = await shoal.crawl(spider)
    assert read(row["path"]) == DATA[::-1]
    assert site.ranges("/f")[1] is not None


@pytest.mark.parametrize("odd", ["416", "wrong start", "no range", "other etag"])
async def test_an_odd_answer_to_a_range_starts_anew(site: Site, tmp_path: Path, odd: str) -> None:
    good = ranged(DATA, cut=[100_000])

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "Range" not in request.headers:
            return await good(request)
        headers = {"ETag": '"v1"'}
        if odd == "416":
            return web.Response(status=416, headers={"Content-Range": f"bytes */{len(DATA)}"})
        if odd == "wrong start":
            headers["Content-Range"] = f"bytes 5-{len(DATA) - 1}/{len(DATA)}"
        if odd == "other etag":
            start = request.headers["Range"].removeprefix("bytes=").rstrip("-")
            headers = {"ETag": '"v2"', "Content-Range": f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"}
        return web.Response(status=206, body=b"x" * 1000, headers=headers)

    site.answers["/f"] = answer
    spider = spider_for(site, tmp_path)
    downloading(spider, "/f")
    [row] = await shoal.crawl(spider)
    assert read(row["path"]) == DATA
    assert [asked is not None for asked in site.ranges("/f")] == [False, True, False]


async def test_a_server_without_ranges_gets_the_whole_request_again(site: Site, tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = len(DATA)
        await response.prepare(request)
        await response.write(DATA[:100_000] if site.hits["/f"] < 3 else DATA)
        if site.hits["/f"] < 3:
            assert request.transport is not None
            request.transport.close()
        return response

    site.answers["/f"] = answer
    spider = spider_for(site, tmp_path)
    downloading(spider, "/f")
    [row] = await shoal.crawl(spider)
    assert row["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert site.ranges("/f") == [None, None, None]


async def test_what_is_never_whole_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.answers["/short"] = ranged(DATA, cut=[10_000] * 100)
    site.answers["/partial"] = lambda request: asyncio.sleep(0, web.Response(status=206, body=b"part"))
    spider = spider_for(site, tmp_path, max_attempts=2)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        with pytest.raises(FetchFailed, match="nobody asked for") as partial:
            await page.download("/partial")
        assert partial.value.kind == "truncated"
        yield await page.download("/short")

    assert list(await shoal.crawl(spider, store=str(tmp_path / "s.db"))) == []
    async with open_frontier(str(tmp_path / "s.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "truncated"
    assert left(tmp_path) == []


async def test_files_have_a_largest_size(site: Site, tmp_path: Path) -> None:
    async def chunked(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(bytes(10_000))
        return response

    bomb = gzip.compress(bytes(5_000_000))
    site.answers = {
        "/long": plain(DATA),
        "/chunked": chunked,
        "/bomb": plain(bomb, Content_Encoding="gzip"),
        "/packed": plain(gzip.compress(DATA[:50_000]), Content_Encoding="gzip"),
        "/empty": plain(b""),
    }
    spider = spider_for(site, tmp_path, max_file=100_000)
    downloading(spider, "/long", "/chunked", "/bomb", "/packed", "/empty")
    rows = list(await shoal.crawl(spider))
    assert [row.get("error") for row in rows] == ["too_large"] * 3 + [None, None]
    assert "raise max_file" in rows[0]["detail"]
    assert read(rows[3]["path"]) == DATA[:50_000]
    assert rows[4]["size"] == 0
    assert left(tmp_path) == []


async def test_a_server_that_drips_is_cut_off(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.1)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"ETag": '"1"'})
        response.content_length = 1_000_000
        await response.prepare(request)
        while request.transport is not None:  # until the other side has gone
            await response.write(b"x")
            await asyncio.sleep(0.01)
        return response

    site.answers["/f"] = answer
    spider = spider_for(site, tmp_path, min_rate=10_000)
    downloading(spider, "/f")
    [row] = await shoal.crawl(spider)
    assert row["error"] == "too_slow"
    assert site.hits["/f"] == 2
    assert left(tmp_path) == []


async def test_a_file_is_never_in_memory(site: Site, tmp_path: Path) -> None:
    size, piece = 40 << 20, bytes(1 << 16)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = size
        await response.prepare(request)
        for _ in range(size // len(piece)):
            await response.write(piece)
        return response

    site.answers["/f"] = answer
    spider = spider_for(site, tmp_path, max_body=1000)
    downloading(spider, "/f")
    tracemalloc.start()
    try:
        [row] = await shoal.crawl(spider)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert row["size"] == size
    assert peak < size / 4


async def test_a_handler_chooses_the_path(site: Site, tmp_path: Path) -> None:
    site.answers = {"/f": plain(DATA), "/g": plain(b"other")}
    spider = spider_for(site, tmp_path)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        yield await page.download("/f", to="shop/1.pdf")
        yield await page.download("/g", to="shop/1.pdf")
        for outside in ("../x", "/etc/x", "a/../../x"):
            with pytest.raises(SpiderError, match="outside"):
                await page.download("/f", to=outside)

    first, second = await shoal.crawl(spider)
    assert first["path"] == second["path"] == str(tmp_path / "files/shop/1.pdf")
    assert read(second["path"]) == b"other"


@pytest.mark.parametrize("to", ["t" * 300, "taken", "taken/1.pdf/x", "a\0b", "a\nb", "\ud800", ".shoal/x"])
async def test_a_path_that_no_file_can_have_is_the_fault_of_its_page(
    site: Site, tmp_path: Path, to: str
) -> None:
    site.answers = {"/f": plain(DATA)}
    spider = spider_for(site, tmp_path, "/bad", "/good")

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        await page.download("/f", to="taken/1.pdf")
        yield await page.download("/f", to=to if page.url.endswith("/bad") else "good.pdf")

    store = str(tmp_path / "s.db")
    [row] = await shoal.crawl(spider, store=store)
    assert read(row["path"]) == DATA
    async with open_frontier(store) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "junk"
    detail = letter.task.history[-1].detail
    assert "test_downloads.py:" in detail
    assert "page.download(to=" in detail


async def test_nothing_to_download_is_told(site: Site, tmp_path: Path) -> None:
    spider = spider_for(site, tmp_path)

    @spider.handler
    async def start(page: Page) -> object:
        return await page.download(page.attr("a.missing", "href"))  # type: ignore[arg-type]

    assert list(await shoal.crawl(spider, store=str(tmp_path / "s.db"))) == []
    async with open_frontier(str(tmp_path / "s.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert (
        "page.download takes a URL, an element or a request, not a NoneType" in letter.task.history[-1].detail
    )


@dataclass(frozen=True)
class Sheet:
    manual: object
    n: int = 1


class Leaflet(msgspec.Struct, frozen=True):
    manual: object
    n: int = 1


@attrs.frozen
class Folder:
    manual: object
    n: int = 1


class Model(pydantic.BaseModel):
    manual: object
    n: int = 1


@pytest.mark.parametrize("kind", [Sheet, Leaflet, Folder, Model])
async def test_items_of_any_kind_may_have_files(site: Site, tmp_path: Path, kind: Any) -> None:
    site.answers = {"/1.pdf": plain(b"one")}
    spider = spider_for(site, tmp_path)
    made = [kind("/1.pdf") if kind is not Model else Model(manual="/1.pdf"), kind(manual=None, n=2)]

    @spider.handler(files=["manual"])
    def start(page: Page) -> object:
        return made

    first, second = await shoal.crawl(spider)
    assert read(first["manual"]["path"]) == b"one"
    assert (first["n"], second) == (1, {"manual": None, "n": 2})
    assert made[0].manual == "/1.pdf", "the handler's own item is left alone"


async def test_fields_of_items_become_files(site: Site, tmp_path: Path) -> None:
    site.answers = {
        "/1.pdf": plain(b"one"),
        "/2.pdf": plain(b"two"),
        "/gone.pdf": lambda request: asyncio.sleep(0, web.Response(status=404)),
    }
    spider = spider_for(site, tmp_path)

    @spider.handler(files=["manual", "images"])
    def start(page: Page) -> object:
        return [{"manual": "/1.pdf", "images": ["/2.pdf", "", None, "/gone.pdf"]}, {"manual": None, "n": 1}]

    results = await shoal.crawl(spider)
    first, second = results
    assert read(first["manual"]["path"]) == b"one"
    assert read(first["images"][0]["path"]) == b"two"
    assert first["images"][1] == {"url": f"{site.url}/gone.pdf", "error": "http_404"}
    assert second == {"manual": None, "n": 1}
    assert results.view.report.cut == {"files (http_404)": 1}


async def test_a_full_disk_ends_the_crawl_and_loses_nothing(site: Site, tmp_path: Path) -> None:
    site.answers["/f"] = plain(DATA)
    (tmp_path / "files").write_text("not a folder")
    spider = spider_for(site, tmp_path)
    downloading(spider, "/f")
    with pytest.raises(SinkError, match="cannot write to"):
        await shoal.crawl(spider, store=str(tmp_path / "s.db"))
    (tmp_path / "files").unlink()
    [row] = await shoal.crawl(spider, store=str(tmp_path / "s.db"))
    assert row["size"] == len(DATA)
