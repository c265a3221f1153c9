"""`shoal.testing.page` and `shoal.testing.run`: tests of spiders without a network."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import shoal
import shoal.testing
from shoal import Page, Request, Retry, Spider
from shoal.errors import CrawlFailed, SettingsError, UrlError, UsageError
from shoal.testing import page

LIST = (
    """<a class=product href=/lamp>Lamp</a> <a class=product href="/chair">Chair</a> <a href=/gone>gone</a>"""
)
PAGES = {
    "https://shop.example": LIST,
    "https://shop.example/lamp": "<h1>Lamp</h1>",
    "https://shop.example/chair": b"<h1>Chair</h1>",
}


@pytest.fixture(autouse=True)
def nothing_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection is made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def spider() -> Spider:
    spider = Spider("shop", start="https://shop.example/", rate=0.001)

    @spider.handler
    def listing(page: Page) -> Any:
        yield from page.follow_all("a.product", product)

    @spider.handler(key="name")
    def product(page: Page) -> Any:
        yield {"name": page.text("h1")}

    return spider


# -- page


def test_a_page_of_html() -> None:
    made = page("<h1>L\u00e4mp</h1><a href=/next>next</a>", "https://shop.example/lamp", meta={"shelf": 3})
    assert (made.text("h1"), made.status, made.meta) == ("Lämp", 200, {"shelf": 3})
    assert made.links() == ["https://shop.example/next"]
    assert made.task.host == "shop.example"


@pytest.mark.parametrize(
    "content", [{"price": 3}, '{"price": 3}', b'{"price": 3}', ' \n{"price": 3}'], ids=repr
)
def test_a_page_of_json(content: Any) -> None:
    assert page(content).json() == {"price": 3}


def test_a_page_of_xml() -> None:
    made = page('<?xml version="1.0"?><urlset><url><loc>https://a.example/</loc></url></urlset>')
    assert made.is_xml
    assert made.texts("loc") == ["https://a.example/"]


def test_a_page_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "lamp.html").write_bytes(b"<h1>L\xe4mp</h1>")
    about = {
        "url": "https://shop.example/lamp",
        "status": 410,
        "headers": {"Content-Type": "text/html; charset=latin-1"},
    }
    assert page("lamp.html").url == "https://site.example/"
    (tmp_path / "lamp.json").write_text(json.dumps(about))
    saved = page(tmp_path / "lamp.html")
    assert (saved.text("h1"), saved.url, saved.status) == ("Lämp", "https://shop.example/lamp", 410)
    changed = page("lamp.html", "https://shop.example/other", status=200, headers={"X-Shop": "1"})
    assert (changed.url, changed.status, changed.text("h1")) == ("https://shop.example/other", 200, "Lämp")
    assert changed.headers["x-shop"] == "1"


def test_what_is_no_page() -> None:
    with pytest.raises(UsageError, match=r"there is no file lamp\.html in /.*; give the path"):
        page("lamp.html")
    with pytest.raises(UrlError, match="not the URL of a page"):
        page("<p>", "shop.example/lamp")
    with pytest.raises(UsageError, match="cannot be made of a int"):
        page(5)  # type: ignore[arg-type]


# -- run


@pytest.mark.parametrize("url", ["https://bücher.example/ä ö", "HTTPS://Shop.Example:443/a/../b#top"])
def test_a_url_is_taken_as_it_is_written(url: str) -> None:
    spider = Spider("shop", start=url)
    spider.add_handler(lambda page: {"text": page.text("p")}, name="text")
    assert list(shoal.testing.run(spider, {url: "<p>here"})) == [{"text": "here"}]


def test_a_crawl(spider: Spider) -> None:
    results = shoal.testing.run(spider, PAGES)
    assert list(results) == [{"name": "Lamp"}, {"name": "Chair"}]
    assert results.asked == (
        "https://shop.example/",
        "https://shop.example/lamp",
        "https://shop.example/chair",
    )
    assert results.missing == ()
    assert spider.handlers["listing"].name == "listing"
    assert spider.hooks == []


def test_what_no_page_was_given_for_is_listed(spider: Spider) -> None:
    results = shoal.testing.run(spider, {"https://shop.example": LIST})
    assert results.missing == ("https://shop.example/lamp", "https://shop.example/chair")
    assert [page.kind for page in results.dead] == ["http_404", "http_404"]
    assert repr(results).endswith("\n2 requests without a page: https://shop.example/lamp …")


def test_a_function_that_makes_spiders_is_called_by_the_test(spider: Spider) -> None:
    with pytest.raises(UsageError, match="this is a function; call it with its arguments"):
        shoal.testing.run(lambda: spider, PAGES)  # type: ignore[arg-type,return-value]
    with pytest.raises(UsageError, match="this is a str; Spider"):
        shoal.run("https://shop.example/")  # type: ignore[arg-type]


async def test_a_crawl_in_an_event_loop(spider: Spider) -> None:
    assert len(await shoal.testing.crawl(spider, PAGES)) == 2
    with pytest.raises(UsageError, match=r"await shoal\.testing\.crawl"):
        shoal.testing.run(spider, PAGES)


def test_a_folder_of_saved_pages_with_redirects(spider: Spider, tmp_path: Path) -> None:
    for name, url, body, hops in [
        ("list", "https://shop.example/en/", LIST, ["https://shop.example/", "https://shop.example/en"]),
        ("lamp", "https://shop.example/lamp", "<h1>Lamp</h1>", []),
    ]:
        (tmp_path / f"{name}.html").write_text(body)
        (tmp_path / f"{name}.json").write_text(json.dumps({"url": url, "redirected_from": hops}))
    for pages in (tmp_path, [page("list.html"), Path("lamp.html")]):
        results = shoal.testing.run(spider, pages)
        assert list(results) == [{"name": "Lamp"}]
        assert results.asked[:3] == (
            "https://shop.example/", "https://shop.example/en", "https://shop.example/en/",
        )  # fmt: skip
        assert results.missing == ("https://shop.example/chair",)
    with pytest.raises(UsageError, match="has no saved pages; `shoal keep URL"):
        shoal.testing.run(spider, "none")


def test_robots_txt_is_obeyed_if_it_is_given(spider: Spider) -> None:
    robots = {"https://shop.example/robots.txt": b"User-agent: *\nDisallow: /lamp\nCrawl-delay: 50"}
    results = shoal.testing.run(spider, {**PAGES, **robots})
    assert list(results) == [{"name": "Chair"}]
    assert results.missing == ()


def test_forms_inner_requests_and_files() -> None:
    spider = Spider("shop", start="https://shop.example/")

    @spider.handler(files=["manual"])
    async def search(page: Page) -> Any:
        found = await page.fetch(page.submit_form(fields={"q": "lamp"}))
        file = await page.download("/sheet.pdf")
        yield {"found": found.text("b"), "size": file.size, "manual": "/manual.pdf"}

    pages = {
        "https://shop.example": "<form method=post action=/search><input name=q></form>",
        "POST https://shop.example/search": "<b>1 hit</b>",
        "https://shop.example/sheet.pdf": b"%PDF-1",
        "https://shop.example/manual.pdf": b"%PDF-manual",
    }
    results = shoal.testing.run(spider, pages)
    [row] = results
    assert (row["found"], row["size"], row["manual"]["size"]) == ("1 hit", 6, 11)
    assert "POST https://shop.example/search" in results.asked
    assert list(Path().iterdir()) == []
    del pages["POST https://shop.example/search"]
    assert shoal.testing.run(spider, pages).missing == ("POST https://shop.example/search",)


def test_what_goes_wrong_in_a_handler_fails_the_test(spider: Spider) -> None:
    @spider.handler
    def broken(page: Page) -> None:
        raise ValueError("no price")

    spider.handlers["listing"] = spider.handlers["broken"]
    with pytest.raises(CrawlFailed, match=r"https://shop.example/: handler: ValueError: no price") as failed:
        shoal.testing.run(spider, PAGES)
    assert 'raise ValueError("no price")' in failed.value.__notes__[0]
    assert shoal.testing.run(spider, PAGES, check=False).view.job.counters.dead == 1


def test_a_rejected_item_fails_the_test(spider: Spider) -> None:
    @dataclass
    class Product:
        name: str
        price: float

    @spider.handler(item=Product)
    def priced(page: Page) -> Any:
        yield {"name": page.text("h1"), "price": "free"}

    spider.handlers["product"] = spider.handlers["priced"]
    with pytest.raises(CrawlFailed, match=r"shop.example/lamp: rejected: .*field price.* \(and 1 more\)"):
        shoal.testing.run(spider, PAGES)
    assert len(shoal.testing.run(spider, PAGES, check=False).rejected) == 2


def test_nothing_waits_and_nothing_is_tried_twice() -> None:
    spider = Spider(
        "shop", start=[f"https://{name}.shop.example/" for name in "abc"], rate=0.001,
        host={"a.shop.example": {"rate": 0.001, "lane": "browser"}}, max_attempts=9,
    )  # fmt: skip

    @spider.handler(lane="browser")
    def sold_out(page: Page) -> Any:
        yield Request(f"{page.url}more", handler="more")
        yield Request(f"{page.url}more?2", handler="more")

    @spider.handler
    def more(page: Page) -> None:
        raise Retry("sold out", after=1000)

    pages = {f"https://{name}.shop.example/{path}": b"" for name in "abc" for path in ("", "more", "more?2")}
    results = shoal.testing.run(spider, pages)
    assert len(results.asked) == 9
    assert results.view.job.counters.dead == 6


def test_the_project_s_places_are_left_alone(spider: Spider, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shoal.toml says of outputs, archives and proxies is for the real crawl."""
    Path("shoal.toml").write_text(
        'output = ["postgresql://db.example/rows"]\narchive = "pages"\ncache = true\npool = "paid"\n'
        'transport = "none:None"\nprocesses = 4\n[proxies]\npaid = ["env:NOT_SET"]\n'
    )
    assert len(shoal.testing.run(spider, PAGES)) == 2
    assert [path.name for path in Path().iterdir()] == ["shoal.toml"]
    assert len(shoal.testing.run(spider, PAGES, max_pages=2)) == 1
    with pytest.raises(UsageError, match="pages is a int"):
        shoal.testing.run(spider, 5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="rat"):
        shoal.testing.run(spider, PAGES, rat=1)
