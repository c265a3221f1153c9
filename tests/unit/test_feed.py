"""Feeds: the entries of RSS, Atom and JSON Feed, and the page that follows; the Link header."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from shoal.html.feed import Feed, FeedEntry, NextPage
from shoal.html.json_parts import elements, scalar
from shoal.html.link_header import HeaderLink, linked, read_links
from shoal.limits import ENTRY_LISTED, SITEMAP_ENTRIES

RSS2 = """<?xml version="1.0"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom">
<channel><title>News</title><link>https://a.example/</link>
<atom:link rel="self" href="https://a.example/feed"/><atom:link rel="next" href="https://a.example/feed?page=2"/>
<item><title>One &amp; only</title><link>https://a.example/1?a&amp;b</link><guid isPermaLink="false">id-1</guid>
<pubDate>Sat, 31 Jan 2026 10:00:00 GMT</pubDate><category>x</category><category><![CDATA[y]]></category>
<dc:creator>Ann</dc:creator><enclosure url="https://a.example/1.mp3" type="audio/mpeg" length="5"/></item>
<item><guid>https://a.example/2</guid></item>
<item><title>nowhere</title><guid isPermaLink="false">https://a.example/3</guid></item>
</channel></rss>"""

RSS1 = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="https://a.example/"><title>N</title></channel>
<item rdf:about="https://a.example/1"><title>One</title><link>https://a.example/1</link><dc:date>2026-01-31</dc:date></item>
<item rdf:about="https://a.example/2"><title>Two</title></item></rdf:RDF>"""

ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/"><title>N</title>
<link href="/"/><link rel="next" href="?page=2"/>
<entry><title type="html">One</title><link rel="self" href="/api/1"/>
<link rel="alternate" type="application/json" href="/1.json"/><link href="/1"/><id>tag:1</id>
<published>2026-01-30T00:00:00Z</published><updated>2026-01-31T00:00:00Z</updated>
<author><name>Ann</name></author><category term="x" label="X"/></entry>
<entry><id>https://a.example/2</id></entry></feed>"""

JSON = """{"version": "https://jsonfeed.org/version/1.1", "next_url": "https://a.example/2.json", "items": [
{"id": 1, "url": "https://a.example/1", "title": "One", "date_published": "2026-01-31T00:00:00Z", "tags": ["x", 5],
 "authors": [{"name": "Ann"}], "attachments": [{"url": "https://a.example/1.mp3", "mime_type": "audio/mpeg"}]},
{"id": "https://a.example/2"}, {"id": "x"}, 7]}"""


def read(text: str | bytes, content_type: str = "") -> tuple[list[FeedEntry | NextPage], Feed]:
    feed = Feed(text.encode() if isinstance(text, str) else text, content_type)
    return list(feed), feed


def test_rss_2() -> None:
    found, feed = read(RSS2)
    assert found == [
        NextPage("https://a.example/feed?page=2"),
        FeedEntry(
            url="https://a.example/1?a&b",
            title="One & only",
            id="id-1",
            published="Sat, 31 Jan 2026 10:00:00 GMT",
            author="Ann",
            categories=("x", "y"),
            enclosures=({"url": "https://a.example/1.mp3", "type": "audio/mpeg", "length": "5"},),
        ),
        FeedEntry(url="https://a.example/2", id="https://a.example/2"),
    ]
    assert (feed.kind, feed.broken) == ("rss", 1)


def test_rss_1_and_its_predecessors() -> None:
    found, feed = read(RSS1)
    assert found == [
        FeedEntry("https://a.example/1", "One", published="2026-01-31"),
        FeedEntry("https://a.example/2", "Two"),
    ]
    assert feed.kind == "rdf"
    found, _ = read(
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://my.netscape.com/rdf/simple/0.9/">'
        "<item><title>T</title><link>https://a.example/1</link></item></rdf:RDF>"
    )
    assert found == [FeedEntry("https://a.example/1", "T")]
    found, _ = read(
        "<rss version='0.91'><channel><item><link> https://a.example/1\n</link></item></channel></rss>"
    )
    assert found == [FeedEntry("https://a.example/1")]


@pytest.mark.parametrize("prefix", ["", "a:"])
def test_atom(prefix: str) -> None:
    text = ATOM
    if prefix:
        text = (
            text.replace("xmlns=", "xmlns:a=")
            .replace("</", "</a:")
            .replace("<", "<a:")
            .replace("<a:/a:", "</a:")
        )
    found, feed = read(text)
    assert found == [
        NextPage("https://a.example/?page=2"),
        FeedEntry(
            url="https://a.example/1",
            title="One",
            id="tag:1",
            published="2026-01-30T00:00:00Z",
            updated="2026-01-31T00:00:00Z",
            author="Ann",
            categories=("X",),
        ),
        FeedEntry(url="https://a.example/2", id="https://a.example/2"),
    ]
    assert feed.kind == "feed"


def test_json_feed() -> None:
    found, feed = read(JSON)
    assert found == [
        FeedEntry(
            url="https://a.example/1",
            title="One",
            id="1",
            published="2026-01-31T00:00:00Z",
            author="Ann",
            categories=("x",),
            enclosures=({"url": "https://a.example/1.mp3", "type": "audio/mpeg"},),
        ),
        FeedEntry(url="https://a.example/2", id="https://a.example/2"),
        NextPage("https://a.example/2.json"),
    ]
    assert (feed.kind, feed.broken) == ("json", 2)


ODD_ITEM = """{"url": "https://a.example/odd", "id": {"a": 1}, "title": ["x"], "date_published": 5,
 "date_modified": null, "tags": {"a": "b"}, "authors": ["Ann"], "attachments": [7, [], {"url": 5}, {"url": "https://a.example/1.mp3"}]}"""


@pytest.mark.parametrize(
    ("items", "urls", "broken"),
    [
        (ODD_ITEM, ["https://a.example/odd"], 0),
        ('[1], "x", null, {"url": 5}', [], 4),
        ('{"url": [[]], "external_url": "https://a.example/e"}', ["https://a.example/e"], 0),
        ('{"url": "https://a.example/a", "id": 1e999, "x": 1e999}', ["https://a.example/a"], 0),
        ('{"url": "https://a.example/\\u00e9,]}\\""}', ['https://a.example/é,]}"'], 0),
        ('{"url": "https://a.example/a", "url": "https://a.example/b"}', ["https://a.example/b"], 0),
    ],
)
def test_a_field_of_a_wrong_type_is_passed_over_and_the_other_items_are_kept(
    items: str, urls: list[str], broken: int
) -> None:
    last = "https://a.example/last"
    found, feed = read(f'{{"items": [ {items} ,\n{{"url": "{last}"}}], "next_url": [5]}}')
    assert [entry.url for entry in found] == [*urls, last]
    assert (feed.broken, feed.problem) == (broken, "")
    if items is ODD_ITEM:
        assert found[0] == FeedEntry(urls[0], enclosures=({"url": "https://a.example/1.mp3", "type": ""},))


SIZE = 1_000_000  # characters


def bombs() -> dict[str, str]:
    """What may be millions of objects."""
    lists, numbers = "[[[]]]," * (SIZE // 7) + "0", "0," * (SIZE // 2) + "0"
    fields = ("tags", "authors", "attachments", "title", "url", "id", "author", "x")
    item = '{"items": [{"external_url": "https://a.example/1", "%s": [%s]}]}'
    return {
        "beside the items": f'{{"items": [], "x": [{lists}]}}',
        "next_url": f'{{"items": [], "next_url": [{lists}]}}',
        "items": f'{{"items": [{lists}]}}',
        "empty items": f'{{"items": [{"{}," * (SIZE // 3)}0]}}',
        **{f"{name} of an item": item % (name, lists) for name in fields},
        "many tags": item % ("tags", numbers),
        "an author's name": f'{{"items": [{{"author": {{"name": [{lists}]}}}}]}}',
        "a title": f'{{"items": [{{"title": "{"x" * SIZE}\U0001f600"}}]}}',
    }


@pytest.mark.parametrize("name", bombs())
def test_a_json_feed_takes_little_more_memory_than_its_text(name: str) -> None:
    """A field's value of every type would be made of objects, thirty times as large as the text."""
    body = gzip.compress(bombs()[name].encode(), 1)
    list(Feed(JSON.encode()))  # what is made once
    tracemalloc.start()
    try:
        feed = Feed(body, "application/json")
        found = sum(1 for _ in feed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (feed.kind, feed.problem) == ("json", "")
    assert found == ("of an item" in name or name == "many tags")
    assert peak < 3 * SIZE


def test_a_json_feed_is_read_up_to_a_number_of_items() -> None:
    most = 10 * SITEMAP_ENTRIES
    found, feed = read('{"items": [' + '{"url": "/a"},' * most + '{"url": "/b"}, 5, 6], "next_url": "/2"}')
    assert (len(found), found[-1]) == (most + 1, NextPage("/2"))
    assert (feed.cut, feed.broken) == (1, 0)
    turns = [entry for entry in Feed(b'{"items": [' + b"5," * most + b"5]}").read() if entry is None]
    assert len(turns) >= most // 1_000


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists),
    st.sampled_from([None, 0, 2]),
)
def test_elements_of_an_array_are_found(value: object, indent: int | None) -> None:
    text = memoryview(json.dumps(value, indent=indent).encode())
    assert [json.loads(bytes(one)) for one in elements(text, 10**9)] == (
        value if isinstance(value, list) else []
    )
    assert scalar(text) == (None if isinstance(value, list) else value)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 100, 101, 1_000, 1_001, 2_500])
def test_elements_are_found_however_many_there_are(count: int) -> None:
    text = memoryview(json.dumps(list(range(count))).encode())
    assert [int(bytes(one)) for one in elements(text, count + 5)] == list(range(count))
    assert len(list(elements(text, count // 2))) == count // 2


def test_a_list_of_an_item_is_read_up_to_a_length() -> None:
    [entry], _ = read(json.dumps({"items": [{"url": "/a", "tags": ["x"] * (ENTRY_LISTED + 1)}]}))
    assert isinstance(entry, FeedEntry)
    assert len(entry.categories) == ENTRY_LISTED


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("{nothing", "json", "not JSON"),
        ('{"items": 5}', "json", "no JSON Feed"),
        ('{"a":' * 5_000, "json", "not JSON"),
        ("<html>", "html", ""),
        ("<urlset/>", "xml", ""),
        ("hello", "text", ""),
        ("", "empty", ""),
    ],
)
def test_what_is_no_feed_is_told(text: str, kind: str, problem: str) -> None:
    found, feed = read(text)
    assert (found, feed.kind) == ([], kind)
    assert feed.problem.startswith(problem)


@given(st.text().map(str.encode) | st.binary())
def test_nothing_raises(body: bytes) -> None:
    for start in (b"", b"<rss><item>", b'{"items":[', b"<feed><entry>"):
        list(Feed(start + body))


# -- Link headers

URL = "https://a.example/list?page=1"


def links(*values: str) -> list[HeaderLink]:
    return read_links(CIMultiDict(("Link", value) for value in values), URL)


def test_links_of_a_header_by_rfc_8288() -> None:
    assert links(
        '<https://a.example/list?page=2>; rel="next", <?page=9>; rel="last prefetch"; title="The, end; \\"here\\""',
        "</style.css>;rel=preload;as=style;crossorigin",
    ) == [
        HeaderLink("https://a.example/list?page=2", ("next",)),
        HeaderLink("https://a.example/list?page=9", ("last", "prefetch"), {"title": 'The, end; "here"'}),
        HeaderLink("https://a.example/style.css", ("preload",), {"as": "style", "crossorigin": ""}),
    ]
    assert links("<x,y>; rel=NEXT; rel=prev") == [HeaderLink("https://a.example/x,y", ("next",))]
    assert linked({"Link": "<?page=2>; rel=next, <?page=2>; rel=next"}, URL, "Next") == [
        "https://a.example/list?page=2"
    ]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "junk",
        "<",
        "<a",
        "a; rel=next",
        "<javascript:x>; rel=next",
        '<a>; rel="next',
        "<b>; anchor=x; rel=next",
        ",,,",
    ],
)
def test_junk_is_passed_over(value: str) -> None:
    assert [link for link in links(value) if "next" in link.rel] == []
    if '"' not in value:
        assert links(f"{value}, <ok>; rel=next")[-1].url == "https://a.example/ok"


@given(st.text(alphabet='<>;,="\\ abrel'))
def test_no_header_raises(value: str) -> None:
    links(value)
