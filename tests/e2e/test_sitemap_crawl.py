"""Sitemaps and feeds as the start of a crawl: from robots.txt to rows, and a second run that takes what has changed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shoal import Sitemap, Spider, crawl
from shoal.model import Response
from shoal.testing.served_folder import ServedFolder

Cli = Callable[..., tuple[int, str, str]]
OLD = "2020-01-01"


class Shop(ServedFolder):
    """A shop with an index of two sitemaps, one of them a gzip file."""

    def __init__(self) -> None:
        super().__init__({"/x": b""})
        self.changed: set[str] = set()
        self.files = {"/a.xml": ["/p/1", "/p/2"], "/b.xml.gz": ["/p/3", "https://elsewhere.example/"]}

    def answer(self, target: str) -> Response:
        body, kind = self._body(target)
        return Response(target, 200 if body else 404, {"Content-Type": kind}, body)

    def _body(self, target: str) -> tuple[bytes, str]:
        if target == "/robots.txt":
            return f"User-agent: *\nDisallow: /private\nSitemap: {self.url}index.xml".encode(), "text/plain"
        if target == "/index.xml":
            entries = (self._entry("sitemap", path, urls) for path, urls in self.files.items())
            return f"<sitemapindex>{''.join(entries)}</sitemapindex>".encode(), "text/xml"
        if target in self.files:
            entries = (self._entry("url", url, [url]) for url in self.files[target])
            body = f"<urlset>{''.join(entries)}</urlset>".encode()
            return (gzip.compress(body), "application/gzip") if target.endswith(".gz") else (body, "text/xml")
        if target == "/feed":
            return (
                f"<rss><item><title>New</title><link>{self.url}p/9</link></item></rss>".encode(),
                "text/xml",
            )
        return f"<title>{target}</title><a href=/linked>".encode() if target.startswith(
            "/p/"
        ) else b"", "text/html"

    def _entry(self, tag: str, path: str, urls: list[str]) -> str:
        now = datetime.now(UTC).isoformat()
        lastmod = now if self.changed & {path, *urls} else OLD
        url = path if "://" in path else self.url + path[1:]
        return f"<{tag}><loc>{url}</loc><lastmod>{lastmod}</lastmod></{tag}>"


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as shop:
        yield shop


def paths(file: Path) -> list[str]:
    return sorted("/" + json.loads(line)["url"].split("/", 3)[3] for line in file.read_text().splitlines())


def test_a_site_without_code_and_then_what_has_changed(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    code, _, said = cli("crawl", "--sitemap", shop.url, "--rate", "0", "-o", "a.jsonl")
    assert code == 0, said
    assert paths(tmp_path / "a.jsonl") == ["/p/1", "/p/2", "/p/3"]
    assert "GET /linked" not in shop.requests
    assert "host 1" in said  # the entry elsewhere is refused, and counted
    assert "sitemaps read 3" in said
    shop.changed.add("/p/2")
    shop.requests.clear()
    again = ("crawl", "--sitemap", shop.url, "--rate", "0", "-o", "b.jsonl", "--fresh", "--since", "last")
    code, _, said = cli(*again)
    assert code == 0, said
    assert paths(tmp_path / "b.jsonl") == ["/p/2"]
    assert sorted(set(shop.requests)) == ["GET /a.xml", "GET /index.xml", "GET /p/2", "GET /robots.txt"]


def test_a_site_without_a_robots_txt_is_asked_for_the_usual_sitemap(cli: Cli, tmp_path: Path) -> None:
    with ServedFolder(
        {"/p/1": "<title>x</title>", "/sitemap.xml": "<urlset><url><loc>/p/1</loc></url></urlset>"}
    ) as site:
        code, _, said = cli("crawl", "--sitemap", site.url, "--rate", "0", "-o", "a.jsonl")
    assert code == 0, said
    assert paths(tmp_path / "a.jsonl") == ["/p/1"]
    assert "robots.txt without a sitemap 1" in said


def test_a_feed_and_a_table(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(f"sku,page\n1,{shop.url}p/5\n2,junk:\n")
    trusted = ("--allow-network", "127.0.0.0/8", "--rate", "0", "--depth", "0")
    code, _, said = cli(
        "crawl",
        "--feed",
        f"{shop.url}feed",
        "-i",
        "more.csv",
        "--url-column",
        "page",
        "-o",
        "a.jsonl",
        *trusted,
    )
    assert code == 0, said
    assert paths(tmp_path / "a.jsonl") == ["/p/5", "/p/9"]
    assert "more.csv:3" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sitemap", "https://a.example", "--since", "gestern"), "--since gestern: give a date"),
        (("https://a.example", "--since", "last"), "--since goes with --sitemap"),
        (("https://a.example", "--url-column", "x"), "--url-column goes with -i"),
        (("shop.py", "--sitemap", "https://a.example"), "has a start of its own"),
    ],
)
def test_words_that_do_not_fit_are_told(cli: Cli, words: tuple[str, ...], said: str) -> None:
    code, _, err = cli("crawl", *words)
    assert code == 2
    assert said in err


async def test_a_spider_gets_what_the_sitemap_says_and_a_page_that_is_none_is_given_up(
    shop: Shop, tmp_path: Path
) -> None:
    spider = Spider("shop", start=[Sitemap(f"{shop.url}a.xml"), Sitemap(f"{shop.url}p/7")], rate=0, depth=0)

    @spider.handler
    def product(page):  # type: ignore[no-untyped-def]
        yield {"path": page.url.split("/", 3)[3], "depth": page.depth, **page.meta["sitemap"]}
        yield page.follow("/linked")

    results = await crawl(spider, store=str(tmp_path / "s.db"))
    assert sorted(item["path"] for item in results.items) == ["p/1", "p/2"]
    assert {(item["depth"], item["lastmod"]) for item in results.items} == {(0, OLD)}
    [letter] = results.dead
    assert "is no sitemap: it is a page (HTML)" in str(letter)
