"""What is taken from a sitemap or a feed: its pages, the rest of a long file, and counts of what is left out."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from shoal import Feed, Page, Request, Sitemap, Spider
from shoal.errors import SpiderError
from shoal.limits import ENTRY_META, SITEMAP_DEPTH, SITEMAP_ENTRIES
from shoal.model.built_in import FEED, ROBOTS, SITEMAP
from shoal.spider import source_handlers
from shoal.spider.handlers import collect
from shoal.spider.start_sources import SourceNote, read_note
from shoal.testing import page as make_page

SITE = "https://shop.example"
MAP = f"{SITE}/sitemap.xml"


async def handled(
    body: str | bytes, request: Request | None = None, *, url: str = MAP, status: int = 200, **headers: str
) -> tuple[list[Request], Page]:
    """What the handler of the request yields for such an answer."""
    request = request or Sitemap(MAP).request()
    content = body.encode() if isinstance(body, str) else body
    page = make_page(
        content,
        url,
        status=status,
        headers={"Content-Type": "text/xml", **headers},
        handler=request.handler,
        meta=request.meta,
    )
    page.task = replace(page.task, headers=request.headers, lane=request.lane or "discovery")
    spider = Spider("any")
    spider.handler(make_page)  # every spider has one, which is not called here
    handler = spider.handler_named(request.handler)
    yielded = await collect(handler, page, deadline=time.monotonic() + 60, monotonic=time.monotonic)
    assert not yielded.items
    return yielded.requests, page


def urlset(*urls: str, lastmod: str = "") -> str:
    dated = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    return f"<urlset>{''.join(f'<url><loc>{url}</loc>{dated}</url>' for url in urls)}</urlset>"


def index(*urls: str, lastmod: str = "") -> str:
    dated = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc>{dated}</sitemap>' for url in urls)}</sitemapindex>"


def note_of(request: Request) -> SourceNote:
    return read_note(request.meta)


async def test_entries_are_start_pages_of_the_handler_with_what_the_sitemap_says() -> None:
    asked = Sitemap(MAP, handler="product", meta={"shop": 7}).request()
    assert (asked.handler, asked.lane, asked.depth) == (SITEMAP, "discovery", 0)
    requests, page = await handled(urlset(f"{SITE}/1", "/2", lastmod="2026-01-31"), asked)
    assert [(one.url, one.handler, one.depth, one.base) for one in requests] == [
        (f"{SITE}/1", "product", 0, MAP),
        ("/2", "product", 0, MAP),
    ]
    assert requests[0].meta == {"shop": 7, "sitemap": {"lastmod": "2026-01-31"}}
    assert requests[0].lane is None  # as its handler says
    assert page._counts == {"sitemaps read": 1, "sitemap entries": 2}


async def test_an_index_leads_to_files_of_the_same_source() -> None:
    asked = Sitemap(MAP, include="x", since="2026-01-31", handler="product", sitemaps="products").request()
    files = (
        f"{SITE}/products-1.xml",
        f"{SITE}/blog.xml",
        "https://cdn.shop.example/products.xml",
        "https://other.example/products",
    )
    requests, page = await handled(index(*files), asked)
    assert [(one.url, one.handler, one.lane) for one in requests] == [
        (url, SITEMAP, "discovery") for url in (files[0], files[2], files[3])
    ]
    assert [note_of(one) for one in requests] == [replace(note_of(asked), nested=1)] * 3
    # The scope decides about those elsewhere; a pattern for pages must not keep out the files of the site.
    assert [one.anywhere for one in requests] == [True, True, False]
    assert all(one.max_body is not None and one.max_body > 50 << 20 for one in requests)
    assert page._counts["sitemaps left out"] == 1


async def test_indexes_in_one_another_have_an_end() -> None:
    asked = Sitemap(MAP).request()
    deep = replace(asked, meta=replace(note_of(asked), nested=SITEMAP_DEPTH).as_meta())
    requests, page = await handled(index(f"{SITE}/deeper.xml"), deep)
    assert (requests, page._counts["sitemaps nested too deep"]) == ([], 1)


async def test_patterns_choose_among_pages() -> None:
    asked = Sitemap(MAP, include=[r"/p/", r"/q/"], exclude=r"\?print").request()
    requests, page = await handled(
        urlset(f"{SITE}/p/1", f"{SITE}/blog", f"{SITE}/q/1?print", f"{SITE}/q/2"), asked
    )
    assert [one.url for one in requests] == [f"{SITE}/p/1", f"{SITE}/q/2"]
    assert page._counts["sitemap entries left out"] == 2


async def test_a_handler_for_each_kind_of_page() -> None:
    asked = Sitemap(MAP, handler={r"/p/": "product", r"/p|/q": "category"}).request()
    requests, page = await handled(urlset(f"{SITE}/p/1", f"{SITE}/q/1", f"{SITE}/blog"), asked)
    assert [(one.url, one.handler) for one in requests] == [
        (f"{SITE}/p/1", "product"),
        (f"{SITE}/q/1", "category"),
    ]
    assert page._counts["sitemap entries left out"] == 1


@pytest.mark.parametrize(
    ("lastmod", "is_taken"),
    [
        ("", True),  # nobody knows
        ("soon", True),
        ("2026-03-02T00:00:00Z", True),
        ("2026-02-28T00:00:01Z", True),  # within the margin of a day
        ("2026-02-27T23:59:59Z", False),
        ("2026-02-27", True),  # the day ends later than that, and later still in Alaska
        ("2026-02-26", False),
        ("2026-02", True),
        ("2025", False),
    ],
)  # fmt: skip
async def test_only_what_has_changed_since_then(lastmod: str, is_taken: bool) -> None:
    asked = Sitemap(MAP, since="2026-03-01T00:00:00Z").request()
    pages, page = await handled(urlset(f"{SITE}/1", lastmod=lastmod), asked)
    files, _ = await handled(index(f"{SITE}/1.xml", lastmod=lastmod), asked)
    assert (bool(pages), bool(files)) == (is_taken, is_taken)
    assert page._counts.get("sitemap entries not changed", 0) == (not is_taken)


async def test_a_long_file_is_queued_in_parts_without_a_gap() -> None:
    urls = [f"{SITE}/{number}" for number in range(SITEMAP_ENTRIES + 5)]
    first, page = await handled(urlset(*urls))
    assert len(first) == SITEMAP_ENTRIES + 1
    rest = first[-1]
    assert (rest.url, rest.handler, rest.dedupe, note_of(rest).offset) == (
        MAP,
        SITEMAP,
        False,
        SITEMAP_ENTRIES,
    )
    second, other = await handled(urlset(*urls), rest)
    assert [one.url for one in (*first[:-1], *second)] == urls
    assert page._counts["sitemap entries"] + other._counts["sitemap entries"] == len(urls)
    assert page._counts["sitemaps read"] + other._counts.get("sitemaps read", 0) == 1


async def test_a_file_that_changes_meanwhile_is_taken_as_a_whole() -> None:
    urls = [f"{SITE}/{number}" for number in range(SITEMAP_ENTRIES + 5)]
    *_, rest = (await handled(urlset(*urls)))[0]
    changed = urls[2:]  # what follows has other places now
    second, page = await handled(urlset(*changed), rest)
    assert [one.url for one in second] == changed
    assert page._counts["sitemaps that changed while they were read"] == 1
    shorter, _ = await handled(urlset(*urls[:7]), rest)
    assert [one.url for one in shorter] == urls[:7]


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    """Entries that are queued at once of a file that cannot be read in parts: fewer, as to read all takes seconds."""
    assert source_handlers._ALL == 10 * SITEMAP_ENTRIES
    monkeypatch.setattr(source_handlers, "_ALL", SITEMAP_ENTRIES + 500)
    return SITEMAP_ENTRIES + 500


async def test_a_file_that_is_another_one_each_time_has_an_end(most: int) -> None:
    many = [f"{SITE}/{number}" for number in range(most + 200)]
    rest, changes = Sitemap(MAP).request(), 0
    while True:
        found, page = await handled(urlset(f"{SITE}/new/{changes}", *many), rest)
        if found[-1].handler != SITEMAP:
            break
        rest, changes = found[-1], changes + 1
    assert changes == 3
    assert len(found) == most
    assert page._counts["sitemaps cut"] == 1


async def test_a_feed_larger_than_any_is_cut_and_counted(most: int) -> None:
    many = "".join(f"<item><link>{SITE}/{number}</link></item>" for number in range(most + 3))
    found, page = await handled(f"<rss>{many}</rss>", Feed(MAP).request())
    assert (len(found), page._counts["feed entries cut"]) == (most, 3)


@pytest.mark.slow
@pytest.mark.parametrize("junk", ["<", "<a>", "<url/>", "<!-- -->", "x\n"])
async def test_a_hostile_file_leaves_turns_to_others(junk: str) -> None:
    body = ("" if junk == "x\n" else "<urlset>") + junk * ((1 << 20) // len(junk))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    running = asyncio.create_task(others())
    for source in (Sitemap(MAP), Feed(MAP)) if junk.startswith("<") else (Sitemap(MAP),):
        turns = 0
        with suppress(SpiderError):
            await handled(body, source.request())
        assert turns >= len(body) // (128 * 1024)
    running.cancel()


async def test_robots_txt_leads_to_sitemaps_wherever_they_are() -> None:
    asked = Sitemap(SITE, include="x").request()
    assert (asked.url, asked.handler) == (f"{SITE}/robots.txt", ROBOTS)
    assert Sitemap.from_robots(f"{SITE}/deep/page?x", include="x").request() == asked
    found, _ = await handled("Sitemap: https://cdn.example/1.xml\nSitemap: /2.xml", asked, url=asked.url)
    assert [(one.url, one.handler, one.anywhere, note_of(one)) for one in found] == [
        (url, SITEMAP, True, note_of(asked)) for url in ("https://cdn.example/1.xml", "/2.xml")
    ]


@pytest.mark.parametrize(
    ("status", "body"), [(404, "Sitemap: /no.xml"), (200, "User-agent: *"), (200, "<html>")]
)
async def test_without_one_the_usual_place_is_tried(status: int, body: str) -> None:
    asked = Sitemap(SITE).request()
    [found], page = await handled(body, asked, url=asked.url, status=status)
    assert found.url == "/sitemap.xml"
    assert page._counts["robots.txt without a sitemap"] == 1


@pytest.mark.parametrize("body", ["<html><body>not found", "", "hello", "<opml/>"])
async def test_what_is_no_sitemap_is_an_error_that_says_so(body: str) -> None:
    with pytest.raises(SpiderError, match="is no sitemap"):
        await handled(body)
    with pytest.raises(SpiderError, match="is no feed"):
        await handled(body, Feed(MAP).request())


async def test_an_empty_list_is_one(caplog: pytest.LogCaptureFixture) -> None:
    assert (await handled("<urlset/>"))[0] == []
    assert "lists nothing" in caplog.text


async def test_headers_stay_with_their_origin() -> None:
    asked = Sitemap(Request(MAP, headers={"Authorization": "x"}, session="s", pool="p")).request()
    assert asked.headers == {"Authorization": "x"}
    found, _ = await handled(index(f"{SITE}/1.xml", "https://other.example/1.xml"), asked)
    assert [one.headers for one in found] == [{"Authorization": "x"}, None]
    found, _ = await handled(urlset(f"{SITE}/1", "https://other.example/1"), asked)
    assert [one.headers for one in found] == [{"Authorization": "x"}, None]


async def test_details_that_are_too_many_are_left_out_and_counted() -> None:
    images = "".join(
        f"<image:image><image:loc>{SITE}/{'i' * 50}{n}</image:loc></image:image>" for n in range(999)
    )
    assert len(images) > ENTRY_META
    body = f"<urlset><url><loc>{SITE}/1</loc><lastmod>2026</lastmod>{images}</url></urlset>"
    [request], page = await handled(body)
    assert request.meta == {"sitemap": {"lastmod": "2026"}}
    assert page._counts["sitemap entries with too many details"] == 1
    [request], _ = await handled(body, Sitemap(MAP, details=False).request())
    assert request.meta is None


async def test_translations_on_request() -> None:
    body = f'<urlset><url><loc>{SITE}/1</loc><xhtml:link hreflang="de" href="{SITE}/de/1"/></url></urlset>'
    assert [one.url for one in (await handled(body))[0]] == [f"{SITE}/1"]
    found, _ = await handled(body, Sitemap(MAP, alternates=True).request())
    assert [one.url for one in found] == [f"{SITE}/1", f"{SITE}/de/1"]


RSS = (
    f"<rss><channel><item><title>One</title><link>{SITE}/1</link><pubDate>Sat, 31 Jan 2026 10:00:00 GMT</pubDate>"
    f"</item><item><link>{SITE}/2</link></item></channel></rss>"
)


async def test_a_feed_gives_its_pages_and_what_it_says_of_them() -> None:
    asked = Feed(f"{SITE}/feed").request()
    assert asked.handler == FEED
    found, page = await handled(RSS, asked)
    assert [one.url for one in found] == [f"{SITE}/1", f"{SITE}/2"]
    assert found[0].meta == {"feed": {"title": "One", "published": "Sat, 31 Jan 2026 10:00:00 GMT"}}
    assert page._counts == {"feeds read": 1, "feed entries": 2}


async def test_pages_of_a_feed_are_read_as_many_as_asked_for() -> None:
    link = {"Link": f'<{SITE}/feed?page=2>; rel="next"'}
    assert len((await handled(RSS, Feed(f"{SITE}/feed").request(), **link))[0]) == 2
    found, _ = await handled(RSS, Feed(f"{SITE}/feed", pages=3).request(), **link)
    assert (found[-1].url, found[-1].handler, note_of(found[-1]).pages) == (f"{SITE}/feed?page=2", FEED, 2)
    # Once nothing on a page is new, nothing behind it is.
    old = RSS.replace(f"<item><link>{SITE}/2</link></item>", "")
    assert (await handled(old, Feed(f"{SITE}/feed", pages=3, since="2026-06-01").request(), **link))[0] == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sitemap("no url"), "is not a URL"),
        (lambda: Sitemap(5), "give a URL or a Request"),  # type: ignore[arg-type]
        (lambda: Sitemap(MAP, include="("), "not a regular expression"),
        (lambda: Sitemap(MAP, handler={"(": "a"}), "not a regular expression"),
        (lambda: Spider("a", start=[Sitemap(MAP), "x", Sitemap(MAP)]), "is there twice"),
        (lambda: Sitemap(MAP, since="gestern"), "give a date"),
        (lambda: Sitemap(MAP, margin=-1), "give seconds"),
        (lambda: Feed(MAP, pages=0), "whole number"),
        (lambda: Spider("a").add_handler(make_page, name="shoal:mine"), "begin with shoal:"),
    ],
)
def test_mistakes_are_told_where_they_are_made(make: Any, said: str) -> None:
    with pytest.raises(SpiderError, match=said):
        make()
