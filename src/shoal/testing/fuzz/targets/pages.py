"""Pages: which encoding, which kind of document, and what is read from them."""

from __future__ import annotations

import codecs
import tomllib
from decimal import Decimal

from multidict import CIMultiDict

from shoal.admit import Admission
from shoal.develop.guessing.found_fields import Sample, find_fields
from shoal.develop.guessing.guess_file import Guess, written
from shoal.develop.guessing.paging import next_page
from shoal.develop.guessing.site_guess import looked_at
from shoal.develop.guessing.url_shapes import pattern_for
from shoal.engine.etiquette import RobotsDirectives
from shoal.engine.tally import Tally
from shoal.html import charset, decoding
from shoal.html.feed import Feed, FeedEntry
from shoal.html.feed_dates import read_date
from shoal.html.link_header import read_links
from shoal.html.media import is_html, kind_of
from shoal.html.records import FIELDS
from shoal.html.records.availability import AVAILABILITIES, availability_of
from shoal.html.records.currencies import CODES
from shoal.html.records.dates import iso_date, iso_duration
from shoal.html.records.prices import parse_price
from shoal.html.sitemap import Sitemap, sitemaps_in
from shoal.model import Response, Task
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.sink.items import encode_row
from shoal.spider.default import summary, summary_spider
from shoal.spider.handlers import Yielded
from shoal.spider.link_check import link_spider
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.testing.fuzz.target import as_text, lines
from shoal.testing.fuzz.targets.texts import check_sent
from shoal.text import pack

_URL = "https://a.example/dir/page"
_TASK = Task(_URL, host="a.example")
_HANDLER = Handler("summary", summary)
_SETTINGS = Settings()
_EVERYTHING = summary_spider("x", ()).fitted(Settings(row_fields=["all"])).handler_named("")
_CHECKED = link_spider("x", (), ("links", "assets", "anchors")).handler_named("")
_OBEDIENT = Settings(robots_meta=True, rel_nofollow=True, canonical="merge", hreflang=True)


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
    row, *links = summary(page)
    encode_row(row, _HANDLER)
    page.text().encode("utf-8")
    for link in page.links():
        assert link.startswith(("http://", "https://")), link
    admission = Admission(_SETTINGS, [_URL])
    for request in [request for found in links for request in found][:20]:
        assert isinstance(request, Request)
        task = admission.admit(request, _TASK)
        if isinstance(task, Task):
            check_sent(task.url)


def without_code(data: bytes) -> None:
    """Of any bytes and any Link header a crawl without code makes rows that can be written, and http(s) links."""
    head, body = lines(data, 2)
    page = page_of("text/html; charset=utf-8", body)
    page = page.replace(headers={**page.headers, "Link": as_text(head), "X-Robots-Tag": as_text(head)})
    row, *_ = _EVERYTHING.function(page)
    encode_row(row, _EVERYTHING)
    for link in row["outlinks"]:
        assert link["url"].startswith(("http://", "https://")), link
    for one in _CHECKED.function(page):
        if not isinstance(one, Request):
            encode_row(one, _CHECKED)
    RobotsDirectives(_OBEDIENT).apply(page, Yielded([{}], []), Tally())


def structured(data: bytes) -> None:
    """Whatever a page describes itself with, its records have the fields of their kind, decimal prices, known words for
    availability, http(s) links, and can be written as JSON."""
    for body in (data, b'<script type="application/ld+json">' + data + b"</script>"):
        page = page_of("text/html; charset=utf-8", body)
        for record in page.data():
            assert tuple(record) == FIELDS[record["type"]]
            encode_row(record, _HANDLER)
            for name in ("price", "list_price", "low_price", "high_price"):
                assert record.get(name) is None or Decimal(record[name]) >= 0
            assert record.get("availability") in (None, *AVAILABILITIES)
            for name in ("url", "image"):
                assert (record.get(name) or "http://").startswith(("http://", "https://"))
        assert len(page.structured()) == 6


def prices(data: bytes) -> None:
    """A text is a price with a finite amount and a known currency, or none; so for availability and dates."""
    head, text = lines(data, 2)
    price = parse_price(as_text(text), as_text(head))
    if price is not None:
        assert Decimal(price.text) >= 0
        assert price.currency is None or price.currency in CODES
    assert availability_of(as_text(data)) in (None, *AVAILABILITIES)
    date = iso_date(as_text(data))
    assert date is None or iso_date(date) == date
    duration = iso_duration(as_text(data))
    assert duration is None or iso_duration(duration) == duration


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


def guesses(data: bytes) -> None:
    """Of any page comes a guess whose file is TOML, and holds nothing that the page has written as TOML."""
    page = page_of("text/html; charset=utf-8", data)
    looked = looked_at(page)
    cards = looked.cards[0] if looked.cards else None
    guess = Guess(
        name="fuzz",
        start=(page.url,),
        listing=cards,
        listing_url=page.url,
        menu=(cards.css, 1) if cards is not None else None,
        following=next_page(looked.outline),
        sitemap=None,
        match=pattern_for([one for cards in looked.cards for one in cards.urls], []),
        fields=tuple(find_fields([Sample.of(page)])),
        samples=(page.url,),
        remarks=(page.text()[:1000],),
    )
    table = tomllib.loads(written(guess))
    assert set(table) == {"name", "start", "handler"}
    assert set(table["handler"]) <= {"listing", "product"}
