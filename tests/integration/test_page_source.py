"""A page for the commands of development, from a file, the cache, an archive or the site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import OutgoingRequest
from shoal.develop.page_cache import keep
from shoal.develop.page_source import Found, find_page
from shoal.errors import PageMissing, SinkError, UrlError, UsageError
from shoal.model import Response, Task
from shoal.settings import Settings
from shoal.spider.rendering import Rendered
from shoal.spider.spider import Spider
from visited_site import VisitedSite, visited_site

SETTINGS = Settings(rate=0)


@pytest.fixture(scope="module")
def the_site() -> Iterator[VisitedSite]:
    with visited_site() as site:
        yield site


@pytest.fixture
def site(the_site: VisitedSite) -> VisitedSite:
    the_site.pages = {
        "/a": "<h1>á</h1>",
        "/old": (302, {"Location": "/new"}, b""),
        "/new": (301, {"Location": "/a"}, b""),
        "/round": (302, {"Location": "/round"}, b""),
    }
    the_site.visits()
    return the_site


async def found(target: str, cache: Path | None, **options: bool) -> Found:
    return await find_page(target, spider=None, settings=SETTINGS, cache=cache, **options)


async def test_a_page_is_fetched_once(site: VisitedSite, tmp_path: Path) -> None:
    first = await found(f"{site.url}/a", tmp_path)
    second = await found(f"{site.url}/a".removeprefix("http://"), tmp_path)
    assert site.visits() == ["/a"]
    assert (first.where, second.where) == ("live", "cache")
    assert second.response.body == first.response.body == "<h1>á</h1>".encode()
    assert second.response.headers["content-type"] == "text/html; charset=utf-8"
    assert (first.response.cached, second.response.cached) == (False, True)
    assert abs(first.at - second.at) < 5
    assert (await found(f"{site.url}/a", tmp_path, refresh=True)).where == "live"
    assert (await found(f"{site.url}/a", None)).where == "live"
    assert site.visits() == ["/a", "/a"]


async def test_redirects_are_in_the_cache_too(site: VisitedSite, tmp_path: Path) -> None:
    first = await found(f"{site.url}/old", tmp_path)
    second = await found(f"{site.url}/old", tmp_path)
    assert site.visits() == ["/old", "/new", "/a"]
    assert second.where == "cache"
    assert (second.task.url, second.task.hops) == (first.task.url, first.task.hops)
    assert second.task.url == f"{site.url}/a"


async def test_errors_are_found_but_not_kept(site: VisitedSite, tmp_path: Path) -> None:
    for _ in range(2):
        error = await found(f"{site.url}/gone", tmp_path)
        assert (error.kind, error.response.status, error.where) == ("http_404", 404, "live")
    assert site.visits() == ["/gone", "/gone"]


async def test_what_has_no_answer(site: VisitedSite, tmp_path: Path) -> None:
    with pytest.raises(PageMissing, match="not in the cache"):
        await found(f"{site.url}/a", tmp_path, offline=True)
    with pytest.raises(PageMissing, match="redirect_loop"):
        await found(f"{site.url}/round", tmp_path)
    with pytest.raises(UrlError):
        await found("ftp://127.0.0.1/a", tmp_path)
    assert "/a" not in site.visits()


async def test_the_cache_cannot_be_written(site: VisitedSite, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="--no-cache"):
        await found(f"{site.url}/a", tmp_path / "file" / "pages")


async def test_hooks_of_the_spider_change_the_request(site: VisitedSite) -> None:
    spider = Spider("books", start=f"{site.url}/a")
    spider.add_handler(lambda page: None, name="book")

    @spider.before_request
    def elsewhere(request: OutgoingRequest) -> None:
        request.url = f"{site.url}/a?key=1"

    site.pages["/a?key=1"] = "signed"
    page = await find_page(f"{site.url}/a", spider=spider, settings=SETTINGS, cache=None)
    assert page.response.body == b"signed"


async def test_a_saved_page(tmp_path: Path) -> None:
    (tmp_path / "book.html").write_bytes(b"<h1>\xe1</h1>")
    note = {
        "url": "https://books.example/1",
        "status": 200,
        "headers": {"content-type": "text/html; charset=latin-1"},
    }
    bare = await found(str(tmp_path / "book.html"), None)
    (tmp_path / "book.json").write_text(json.dumps(note))
    noted = await found(f"file://{tmp_path}/book.html", None)
    assert (bare.where, bare.response.headers["Content-Type"]) == ("file", "text/html")
    assert (noted.task.url, noted.response.url) == ("https://books.example/1", "https://books.example/1")
    assert noted.response.headers["Content-Type"] == "text/html; charset=latin-1"
    assert noted.response.body == b"<h1>\xe1</h1>"
    (tmp_path / "book.json").write_text("[1]")
    with pytest.raises(UsageError, match="shoal keep"):
        await found(str(tmp_path / "book.html"), None)


async def test_pages_with_and_without_a_browser_are_kept_apart(tmp_path: Path) -> None:
    url = "https://books.example/"
    task, headers = Task(url, host="books.example"), {"Content-Type": "text/html"}
    await keep((task, Response(url, 200, headers, b"plain")), [], SETTINGS, tmp_path)
    await keep((task, Rendered(url, 200, headers, b"rendered")), [], SETTINGS, tmp_path)
    for browser, body in ((False, b"plain"), (True, b"rendered"), (False, b"plain")):
        page = await found(url, tmp_path, offline=True, browser=browser)
        assert page.response.body == body


async def test_a_record_that_cannot_be_read(
    site: VisitedSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await found(f"{site.url}/a", tmp_path)
    await found(f"{site.url}/a", tmp_path)  # it is in the index now
    damage(tmp_path)
    assert (await found(f"{site.url}/a", tmp_path)).where == "live"
    assert "cannot be read" in caplog.text


def damage(folder: Path) -> None:
    [file] = folder.glob("*.warc.gz")
    data = file.read_bytes()
    half = len(data) // 2
    file.write_bytes(data[:half] + bytes(len(data) - half))
