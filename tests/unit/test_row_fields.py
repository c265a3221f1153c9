"""The fields that a row without code has on request."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from multidict import CIMultiDict

from shoal.cli.nocode import flags, named, read_names
from shoal.errors import UsageError
from shoal.html.page_facts import word_count
from shoal.html.robots_meta import directives
from shoal.model import Response, Task
from shoal.model.request import PageLinks
from shoal.settings import ROW_FIELDS, Settings
from shoal.spider.default import summary_spider
from shoal.spider.loading import SpiderSource
from shoal.spider.page import Page

URL = "https://a.example/dir/"
HTML = """<html lang=en><head><title>T</title>
<meta name="robots" content="NoArchive, max-snippet: 20"><meta name=googlebot content=nofollow>
<meta property="og:title" content=" The  title "><meta name=author content=Ann><meta property="og:title" content=again>
<link rel="alternate" hreflang="de-AT" href="/de"><link rel=alternate href=/feed type="application/rss+xml">
</head><body><h2>Before</h2><h1>The <b>head</b>line<script>no</script></h1>
<p>Some  words,
 and 日本語 - more.</p>
<a href="x#top" rel="NoFollow  ugc">An <i>anchor</i></a><a href="https://www.a.example/"><img src=p.png alt=Picture></a>
<a href="https://other.example/">away</a><a href="mailto:a@b">mail</a><a>none</a><iframe src=/frame></iframe>
<img src="/q.png"><img alt=x></body></html>"""


def page(body: str = HTML, *, content_type: str = "text/html", **headers: str) -> Page:
    given = CIMultiDict(
        {"Content-Type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}}
    )
    task = Task(url=URL, hops=("https://a.example/old",))
    return Page(task, Response(URL, 200, given, body.encode()), "summary")


def row_of(seen: Page, *names: str, **settings: Any) -> dict[str, Any]:
    fitted = summary_spider("x", ()).fitted(Settings(row_fields=list(names), **settings))  # type: ignore[arg-type]
    row, *links = fitted.handler_named("").function(seen)
    assert all(isinstance(one, PageLinks) for one in links)
    assert isinstance(row, dict)
    return row


def test_all_fields() -> None:
    row = row_of(
        page(Link='<https://a.example/fr>; rel="alternate"; hreflang=fr', X_Robots_Tag="noindex"), "all"
    )
    assert list(row)[12:] == [*ROW_FIELDS, "cut"]
    assert row["h1"] == "The headline"
    assert row["headings"] == [{"level": 2, "text": "Before"}, {"level": 1, "text": "The headline"}]
    assert row["text"].startswith("Before The headline Some words, and 日本語 - more.")
    assert row["word_count"] == 3 + 3 + 3 + 1 + 3  # 日本語 has three; the dash is none
    assert row["content_hash"] == sha256(row["text"].encode()).hexdigest()
    assert row["outlinks"] == [
        {"url": "https://a.example/dir/x#top", "text": "An anchor", "rel": "nofollow ugc", "internal": True},
        {"url": "https://www.a.example/", "text": "Picture", "rel": "", "internal": True},
        {"url": "https://other.example/", "text": "away", "rel": "", "internal": False},
        {"url": "https://a.example/frame", "text": "", "rel": "", "internal": True},
    ]
    assert row["links"] == 5  # their number, as in every row: those that are followed, mailto among them
    assert row["images"] == [
        {"src": "https://a.example/dir/p.png", "alt": "Picture"},
        {"src": "https://a.example/q.png", "alt": None},
    ]
    assert row["hreflang"] == [
        {"lang": "de-at", "url": "https://a.example/de"},
        {"lang": "fr", "url": "https://a.example/fr"},
    ]
    assert row["meta"] == {
        "robots": "NoArchive, max-snippet: 20",
        "googlebot": "nofollow",
        "og:title": "The title",
        "author": "Ann",
    }
    assert row["robots"] == ["noindex", "noarchive", "max-snippet: 20", "googlebot: nofollow"]
    assert row["redirects"] == ["https://a.example/old"]
    assert row["cut"] is None


def test_the_sign_behind_a_heading_is_left_out() -> None:
    row = row_of(page("<h1>Head<a class=headerlink href=#h>¶</a></h1>"), "h1", "headings")
    assert (row["h1"], row["headings"]) == ("Head", [{"level": 1, "text": "Head"}])


def test_only_what_was_asked_for_and_links_is_another_name() -> None:
    assert list(row_of(page(), "text", "links"))[12:] == ["text", "outlinks", "cut"]


def test_the_hash_does_not_see_white_space_of_the_markup() -> None:
    one, other = page("<p>a <b>b</b></p><p>c"), page("<p>\n a\n\t<b>b</b>   </p>\n\n<p>c\n")
    assert row_of(one, "content_hash")["content_hash"] == row_of(other, "content_hash")["content_hash"]
    changed = page("<p>a <b>b</b></p><p>d")
    assert row_of(one, "content_hash")["content_hash"] != row_of(changed, "content_hash")["content_hash"]


def test_other_documents_have_null() -> None:
    row = row_of(page("%PDF", content_type="application/pdf", X_Robots_Tag="noindex"), "all")
    assert list(row)[12:] == [*ROW_FIELDS, "cut"]
    assert (row["text"], row["outlinks"], row["robots"]) == (None, None, ["noindex"])


def test_what_is_too_much_is_cut_and_said() -> None:
    many = page("<h1>x</h1>" + "<a href=x>y</a>" * 20 + "word " * 100)
    row = row_of(many, "all", max_links=5, max_text=50)
    assert (len(row["outlinks"]), len(row["text"]), row["cut"]) == (5, 50, ["text", "outlinks"])
    whole = row_of(page("<h1>x</h1>" + "<a href=x>y</a>" * 20 + "word " * 100), "all")
    assert row["content_hash"] == whole["content_hash"]  # of the whole text


def test_links_inside_links_are_read_within_a_budget() -> None:
    # <object> lets links lie in one another: the text of each is that of all within it.
    nested = page("<a href=x>t<object>" * 5_000)
    row = row_of(nested, "links", "headings")
    assert row["cut"] == ["headings", "outlinks"]
    assert row["outlinks"][0]["text"].startswith("t")


def test_words() -> None:
    assert [word_count(text) for text in ("", " - ", "one, two", "日本", "a日b", "it's 4")] == [
        0,
        0,
        2,
        2,
        3,
        2,
    ]


def test_directives_are_bounded() -> None:
    assert len(directives([",".join(f"d{number}" for number in range(10_000))], None)) == 50
    assert directives(["otherbot: noindex, nofollow", "*: none"], None) == [
        "otherbot: noindex",
        "otherbot: nofollow",
        "none",
    ]


def test_names_on_the_command_line() -> None:
    assert read_names("--row", ["text, Links", "text"], ["text", "links"]) == ["text", "links"]
    with pytest.raises(UsageError, match=r"--row foo: there is no such name; there are text, links"):
        read_names("--row", ["foo"], ["text", "links"])
    with pytest.raises(UsageError, match="at least one"):
        read_names("--row", [","], ["text"])
    with pytest.raises(UsageError, match=r"--row is for a crawl without code, and a.py is a spider"):
        flags(SpiderSource("", spec="a.py"), ["text"], None)
    with pytest.raises(UsageError, match=r"--extract and --check-links write different rows"):
        flags(SpiderSource("x", checks=("links",)), None, ["product"])
    assert flags(SpiderSource("x"), None, None) == {}


def test_other_rows_are_another_job() -> None:
    def name(**given: list[str]) -> str:
        return named(SpiderSource("site-1"), given).name

    assert name() == "site-1"
    assert name(row_fields=["text"]) == "site-1-row"
    assert name(row_fields=["text"], extract=["product", "event"]) == "site-1-product-event"


def test_without_the_settings_the_spider_is_as_it_was() -> None:
    spider = summary_spider("x", ())
    assert spider.fitted(Settings()) is spider
