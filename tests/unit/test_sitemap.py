"""Sitemaps are read as they are found: every form of the protocol, broken ones too, and hostile ones within bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from shoal.html.feed_dates import Moment, read_date
from shoal.html.sitemap import Sitemap, SitemapEntry, sitemaps_in
from shoal.html.xml_stream import XmlStream, _doctype
from shoal.limits import ENTRY_ELEMENTS, ENTRY_LISTED, ENTRY_TEXT

NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def read(body: str | bytes, content_type: str = "text/xml") -> tuple[list[SitemapEntry], Sitemap]:
    document = Sitemap(body.encode() if isinstance(body, str) else body, content_type)
    return list(document), document


def urls(body: str | bytes, content_type: str = "text/xml") -> list[str]:
    return [entry.url for entry in read(body, content_type)[0]]


def urlset(*entries: str, more: str = "") -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {NS} {more}>{"".join(entries)}</urlset>'


def test_the_fields_of_the_protocol() -> None:
    [entry], document = read(
        urlset(
            "<url><loc> https://a.example/?x=1&amp;y=2 </loc><lastmod>2026-01-31</lastmod>"
            "<changefreq>daily</changefreq><priority>0.8</priority></url>"
        )
    )
    assert entry.url == "https://a.example/?x=1&y=2"
    assert entry.lastmod == "2026-01-31"
    assert entry.details == {"lastmod": "2026-01-31", "changefreq": "daily", "priority": "0.8"}
    assert (document.kind, document.broken, document.cut, document.problem) == ("urlset", 0, 0, "")


def test_extensions_are_kept_by_their_namespace_whatever_their_prefix() -> None:
    more = (
        'xmlns:i="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml"'
        ' xmlns:n="http://www.google.com/schemas/sitemap-news/0.9" xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
    )
    [entry], _ = read(
        urlset(
            "<url><loc>https://a.example/</loc>"
            "<i:image><i:loc>https://a.example/1.png</i:loc><i:title>One</i:title></i:image>"
            "<i:image><i:loc>https://a.example/2.png</i:loc></i:image>"
            '<xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/>'
            "<n:news><n:publication><n:name>Times</n:name></n:publication><n:title>T</n:title></n:news>"
            "<video:video><video:title>V</video:title><video:tag>a</video:tag><video:tag>b</video:tag></video:video>"
            "</url>",
            more=more,
        )
    )
    assert entry.details == {
        "images": [{"loc": "https://a.example/1.png", "title": "One"}, {"loc": "https://a.example/2.png"}],
        "alternates": [{"hreflang": "de", "href": "https://a.example/de"}],
        "news": {"publication": {"name": "Times"}, "title": "T"},
        "videos": [{"title": "V", "tag": ["a", "b"]}],
    }


def test_an_index_lists_sitemaps() -> None:
    entries, document = read(
        f"<sitemapindex {NS}><sitemap><loc>https://a.example/1.xml</loc><lastmod>2026-01-01</lastmod></sitemap>"
        "<sitemap><loc>https://a.example/2.xml</loc></sitemap></sitemapindex>"
    )
    assert [(entry.url, entry.is_sitemap, entry.lastmod) for entry in entries] == [
        ("https://a.example/1.xml", True, "2026-01-01"),
        ("https://a.example/2.xml", True, ""),
    ]
    assert document.kind == "sitemapindex"


BOTH = ["https://a.example/1", "https://a.example/2"]
ONE, TWO = (f"<url><loc>{url}</loc></url>" for url in BOTH)


@pytest.mark.parametrize(
    "body",
    [
        f"<urlset>{ONE}{TWO}</urlset>",  # no namespace
        f"\n\n  <?xml version='1.0'?><urlset>{ONE}{TWO}</urlset>",  # blanks before the declaration
        f"\ufeff<?xml version='1.0'?><urlset>{ONE}{TWO}</urlset>",
        f"<?xml version='1.0'><urlset>{ONE}{TWO}</urlset>",  # a declaration that is never closed
        f"<urlset>{ONE}<!-- <url><loc>https://a.example/no</loc></url> -->{TWO}</urlset>",
        f"<urlset>{ONE}<!- it's ->{TWO}</urlset>",
        f"<urlset>{ONE}{TWO}",  # cut between entries
        f"<urlset>{ONE}{TWO}<url><loc>https://a.exa",  # cut within one
        f"<urlset>{ONE}{TWO}</urlset>\n<script>junk</script>",
        f"{ONE}{TWO}",  # no root
        f"<urlset>{ONE.removesuffix('</url>')}{TWO.removesuffix('</url>')}</urlset>",
        "<URLSET><URL><LOC>https://a.example/1</LOC></URL><Url><Loc>https://a.example/2</Loc></Url></URLSET>",
        f"<ns0:urlset xmlns:ns0='http://www.sitemaps.org/schemas/sitemap/0.9'>{ONE}{TWO}</ns0:urlset>".replace(
            "<url>", "<ns0:url>"
        )
        .replace("</url>", "</ns0:url>")
        .replace("loc>", "ns0:loc>"),
        "<urlset><url><loc><![CDATA[https://a.example/1]]></loc></url>" + TWO + "</urlset>",
        "<urlset><url><loc>https://a.example/<!-- -->1</loc></url>" + TWO + "</urlset>",
        "<urlset><url><loc>https://a.example/1</loc></lastmod></b></url>" + TWO + "</urlset>",
        '<!DOCTYPE urlset [<!ENTITY a "<url>"> <!ENTITY b SYSTEM "file:///etc/passwd">]><urlset>' + ONE + TWO,
        f"<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='/main.xsl'?><urlset>{ONE}{TWO}</urlset>",
        f"<div><urlset>{ONE}{TWO}</urlset></div>",
        f"<urlset\n{NS}\nxsi:schemaLocation='a>b'>{ONE}{TWO}</urlset>",
        f'<urlset broken="{NS[:5]}>{ONE}{TWO}</urlset>',  # a quote that is never closed
        "https://a.example/1\nhttps://a.example/2",
        "\ufeffhttps://a.example/1\r\n\r\n# two\r\n  https://a.example/2\r\n",
    ],
)
def test_what_is_broken_is_read_as_it_is_meant(body: str) -> None:
    assert urls(body) == BOTH


def test_an_unescaped_ampersand_is_one_and_a_reference_needs_its_semicolon() -> None:
    assert urls("<urlset><url><loc>https://a.example/?a=1&b=2&copy=3&amp;d=4&#38;e</loc></url></urlset>") == [
        "https://a.example/?a=1&b=2&copy=3&d=4&e"
    ]


@pytest.mark.parametrize("codec", ["utf-8", "iso-8859-1", "utf-16"])
def test_the_declared_encoding_is_used(codec: str) -> None:
    xml = (
        f'<?xml version="1.0" encoding="{codec}"?><urlset><url><loc>https://a.example/é</loc></url></urlset>'
    )
    assert urls(xml.encode(codec)) == ["https://a.example/é"]


def test_utf8_may_begin_after_a_head_of_plain_ascii() -> None:
    body = urlset(
        "<url><loc>https://a.example/x</loc></url>" * 500, "<url><loc>https://a.example/é</loc></url>"
    )
    assert urls(body)[-1] == "https://a.example/é"


def test_entries_without_a_url_are_counted() -> None:
    entries, document = read(urlset("<url><lastmod>2026</lastmod></url>", "<url><loc/></url>", ONE))
    assert [entry.url for entry in entries] == BOTH[:1]
    assert document.broken == 2
    entries, document = read("https://a.example/1\nmailto:x\nhttps://a.example/ 2\n", "text/plain")
    assert (len(entries), document.broken) == (1, 2)


def test_a_page_is_no_sitemap() -> None:
    for page in ("<!doctype html><html><body><url><loc>https://a.example/</loc></url>", "<HTML><p>x"):
        entries, document = read(page, "text/html")
        assert (entries, document.kind) == ([], "html")
    assert read("")[1].kind == read(" \n ")[1].kind == "empty"
    assert read("<opml><outline/></opml>")[1].kind == "xml"


def test_a_feed_may_stand_for_a_sitemap() -> None:
    [rss], _ = read(
        "<rss><channel><link>https://a.example/</link><image><url>https://a.example/i.png</url></image>"
        "<item><link>https://a.example/1</link><pubDate>Sat, 31 Jan 2026 10:00:00 GMT</pubDate></item></channel></rss>"
    )
    assert (rss.url, rss.lastmod) == ("https://a.example/1", "Sat, 31 Jan 2026 10:00:00 GMT")
    [atom], _ = read(
        '<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.example/"/>'
        '<entry><link href="https://a.example/1"/><updated>2026-01-31T10:00:00Z</updated></entry></feed>'
    )
    assert (atom.url, atom.lastmod) == ("https://a.example/1", "2026-01-31T10:00:00Z")


def test_gzip_files_are_unpacked_also_several_in_one() -> None:
    whole = urlset(ONE, TWO).encode()
    assert urls(gzip.compress(whole), "application/gzip") == BOTH
    assert urls(gzip.compress(whole[:60]) + gzip.compress(whole[60:]) + b"\0" * 10) == BOTH
    assert urls(gzip.compress("\n".join(BOTH).encode()), "application/x-gzip") == BOTH


def test_a_gzip_file_without_an_end_is_read_as_far_as_it_goes() -> None:
    packed = gzip.compress(
        urlset(*(f"<url><loc>https://a.example/{n}</loc></url>" for n in range(5_000))).encode()
    )
    entries, document = read(packed[: len(packed) // 2])
    assert 1_000 < len(entries) < 4_999
    assert entries[-1].url == f"https://a.example/{len(entries) - 1}"
    assert document.problem == "the gzip file has no end"
    broken = packed[: len(packed) // 2] + b"\xff" * 1000
    assert read(broken)[1].problem in ("the gzip file is broken", "the gzip file has no end")


@pytest.mark.slow
def test_a_bomb_is_cut_and_takes_no_memory() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(b"<a>" + b" " * 1_048_573) for _ in range(300)) + packer.flush()
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    try:
        document = Sitemap(bomb, most=64 << 20)
        assert list(document) == []
        assert document.problem == "more than 67,108,864 bytes"
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_entities_are_not_expanded() -> None:
    bomb = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    [url] = urls(
        f'<!DOCTYPE x [<!ENTITY a0 "ha">{bomb}]><urlset><url><loc>https://a.example/&a9;</loc></url></urlset>'
    )
    assert url == "https://a.example/&a9;"


DOCTYPES = [
    "<?pi it's ?><!ENTITY a 'b'>",
    '<?pi "?>',
    "<?pi ]> ?>",
    "<?pi <!-- ?>",
    "<?pi > [ ?>",
    "<??>",
    "<?>it's?>",
    "<!-- it's <?pi -->",
    "<!-->it's-->",
    '<!ENTITY a "it\'s <?pi <!-- ]>">',
    "<!ENTITY % a '<?pi'>",
    "<!ELEMENT urlset ANY><!ATTLIST urlset a CDATA #IMPLIED>",
]


@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
@pytest.mark.parametrize("inside", DOCTYPES)
def test_what_stands_in_a_document_type_is_passed_over(inside: str, size: int) -> None:
    text = f"<!DOCTYPE urlset [{inside}]><urlset>{ONE}{TWO}</urlset>"
    assert urls(text) == BOTH
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    stream = XmlStream(pieces, {"urlset": ("url",)})
    assert [element.first("loc") for element in stream if element is not None] == BOTH


@pytest.mark.parametrize("inside", DOCTYPES)
def test_a_document_type_ends_where_it_does_for_lxml(inside: str) -> None:
    text = f"<!DOCTYPE urlset [{inside}]><urlset/>"
    try:
        etree.fromstring(text, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError:  # no name of an instruction, "<!-->": read as they are meant
        assert inside in ("<??>", "<?>it's?>", "<!-->it's-->")


@pytest.mark.parametrize(
    "inside", ["<", "<!", "<!-", "<!--", "<!-- -", "<?", "<?pi ?", "'", '"', "[", "]", "->", "<!-->", "x"]
)
def test_little_of_a_document_type_is_kept_from_piece_to_piece(inside: str) -> None:
    """What is kept is looked at again with each piece: a whole document type would take the square of its length."""
    pieces = iter("[" + inside * 1_000)
    assert max(len(rest) for rest, _, _ in _doctype("<!DOCTYPE", 9, pieces)) <= 4


def hostile() -> Iterator[tuple[str, str]]:
    open_one = ONE.removesuffix("</url>")
    yield "tiny elements in one entry", f"<urlset>{open_one}{'<a/>' * 200_000}</url>{TWO}</urlset>"
    yield "deep", f"<urlset>{open_one}{'<a>' * 100_000}{'</a>' * 100_000}</url>{TWO}</urlset>"
    yield "a huge text", f"<urlset>{open_one}<x>{'y' * 3_000_000}</x></url>{TWO}</urlset>"
    yield "a huge tag", f"<urlset>{ONE}<x {'y' * 3_000_000}>{TWO}</urlset>"
    yield "signs", f"<urlset>{ONE}{'<' * 500_000}{TWO}</urlset>"
    yield "a comment without an end", f"<urlset>{ONE}{TWO}<!-- {'- ' * 1_000_000}"


@pytest.mark.slow
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in hostile()])
def test_hostile_documents_are_bounded_and_the_rest_is_read(body: str) -> None:
    assert urls(body) == BOTH


def test_what_is_left_out_is_counted() -> None:
    many = "".join(f"<image:image><image:loc>i{n}</image:loc></image:image>" for n in range(ENTRY_ELEMENTS))
    [entry], document = read(urlset(f"<url><loc>https://a.example/1</loc>{many}</url>"))
    assert len(entry.details["images"]) == ENTRY_LISTED
    assert document.cut == 1
    [entry], document = read(urlset(f"<url><loc>https://a.example/{'x' * 10_000}</loc></url>"))
    assert (len(entry.url), document.cut) == (ENTRY_TEXT, 1)


@given(
    st.integers(1, 40),
    st.sampled_from(
        [urlset(ONE, TWO), "<a b='c'>&lt;&#38;<![CDATA[x]]><!-- y -->&amp;</a>", "\n".join(BOTH)]
    ),
)
def test_it_does_not_matter_where_a_piece_ends(size: int, text: str) -> None:
    entries: dict[str, Any] = {"urlset": ("url",), "a": ("a",)}

    def parsed(pieces: list[str]) -> list[str]:
        found = XmlStream(pieces, entries)
        return [element.first("loc") or element.text for element in found if element is not None]

    assert parsed([text[at : at + size] for at in range(0, len(text), size)]) == parsed([text])


@given(st.binary() | st.text(alphabet="<>/!?[]-&;=\"' \nurlsetoc:CDATA#x").map(str.encode))
def test_nothing_raises(body: bytes) -> None:
    list(Sitemap(b"<urlset>" + body, "text/xml"))
    list(Sitemap(body))
    list(Sitemap(b"\x1f\x8b\x08" + body))
    sitemaps_in(body, most=1000)


def test_robots_txt_names_sitemaps() -> None:
    text = (
        "\ufeffUser-agent: *\nDisallow: /\nSitemap: https://a.example/1.xml\r\nsitemap:https://a.example/2.xml # new\r"
        " SITEMAP : https://a.example/1.xml\nNoSitemap: x\n"
    )
    assert sitemaps_in(text.encode(), most=500_000) == ["https://a.example/1.xml", "https://a.example/2.xml"]
    assert sitemaps_in(b"<html>Sitemap of our site", most=500_000) == []


def at(*date: int) -> float:
    return datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


HOURS = 3600.0


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T10:00:00Z", Moment(at(2026, 1, 31, 10), at(2026, 1, 31, 10))),
        ("2026-01-31T10:00:00.123+02:00", Moment(at(2026, 1, 31, 8), at(2026, 1, 31, 8))),
        ("2026-01-31T10:00+0200", Moment(at(2026, 1, 31, 8), at(2026, 1, 31, 8))),
        ("20260131T100000Z", Moment(at(2026, 1, 31, 10), at(2026, 1, 31, 10))),
        ("2026-01-31 10:00:00 UTC", Moment(at(2026, 1, 31, 10), at(2026, 1, 31, 10))),
        # Nobody knows in which zone: it is the 31st somewhere for 50 hours.
        ("2026-01-31", Moment(at(2026, 1, 31) - 14 * HOURS, at(2026, 2, 1) - 1 + 12 * HOURS)),
        ("2026-01-31T10:00:00", Moment(at(2026, 1, 31, 10) - 14 * HOURS, at(2026, 1, 31, 10) + 12 * HOURS)),
        ("2024-02", Moment(at(2024, 2, 1) - 14 * HOURS, at(2024, 3, 1) - 1 + 12 * HOURS)),
        ("2026", Moment(at(2026, 1, 1) - 14 * HOURS, at(2027, 1, 1) - 1 + 12 * HOURS)),
        ("Sat, 31 Jan 2026 10:00:00 GMT", Moment(at(2026, 1, 31, 10), at(2026, 1, 31, 10))),
        ("Sat, 31 Jan 2026 10:00:00 -0500", Moment(at(2026, 1, 31, 15), at(2026, 1, 31, 15))),
        ("31 Jan 26 10:00 EST", Moment(at(2026, 1, 31, 15), at(2026, 1, 31, 15))),
        *((junk, None) for junk in ("", "yesterday", "2026-02-31", "2026-13-01", "9" * 100, "0000-00-00")),
        ("2026-01-31T99:00:00Z", None),
    ],
)  # fmt: skip
def test_dates_are_as_exact_as_they_are_written(text: str, moment: Moment | None) -> None:
    assert read_date(text) == moment
