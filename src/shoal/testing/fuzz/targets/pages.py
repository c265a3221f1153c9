"""Pages: which encoding, which kind of document, and what is read from them."""

from __future__ import annotations

import codecs
import tomllib

from multidict import CIMultiDict

from shoal.admit import Admission
from shoal.develop.guessing.found_fields import Sample, find_fields
from shoal.develop.guessing.guess_file import Guess, written
from shoal.develop.guessing.paging import next_page
from shoal.develop.guessing.site_guess import looked_at
from shoal.develop.guessing.url_shapes import pattern_for
from shoal.html import charset, decoding
from shoal.html.media import is_html, kind_of
from shoal.model import Request, Response, Task
from shoal.settings import Settings
from shoal.sink.items import encode_row
from shoal.spider.default import summary
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.testing.fuzz.target import as_text, lines
from shoal.testing.fuzz.targets.texts import check_sent

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
