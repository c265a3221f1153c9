"""Sitemaps and feeds as other parsers read them: lxml and feedparser."""

from __future__ import annotations

from calendar import timegm
from html import escape

import feedparser  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from tests.unit.test_feed import ATOM, RSS1, RSS2

from shoal.html.feed import Feed, FeedEntry
from shoal.html.feed_dates import read_date
from shoal.html.sitemap import Sitemap

NS = "http://www.sitemaps.org/schemas/sitemap/0.9"
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"])
TEXTS = st.text(CHARACTERS, min_size=1, max_size=30).filter(lambda text: bool(text.strip()))


def written(text: str, way: int) -> str:
    """The text in XML, in one of several ways."""
    if way == 0 and "]]>" not in text:
        return f"<![CDATA[{text}]]>"
    if way == 1:
        return "".join(f"&#{ord(sign)};" for sign in text)
    return escape(text)


@st.composite
def sitemaps(draw: st.DrawFn) -> str:
    prefix = draw(st.sampled_from(["", "s:", "ns0:"]))
    name = f"xmlns:{prefix[:-1]}" if prefix else "xmlns"
    entries = []
    for loc, lastmod in draw(st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=5)):
        way = draw(st.integers(0, 2))
        dated = "" if lastmod is None else f"<{prefix}lastmod>{written(lastmod, way)}</{prefix}lastmod>"
        blank = draw(st.sampled_from(["", "\n  ", "<!-- <url> -->"]))
        entries.append(
            f"<{prefix}url>{blank}<{prefix}loc>{written(loc, way)}</{prefix}loc>{dated}</{prefix}url>"
        )
    head = draw(
        st.sampled_from(
            ["", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='utf-8' ?>\n<!-- x -->\n"]
        )
    )
    return f'{head}<{prefix}urlset {name}="{NS}">{"".join(entries)}</{prefix}urlset>'


def by_lxml(text: str) -> list[tuple[str, str]]:
    root = etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False, no_network=True))
    return [
        ((url.findtext(f"{{{NS}}}loc") or "").strip(), (url.findtext(f"{{{NS}}}lastmod") or "").strip())
        for url in root.iter(f"{{{NS}}}url")
    ]


@given(sitemaps())
def test_well_formed_sitemaps_are_read_as_lxml_does(text: str) -> None:
    assert [(entry.url, entry.lastmod) for entry in Sitemap(text.encode())] == by_lxml(text)


@pytest.mark.parametrize("text", [RSS2, RSS1, ATOM])
def test_feeds_are_read_as_feedparser_does(text: str) -> None:
    mine = [entry for entry in Feed(text.encode()) if isinstance(entry, FeedEntry)]
    # A guid that is no permalink is no URL of a page; feedparser has no link there, either.
    theirs = [entry for entry in feedparser.parse(text).entries if entry.get("link")]
    if text is RSS1:
        # An item without a link has its URL in rdf:about, which is the same by RSS 1.0. feedparser takes it for an id.
        assert mine.pop().url == "https://a.example/2"
    assert [entry.url for entry in mine] == [entry.link for entry in theirs]
    assert [entry.title for entry in mine] == [entry.get("title", "") for entry in theirs]
    assert [list(entry.categories) for entry in mine] == [
        [tag.get("label") or tag.term for tag in entry.get("tags", [])] for entry in theirs
    ]
    assert [entry.author for entry in mine] == [entry.get("author", "") for entry in theirs]
    for entry, other in zip(mine, theirs, strict=True):
        parsed = other.get("published_parsed")
        moment = read_date(entry.published)
        if parsed is not None and moment is not None:
            assert moment.earliest <= timegm(parsed) <= moment.latest
