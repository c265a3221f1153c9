"""The row that a crawl without code writes."""

from __future__ import annotations

from shoal.model import Response, Task
from shoal.model.request import Request
from shoal.spider.default import summary, summary_spider
from shoal.spider.page import Page

HTML = """<html lang="en-GB"><head><title> The
 title</title><meta name="Description" content="About  it"><link rel="shortcut Canonical" href="/c">
<style>.no{}</style><noscript><style>.nor{}</style></noscript></head>
<body>Ab cé <a href="x">d</a><a name=y>e</a><script>no</script>
<svg><title>f</title><style>no</style></svg></body></html>"""

KEYS = [
    "url", "status", "title", "description", "canonical", "language", "text_length", "links", "fetched_at", "depth",
    "content_type", "bytes",
]  # fmt: skip


def make(body: bytes, content_type: str = "text/html; charset=utf-8") -> Page:
    url = "https://a.example/dir/"
    response = Response(url, 200, {"Content-Type": content_type} if content_type else {}, body)
    return Page(Task(url=url, depth=2), response, "summary", fetched_at=1_700_000_000.9)


def test_a_page_is_summed_up_and_its_links_followed() -> None:
    row, links = summary(make(HTML.encode()))
    assert row == {
        "url": "https://a.example/dir/",
        "status": 200,
        "title": "The title",
        "description": "About it",
        "canonical": "https://a.example/c",
        "language": "en-GB",
        "text_length": 7,  # A b c é d e f
        "links": 1,
        "fetched_at": "2023-11-14T22:13:20Z",
        "depth": 2,
        "content_type": "text/html",
        "bytes": len(HTML.encode()),
    }
    assert list(row) == KEYS
    assert list(links) == [Request("x", "summary", "https://a.example/dir/")]


def test_what_a_page_does_not_say_is_none() -> None:
    row, links = summary(make(b"<title> </title><meta name=description><link rel=canonical>"))
    assert isinstance(row, dict)
    assert not links
    assert [row[key] for key in KEYS[2:8]] == [None, None, None, None, 0, 0]


def test_other_documents_have_the_same_keys_and_no_links() -> None:
    (row,) = summary(make(b'%PDF <a href="x">', "application/pdf"))
    assert isinstance(row, dict)
    assert list(row) == KEYS
    assert (row["content_type"], row["bytes"], row["links"], row["title"]) == (
        "application/pdf",
        17,
        None,
        None,
    )


def test_without_a_content_type_the_body_decides() -> None:
    (html, _) = summary(make(b" \n<!-- x --><!DOCTYPE html><a href=x>", ""))
    assert isinstance(html, dict)
    assert (html["links"], html["content_type"]) == (1, None)
    assert len(summary(make(b"\x89PNG<a href=x>", ""))) == 1
    assert len(summary(make(b"<a href=x>", "text/plain"))) == 1


def test_the_spider_takes_starts_and_settings() -> None:
    spider = summary_spider("crawl", ["https://a.example/"], rate=0)
    assert spider.handler_named("").function is summary
    assert spider.settings == {"rate": 0}
