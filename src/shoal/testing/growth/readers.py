"""Whatever reads what came from the network: pages, headers, URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from shoal.admit import Admission, KnownLinks
from shoal.admit.canonical import Canonicaliser
from shoal.admit.sending import sent_url
from shoal.admit.traps import trap
from shoal.fetch.challenge import detect
from shoal.fetch.http_repair import AnswerRepair
from shoal.html import charset, decoding
from shoal.html.attribute_bombs import crowded_tag
from shoal.html.markup_repair import as_html, mend
from shoal.html.media import is_html
from shoal.html.page_links import absolute, in_encoding, largest_number, query_value, with_query_value
from shoal.html.parsing import allowance
from shoal.html.robots_meta import header_asks
from shoal.model import Request, Response, Task
from shoal.policy.escalation import pattern_of
from shoal.policy.outcomes import kind_of
from shoal.policy.retry import retry_after
from shoal.settings import Settings
from shoal.spider.default import summary
from shoal.spider.page import Page
from shoal.text import without_secrets

URL = "https://a.example/b/"
_UNLIMITED = Settings(max_url_length=100_000_000)
_MULTIBYTE = ("big5hkscs", "euc_jp", "gb18030", "iso2022_jp", "cp932", "cp949", "utf-16-le", "cp1252")

_SELECTORS = 0.1  # seconds that those of `look_everywhere` have, together


class Reader(Struct, frozen=True):
    name: str
    read: Callable[[bytes], object]
    parses: bool = False  # within the budget of a page

    def moment(self, size: int) -> float:
        """Seconds below which it does not matter how the time grows."""
        return 0.02 + (4 * allowance(size) + _SELECTORS if self.parses else 0.0)


def page(body: bytes, headers: Mapping[str, str] | None = None) -> Page:
    return Page(Task(url=URL), Response(URL, 200, headers or {"Content-Type": "text/html"}, body), "h")


def look_everywhere(body: bytes) -> None:
    """As handlers do."""
    seen = page(body)
    seen.text()
    seen.text("title")
    seen.links()
    seen.css("div a")
    seen.css("table tr td a, ul li > a, h2 + p, h2 ~ p")
    seen.follow_all("a")
    seen.attr("a", "href")
    summary(seen)
    _ = seen.tree.html


def by_xpath(body: bytes) -> None:
    page(body).xpath("//a/@href")


def look_into_xml(body: bytes) -> None:
    seen = page(body, {"Content-Type": "text/xml"})
    seen.text()
    seen.xpath("//a/@href")
    seen.css("div a, td > a:first-child, h2 ~ p")
    seen.links("a")


def decode(body: bytes) -> None:
    for codec in _MULTIBYTE:
        decoding.decode(body, codec)


def _json(body: bytes) -> None:
    try:
        page(body).json()
    except ValueError:
        pass


def _links(body: bytes) -> None:
    text = _text(body)
    absolute(URL, [text])
    known = KnownLinks()
    known.learn("a.example", URL, text)
    known.unknown("a.example", URL, [text])


def _admit(body: bytes) -> None:
    admission = Admission(_UNLIMITED, [URL])
    parent = Task(url=URL, id=1)
    admission.admit(Request(_text(body), base=URL), parent)
    admission.admit(Request("https://a.example/?" + _text(body)), parent)
    admission.moved(parent, "/" + _text(body))


def _challenge(body: bytes) -> None:
    for status in (200, 403, 429):
        detect(Response(URL, status, {"Content-Type": "text/html"}, body))
        detect(Response(URL + _text(body)[:10_000], status, {"Server": _text(body)}, b""), URL)


def _kind(body: bytes) -> None:
    for status in (200, 302, 429, 503):
        kind_of(Response(URL, status, {"Location": _text(body), "Retry-After": _text(body)}, body))


def _mend(body: bytes) -> None:
    """As a head, as chunks, and in small pieces."""
    for data in (b"HTTP/1.1 200 OK\r\nX: " + body + b"\r\n\r\n", _CHUNKED + body):
        AnswerRepair(is_head=False).feed(data)
        pieces = AnswerRepair(is_head=False)
        for at in range(0, len(data), 1_000):
            pieces.feed(data[at : at + 1_000])


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _text(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass" if b"\xed" in body else "replace")


PAGES = (
    Reader("page", look_everywhere, parses=True),
    Reader("xpath", by_xpath, parses=True),
    Reader("xml", look_into_xml, parses=True),
    Reader("mending", mend),
    Reader("xhtml", as_html),
    Reader("is_html", lambda body: is_html("", body)),
    Reader("charset", lambda body: charset.codec_of(body)),
    Reader("charset of XML", lambda body: charset.codec_of(body, "text/xml")),
    Reader("crowded_tag", crowded_tag),
    Reader("decode", decode),
    Reader("challenge", _challenge),
    Reader("classify", _kind),
    Reader("json", _json),
)

TEXTS = (
    Reader("content type", lambda text: charset.codec_of(b"", _text(text))),
    Reader("charset label", lambda text: charset.codec_named(_text(text))),
    Reader("retry-after", lambda text: retry_after(_text(text), 0.0, 1e9)),
    Reader("canonical", lambda text: Canonicaliser()(sent_url(URL + _text(text)) or "")),
    Reader("canonical query", lambda text: Canonicaliser()(sent_url(URL + "?" + _text(text)) or "")),
    Reader("trap", lambda text: trap(URL + "page?year=1" + _text(text), _UNLIMITED)),
    Reader("links", _links),
    Reader("query in Shift_JIS", lambda text: in_encoding("?" + _text(text), "cp932")),
    Reader("admit", _admit),
    Reader("challenge", _challenge),
    Reader("classify", _kind),
    Reader("page number", lambda text: largest_number(_text(text))),
    Reader(
        "query",
        lambda text: (query_value(URL + "?" + _text(text), "p"), with_query_value(_text(text), "p", "1")),
    ),
    Reader("answer", _mend),
    Reader("robots tag", lambda text: header_asks([_text(text)], "shoal")),
    Reader("userinfo", lambda text: without_secrets(_text(text))),
    Reader("escalation", lambda text: pattern_of(URL + _text(text))),
    Reader("decode", decode),
    Reader("json", _json),
)
