"""Downloaded files in an object store: obstore, with a server that speaks S3 as far as needed, and with a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import web

import shoal
from shoal import Page, Spider
from shoal.errors import SettingsError, SinkError

pytest.importorskip("obstore")
DATA = bytes(range(256)) * 1000


class S3:
    """PUT and list, of one bucket."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.url = ""
        self.refuses = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/page"):
            return web.Response(text="page")
        if request.path.startswith("/file"):
            return web.Response(body=DATA, headers={"Content-Disposition": "attachment; filename=ä.bin"})
        if self.refuses:
            return web.Response(status=403)
        if request.method == "PUT":
            self.objects[request.path] = await request.read()
            return web.Response(headers={"ETag": '"1"'})
        assert "list-type=2" in request.query_string
        prefix = request.query["prefix"]
        found = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(data)}</Size><ETag>1</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for path, data in self.objects.items()
            if (key := path.removeprefix("/bucket/")).startswith(prefix)
        )
        text = (
            f"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        )
        return web.Response(text=text, content_type="application/xml")


@pytest.fixture
async def s3(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3]:
    s3 = S3()
    runner = web.ServerRunner(web.Server(s3.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    s3.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    environment = {"ENDPOINT_URL": s3.url, "ALLOW_HTTP": "true", "REGION": "here"}
    environment |= {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
    for name, value in environment.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    yield s3
    await runner.cleanup()


def spider_for(s3: S3, tmp_path: Path, files: str) -> Spider:
    spider = Spider("s", [f"{s3.url}/page/{n}" for n in range(3)], rate=0, robots=False, files=files)

    @spider.handler
    async def page(page: Page) -> object:
        number = page.url[-1]
        return await page.download(f"/file/{number}", to="own/2.bin" if number == "2" else "")

    return spider


@pytest.mark.parametrize("kind", ["s3", "folder"])
async def test_files_go_to_an_object_store(s3: S3, tmp_path: Path, kind: str) -> None:
    target = "s3://bucket/files" if kind == "s3" else f"file://{tmp_path}/target"
    (tmp_path / "target").mkdir()
    spider = spider_for(s3, tmp_path, target)
    rows = list(await shoal.crawl(spider, output=tmp_path / "rows.jsonl", concurrency=1))
    assert rows == []
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 3
    folder = [line for line in lines if "own/2.bin" not in line]
    assert len({line.partition('"path":')[2].partition(",")[0] for line in folder}) == 1  # stored once
    if kind == "s3":
        assert sorted(s3.objects.values()) == [DATA, DATA]
        assert "/bucket/files/own/2.bin" in s3.objects
        assert any(path.endswith((quote("ä.bin"), "ä.bin")) for path in s3.objects)
    else:
        assert [one.read_bytes() for one in _files(tmp_path / "target")] == [DATA, DATA]
    assert list((tmp_path / "files").rglob("*")) == []  # no part is left


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


async def test_a_store_that_refuses_ends_the_crawl_and_loses_nothing(s3: S3, tmp_path: Path) -> None:
    s3.refuses = True
    spider = spider_for(s3, tmp_path, "s3://bucket/files")
    store, output = tmp_path / "s.db", tmp_path / "rows.jsonl"
    with pytest.raises(SinkError, match="cannot write to s3://bucket/files") as told:
        await shoal.crawl(spider, store=store, output=output)
    assert "secret" not in str(told.value)
    s3.refuses = False
    await shoal.crawl(spider, store=store, output=output)
    assert len(output.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("files", "said"), [("s3://me:secret@bucket", "environment"), ("ftp://x/y", "cannot be used")]
)
async def test_a_bad_address_is_told_at_once(s3: S3, tmp_path: Path, files: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as told:
        await shoal.crawl(spider_for(s3, tmp_path, files))
    assert "secret" not in str(told.value)
