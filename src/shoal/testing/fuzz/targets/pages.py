"""Pages: which encoding, which kind of document, and what is read from them."""

from __future__ import annotations

import codecs

from multidict import CIMultiDict

from shoal.admit import Admission
from shoal.html import charset, decoding
from shoal.html.feed import Feed, FeedEntry
from shoal.html.feed_dates import read_date
from shoal.html.link_header import read_links
from shoal.html.media import is_html, kind_of
from shoal.html.sitemap import Sitemap, sitemaps_in
from shoal.model import Request, Response, Task
from shoal.settings import Settings
from shoal.sink.items import encode_row
from shoal.spider.default import summary
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.testing.fuzz.target import as_text, lines
from shoal.testing.fuzz.targets.texts import check_sent
from shoal.text import pack

_URL = "https://a.example/dir/page"
_TASK = Task(_URL, host="a.example")
_HANDLER = Handler("summary", summary)
_SETTINGS = Settings()


def page_of(content_type: str, body: bytes) -> Page:
    headers = CIMultiDict({"Content-Type": content_type}) if content_type else CIMultiDict[str]()
    return Page(_TASK, Response(_URL, 200, headers, body), "summary")


def encodings(data: bytes) -> None:
    """Every body has an encoding that Python knows, and its text can be written."""
    head, body = lines(data, 2)
    codec = charset.codec_of(body, as_text(head))
    if codec not in (decoding.USER_DEFINED, decoding.NOT_DECODED):
        codecs.lookup(codec)
    decoding.decode(body, codec).encode("utf-8")
    page = page_of(as_text(head), body)
    page.html.encode("utf-8")
    assert page.codec == codec
    assert not page.truncated or decoding.half_character(body, codec) < 4


def media(data: bytes) -> None:
    """It is HTML, XML or neither, whatever the type and the first bytes."""
    head, body = lines(data, 2)
    page = page_of(as_text(head), body)
    assert not (page.is_html and page.is_xml)
    assert is_html("text/html", body) != (kind_of("text/html", body) == "xml")
    assert kind_of("text/xml", body) in ("xml", "xhtml")


def sources(data: bytes) -> None:
    """Of any bytes a sitemap or a feed gives entries that can be stored, whole or within a broken one."""
    for begin in (b"", b"<urlset>", b"<sitemapindex><sitemap>", b"\x1f\x8b\x08"):
        for entry in Sitemap(begin + data):
            assert entry.url
            entry.url.encode("utf-8")
            pack(entry.details)
            read_date(entry.lastmod)
    for begin in (b"", b"<rss><item>", b'{"items":[{"url":"'):
        for found in Feed(begin + data):
            assert found.url
            if isinstance(found, FeedEntry):
                pack(found.details)
    for link in read_links({"Link": as_text(data)}, _URL):
        assert link.url.startswith(("http://", "https://"))
    sitemaps_in(data, most=1000)


def html(data: bytes) -> None:
    """Of any bytes a page gives a summary that can be written as JSON, links that are http(s), and its text."""
    page = page_of("text/html; charset=utf-8", data)  # to guess it takes longer than all the rest
    row, *requests = summary(page)
    encode_row(row, _HANDLER)
    page.text().encode("utf-8")
    for link in page.links():
        assert link.startswith(("http://", "https://")), link
    admission = Admission(_SETTINGS, [_URL])
    for request in requests[:20]:
        assert isinstance(request, Request)
        task = admission.admit(request, _TASK)
        if isinstance(task, Task):
            check_sent(task.url)


def xml(data: bytes) -> None:
    """Of any bytes read as XML or XHTML come texts, links and nodes that can be written; nothing unfolds."""
    for content_type in ("text/xml; charset=utf-8", "application/xhtml+xml; charset=utf-8"):
        page = page_of(content_type, data)
        text = page.text()
        text.encode("utf-8")
        assert len(text) <= 4 * len(data) + 100  # "&nGt;" and the like are two characters
        for node in page.css("*")[:20]:
            node.html.encode("utf-8")  # type: ignore[union-attr]
            encode_row({**node.attributes, "tag": node.tag, "text": node.text()}, _HANDLER)
        for found in page.xpath("//text() | //@*"):
            found.encode("utf-8")
        for link in page.links("item > link, a"):
            assert link.startswith(("http://", "https://")), link
