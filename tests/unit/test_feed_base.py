"""xml:base in feeds: the bases of all elements around a URL, one resolved against the other (W3C, XML Base)."""

from __future__ import annotations

import feedparser  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.html.feed import Feed, FeedEntry, NextPage
from shoal.html.page_links import join
from shoal.html.sitemap import Sitemap
from shoal.html.xml_base import inner_base, resolved

URL = "http://h.example/x/f.xml"
ATOM = 'xmlns="http://www.w3.org/2005/Atom"'


def urls(text: str) -> list[str | None]:
    """Of the entries, as whoever fetched the feed resolves them."""
    return [join(URL, entry.url) for entry in Feed(text.encode()) if isinstance(entry, FeedEntry)]


def next_pages(text: str) -> list[str | None]:
    return [join(URL, page.url) for page in Feed(text.encode()) if isinstance(page, NextPage)]


def atom(feed: str, entry: str = "", link: str = "", href: str = "post1") -> str:
    def base(value: str) -> str:
        return f'xml:base="{value}"' if value else ""

    return (
        f'<feed {ATOM} {base(feed)}><link rel="next" {base(link)} href="{href}"/>'
        f'<entry {base(entry)}><title>a</title><link {base(link)} href="{href}"/></entry></feed>'
    )


def by_feedparser(text: str) -> tuple[list[str], list[str]]:
    parsed = feedparser.parse(text.encode(), response_headers={"content-location": URL})
    following = [link.href for link in parsed.feed.get("links", ()) if link.get("rel") == "next"]
    return [entry.link for entry in parsed.entries], following


def test_a_relative_base_stays_relative_to_the_document() -> None:
    [following, entry] = Feed(atom("/blog/", "2026/").encode())
    assert (following.url if following else "", entry.url if entry else "") == (
        "/blog/post1",
        "/blog/2026/post1",
    )
    assert [one.url for one in Sitemap(atom("/blog/", "2026/").encode())] == ["/blog/2026/post1"]


@pytest.mark.parametrize(
    ("bases", "entry", "following"),
    [
        (("/blog/", "2026/"), "/blog/2026/post1", "/blog/post1"),
        (("blog/", "2026/", "01/"), "/x/blog/2026/01/post1", "/x/blog/01/post1"),
        (("../blog/", "../../2026/"), "/2026/post1", "/blog/post1"),
        (("http://h.example/blog/", "2026/"), "/blog/2026/post1", "/blog/post1"),
        (("/blog/index.xml", "2026"), "/blog/post1", "/blog/post1"),
        (("/blog/", "/2026/"), "/2026/post1", "/blog/post1"),
        (("", "/2026/", "01/"), "/2026/01/post1", "/x/01/post1"),
        (("/blog/", "", ""), "/blog/post1", "/blog/post1"),
        (("/blog/", "http://other.example/o/"), "http://other.example/o/post1", "/blog/post1"),
        (
            ("//other.example/o/", "2026/"),
            "http://other.example/o/2026/post1",
            "http://other.example/o/post1",
        ),
        (("http://other.example", "2026/"), "http://other.example/2026/post1", "http://other.example/post1"),
        (("/blog/", "//other.example"), "http://other.example/post1", "/blog/post1"),
        # A base that leads nowhere is passed over, and the one around it holds.
        (("/blog/", "javascript:alert(1)"), "/blog/post1", "/blog/post1"),
        (("javascript:alert(1)", "2026/"), "/x/2026/post1", "/x/post1"),
        (("http://h.example/blog/", "http://["), "/blog/post1", "/blog/post1"),
        (("//[", "2026/"), "/x/2026/post1", "/x/post1"),
        (("/blog/", "mailto:a@a.example"), "/blog/post1", "/blog/post1"),
    ],
)
def test_bases_are_resolved_one_against_the_other(bases: tuple[str, ...], entry: str, following: str) -> None:
    text = atom(*bases)
    expected = [join(URL, entry)], [join(URL, following)]
    assert (urls(text), next_pages(text)) == expected
    # feedparser makes an unknown host of "http://[", and takes mailto: for a base.
    if not any(odd in base for odd in ("[", "mailto:") for base in bases):
        assert by_feedparser(text) == expected


RSS = """<rss xml:base="/a/"><channel xml:base="b/"><atom:link rel="next" xml:base="n/" href="2"/>
<item xml:base="c/"><link xml:base="d/">1</link><enclosure url="1.mp3"/></item>
<item><title>as in Atom</title><link href="2"/></item>
<item><link>http://other.example/3</link></item>
<item><guid>http://other.example/4</guid></item></channel></rss>"""


def test_rss() -> None:
    assert urls(RSS) == [
        "http://h.example/a/b/c/d/1",
        "http://h.example/a/b/2",
        "http://other.example/3",
        "http://other.example/4",
    ]
    assert next_pages(RSS) == ["http://h.example/a/b/n/2"]
    assert by_feedparser(RSS)[0] == urls(RSS)
    [_, first, *_] = Feed(RSS.encode())
    assert isinstance(first, FeedEntry)
    assert first.enclosures == ({"url": "/a/b/c/1.mp3"},)


@pytest.mark.parametrize(
    "around",
    [
        '<channel xml:base="c/"><title/></channel>%s',
        '<channel xml:base="c/"><item><link>/before</link></channel>%s',  # an item that is never closed
        '<x xml:base="c/"><x></x><x/></x>%s',
        '<x><y xml:base="c/"></x></y>%s',
        '<x xml:base="c/"/>%s',
        "</x></channel>%s",
    ],
)
def test_a_base_ends_with_its_element(around: str) -> None:
    items = around % '<item rdf:about="1"><title>a</title></item>'
    assert urls(f'<rdf:RDF xml:base="/a/">{items}</rdf:RDF>')[-1] == "http://h.example/a/1"


@pytest.mark.parametrize("around", ["<x><x>%s</x></x>", "<x></x>%s", "<x/>%s", "</z>%s", "<y><x></x>%s</y>"])
def test_and_not_before(around: str) -> None:
    items = around % "<item><link>1</link></item>"
    assert urls(f'<rss xml:base="/a/"><x xml:base="b/">{items}</x></rss>') == ["http://h.example/a/b/1"]


def test_many_and_long_bases_are_bounded() -> None:
    many = '<x xml:base="b/">' * 10_000 + "<item><link>1</link></item>" + "</x>" * 10_000
    [url] = urls(f"<rss>{many}<item><link>2</link></item></rss>")[:1]
    assert url is not None
    assert len(url) < 200
    assert urls(f"<rss>{many}<item><link>2</link></item></rss>")[1] == "http://h.example/x/2"
    long = f"/{'b' * 3_000}/"
    assert urls(atom(long, "2026/")) == ["http://h.example/x/2026/post1"]
    assert len(urls(atom(f"/{'b' * 2_000}/", f"{'c' * 2_000}/"))[0] or "") < 2_100


SEGMENTS = st.sampled_from(["a", "b.c", "..", ".", "", "%2e", ".%2E", "é", "%", ";", "@", " "])
PATHS = st.lists(SEGMENTS, max_size=4).map("/".join)
ENDS = st.sampled_from(["", "?", "?q/../r", "#f", "?q#f/../g", "#"])
STARTS = st.sampled_from(
    ["", "/", "//other.example", "//other.example/", "\\", "http://third.example/", "javascript:", "//["]
)
REFERENCES = st.tuples(STARTS, PATHS, ENDS).map("".join)


@given(st.lists(REFERENCES, max_size=4), REFERENCES.filter(lambda url: bool(url.strip())))
@example(["a/.."], "b")
@example(["//other.example?q"], "b")
@example(["?q"], "#f")
@example(["\t/a\n/ "], "b")
def test_the_result_is_that_of_resolving_one_after_the_other(bases: list[str], target: str) -> None:
    base, url = "", URL
    for given_base in bases:
        base = inner_base(base, given_base)
        url = join(url, given_base) or url
    assert join(URL, resolved(base, target)) == join(url, target)
