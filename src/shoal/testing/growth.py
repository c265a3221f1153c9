"""Does the time grow with the input, or faster? Feeds everything that reads from the network with repeated fragments.

A reader is given a fragment n, 2n and 4n times. Where four times as much takes more than eight times as long, it grows
faster than n log n, and somebody will find a fragment that holds a crawl. What takes no longer than a moment may grow
as it likes: a parser may have a budget that it always uses up.

    python -m shoal.testing.growth          all elements of HTML, and the known attacks
    python -m shoal.testing.growth --pairs  all pairs of elements, too: an hour or two
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from msgspec import Struct

from shoal.admit import Admission, KnownLinks
from shoal.admit.canonical import Canonicaliser
from shoal.admit.sending import sent_url
from shoal.admit.traps import trap
from shoal.develop.guessing.found_fields import Sample, find_fields
from shoal.develop.guessing.site_guess import looked_at
from shoal.engine.etiquette import RobotsDirectives
from shoal.engine.tally import Tally
from shoal.fetch.challenge import detect
from shoal.fetch.http_answer import AnswerReader
from shoal.html import charset, decoding
from shoal.html.attribute_bombs import crowded_tag
from shoal.html.feed import Feed
from shoal.html.feed_dates import read_date
from shoal.html.link_header import read_links
from shoal.html.markup_repair import as_html, mend
from shoal.html.media import is_html
from shoal.html.page_facts import word_count
from shoal.html.page_links import absolute, in_encoding, largest_number, query_value, with_query_value
from shoal.html.parsing import allowance
from shoal.html.records.availability import availability_of
from shoal.html.records.dates import iso_date, iso_duration
from shoal.html.records.prices import parse_price
from shoal.html.robots_meta import directives, header_asks
from shoal.html.sitemap import Sitemap, sitemaps_in
from shoal.html.structured.broken_json import read_json
from shoal.model import Response, Task
from shoal.model.request import Request
from shoal.policy.escalation import pattern_of
from shoal.policy.outcomes import kind_of
from shoal.policy.retry import retry_after
from shoal.settings import Settings
from shoal.spider.default import summary, summary_spider
from shoal.spider.handlers import Yielded
from shoal.spider.link_check import link_spider
from shoal.spider.page import Page
from shoal.testing import growth_families as families
from shoal.testing.growth_families import Family
from shoal.text import without_secrets

MOST = 8.0  # times as long for four times as much: linear is 4, n log n is below 5, quadratic is 16
_SURELY = 6.0  # times as long at the first try: no need to measure again
_RUNS = 3
_WORST = 10  # are shown
URL = "https://a.example/b/"
_UNLIMITED = Settings(max_url_length=100_000_000)
_EVERYTHING = summary_spider("x", ()).fitted(Settings(row_fields=["all"])).handler_named("").function
_CHECKED = link_spider("x", (), ("links", "assets", "anchors")).handler_named("").function
_OBEDIENT = Settings(robots_meta=True, rel_nofollow=True, canonical="merge", hreflang=True)
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


def guess(body: bytes) -> None:
    """As `shoal guess` does, for one page."""
    seen = page(body)
    looked_at(seen)
    find_fields([Sample.of(seen)])


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
    seen.jsonld()
    summary(seen)
    _ = seen.tree.html


def look_without_code(body: bytes) -> None:
    """As a crawl without code does that is asked for everything, or checks links."""
    seen = page(body)
    _EVERYTHING(seen)
    _CHECKED(seen)
    RobotsDirectives(_OBEDIENT).apply(seen, Yielded([{}], []), Tally())


def by_xpath(body: bytes) -> None:
    page(body).xpath("//a/@href")


def look_into_xml(body: bytes) -> None:
    seen = page(body, {"Content-Type": "text/xml"})
    seen.text()
    seen.xpath("//a/@href")
    seen.css("div a, td > a:first-child, h2 ~ p")
    seen.links("a")


def submit(body: bytes) -> None:
    """The markup as the inside of a form."""
    page(b"<form>" + body).submit_form("form", {"a": "1", "b": True})


def read_jsonld(body: bytes) -> None:
    """As it is, before an object, and behind one."""
    for text in (body, body + b"{}", b"{}" + body):
        page(b'<script type="application/ld+json">' + text + b"</script>").jsonld()


_DESCRIBED = b"<div itemscope itemtype=http://schema.org/Product vocab=http://schema.org/ typeof=Product>"


def describe(body: bytes) -> None:
    """The markup inside an item of microdata and RDFa."""
    seen = page(_DESCRIBED + body)
    seen.data()
    seen.structured()


def describe_json(body: bytes) -> None:
    """The text as JSON-LD, as the values of a product in it, and as those of microdata."""
    quoted = json.dumps(_text(body)).encode()
    product = b'{"@type":"Product","name":%b,"offers":{"price":%b,"availability":%b,"priceValidUntil":%b}}'
    for text in (body, product % (quoted, quoted, quoted, quoted)):
        page(b'<script type="application/ld+json">' + text + b"</script>").data()


def decode(body: bytes) -> None:
    for codec in _MULTIBYTE:
        decoding.decode(body, codec)


def _json(body: bytes) -> None:
    try:
        page(body).json()
    except ValueError:
        pass


def _sources(body: bytes) -> None:
    """Inside an entry of a sitemap, and inside a tag of a feed."""
    list(Sitemap(b"<urlset><url><loc>" + body))
    list(Feed(b"<feed><entry><link " + body))


def _header_links(text: bytes) -> None:
    for begin in ("", "<a>; ", '<a>; rel="'):
        read_links({"Link": begin + _text(text)}, URL)
        read_date(_text(text))


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
        AnswerReader(is_head=False).feed(data)
        pieces = AnswerReader(is_head=False)
        for at in range(0, len(data), 1_000):
            pieces.feed(data[at : at + 1_000])


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _text(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass" if b"\xed" in body else "replace")


PAGES = (
    Reader("page", look_everywhere, parses=True),
    Reader("without code", look_without_code, parses=True),
    Reader("guess", guess, parses=True),
    Reader("xpath", by_xpath, parses=True),
    Reader("xml", look_into_xml, parses=True),
    Reader("form", submit, parses=True),
    Reader("structured data", describe, parses=True),
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
    Reader("sitemap", _sources),
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
    Reader("link header", _header_links),
    Reader("sitemap as text", lambda text: list(Sitemap(b"https://a.example/" + text))),
    Reader("sitemaps in robots.txt", lambda text: sitemaps_in(text, most=10**9)),
    Reader("robots tag", lambda text: header_asks([_text(text)], "shoal")),
    Reader("robots directives", lambda text: directives([_text(text)], None)),
    Reader("words", lambda text: word_count(_text(text))),
    Reader("userinfo", lambda text: without_secrets(_text(text))),
    Reader("escalation", lambda text: pattern_of(URL + _text(text))),
    Reader("decode", decode),
    Reader("json", _json),
    Reader("JSON-LD", read_jsonld, parses=True),
    Reader("broken JSON", lambda text: read_json(_text(text))),
    Reader("records", describe_json, parses=True),
    Reader("price", lambda text: parse_price(_text(text), _text(text))),
    Reader("availability", lambda text: availability_of(_text(text))),
    Reader("date", lambda text: (iso_date(_text(text)), iso_duration(_text(text)))),
)


# -- measuring


class Growth(Struct, frozen=True):
    reader: str
    family: str
    size: int  # bytes of the largest input
    seconds: float  # that it took
    times: float  # as long as a quarter of it

    def __str__(self) -> str:
        taken = f"{self.seconds * 1000:,.1f} ms for {self.size:,} bytes"
        return f"{self.reader}: {self.family}: {taken}, {self.times:.1f} times as long as for a quarter"


def growth(reader: Reader, family: Family, size: int) -> Growth:
    """How the time grows up to `size` bytes. Below the reader's moment, by one."""
    large = family.of(size)
    taken = seconds(reader.read, large)
    if taken <= reader.moment(len(large)):
        return Growth(reader.name, family.name, len(large), taken, 1.0)
    times = taken / max(seconds(reader.read, family.of(size // 4)), 1e-9)
    if times <= _SURELY:
        return Growth(reader.name, family.name, len(large), taken, times)
    times = float("inf")
    for _ in range(_RUNS):  # on a busy machine the first may be wrong
        taken = min(taken, seconds(reader.read, large))
        quarter = min(seconds(reader.read, family.of(size // 4)) for _ in range(_RUNS))
        times = min(times, taken / max(quarter, 1e-9))
        if times <= MOST or taken <= reader.moment(len(large)):
            break
    return Growth(reader.name, family.name, len(large), taken, times)


def too_fast(found: Growth, reader: Reader) -> bool:
    return found.times > MOST and found.seconds > reader.moment(found.size)


def seconds(read: Callable[[bytes], object], data: bytes) -> float:
    """Of the CPU, in this thread."""
    gc.disable()
    try:
        began = time.thread_time()
        read(data)
        return time.thread_time() - began
    finally:
        gc.enable()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shoal.testing.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", type=int, default=256 * 1024, help="bytes of the largest input")
    parser.add_argument("--pairs", action="store_true", help="all pairs of elements, too")
    parser.add_argument("--reader", help="only this one")
    options = parser.parse_args()
    logging.getLogger("shoal").setLevel(logging.ERROR)  # that pages are cut is no news here
    began, failed, found = time.monotonic(), 0, list[Growth]()
    for reader, family in _work(options.pairs):
        if options.reader in (None, reader.name):
            one = growth(reader, family, options.size)
            found.append(one)
            if too_fast(one, reader):
                failed += 1
                print(f"TOO FAST  {one}", flush=True)  # noqa: T201
    found.sort(key=lambda one: one.seconds, reverse=True)
    print(  # noqa: T201
        f"\n{len(found):,} measured in {time.monotonic() - began:.0f} s, {failed} grow too fast. The longest:"
    )
    for one in found[:_WORST]:
        print(f"  {one}")  # noqa: T201
    return 1 if failed else 0


def _work(with_pairs: bool) -> Iterator[tuple[Reader, Family]]:
    yield from _each(PAGES, chain(families.markup(), families.singles()))
    yield from _each(TEXTS, families.text())
    if with_pairs:
        yield from _each(PAGES[:1], families.pairs())


def _each(readers: Iterable[Reader], all_of: Iterable[Family]) -> Iterator[tuple[Reader, Family]]:
    for family in all_of:
        for reader in readers:
            yield reader, family


if __name__ == "__main__":
    sys.exit(main())
