"""What a page asks of robots. The cases of the headers are those of Google's documentation, by meaning."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict

from shoal.engine.etiquette import RobotsDirectives
from shoal.engine.tally import Tally
from shoal.html.robots_meta import header_asks, markup_asks, unendorsed
from shoal.model import Response, Task
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.spider.handlers import Yielded
from shoal.spider.page import Page

URL = "https://a.example/dir/page"


def page(body: str, *tags: str, content_type: str = "text/html") -> Page:
    headers = CIMultiDict({"Content-Type": content_type})
    for tag in tags:
        headers.add("X-Robots-Tag", tag)
    return Page(Task(url=URL), Response(URL, 200, headers, body.encode()), "h")


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ([], ""),
        (["noindex"], "noindex"),
        (["NoIndex , NOFOLLOW"], "noindex nofollow"),
        (["none"], "noindex nofollow"),
        (["all"], ""),
        (["index, follow"], ""),
        (["noarchive", "unavailable_after: 25 Jun 2010 15:00:00 PST", "noindex"], "noindex noarchive"),
        (["unavailable_after: Sat, 25 Jun 2010 15:00:00 PST, nofollow"], "nofollow"),
        (["max-snippet: 20, noindex"], "noindex"),
        (["shoal: nofollow"], "nofollow"),
        (["Shoal: none"], "noindex nofollow"),
        (["*: noindex"], "noindex"),
        (["otherbot: noindex, nofollow"], ""),
        (["googlebot: nofollow", "otherbot: noindex, nofollow"], ""),
        (["BadBot: noindex, nofollow, shoal: nofollow"], "nofollow"),
        (["noindex, otherbot: nofollow"], "noindex"),
        (["shoal: noindex", "nofollow"], "noindex nofollow"),
        (["noindexed, nofollow-me", ":noindex", "\udcff", ",,,", "noindex nofollow"], ""),
    ],
)
def test_headers(values: list[str], asked: str) -> None:
    assert header_asks(values, "shoal") == set(asked.split())


@pytest.mark.parametrize(
    ("markup", "asked"),
    [
        ("", ""),
        ("<meta name=robots content=noindex>", "noindex"),
        ("<META NAME=' Robots ' CONTENT='NoIndex,NoFollow'>", "noindex nofollow"),
        ("<meta name=robots content='noindex nofollow'>", "noindex nofollow"),
        ("<meta content=none name=shoal>", "noindex nofollow"),
        ("<meta name=otherbot content=none>", ""),
        ("<meta name=robots content=noindex><meta name=shoal content=nofollow>", "noindex nofollow"),
        ("<meta name=robots content='max-snippet: -1, index, follow'>", ""),
        ("<meta name=robots>", ""),
        ("<meta property=robots content=noindex>", ""),
        ("<!-- <meta name=robots content=noindex> -->", ""),
        ("<body><p><meta name=robots content=nofollow>", "nofollow"),
    ],
)
def test_markup(markup: str, asked: str) -> None:
    assert markup_asks(page(markup + "<p>x").tree, "shoal") == set(asked.split())


def test_links_that_nobody_vouches_for() -> None:
    markup = """
    <a href=/1 rel=nofollow>x</a> <a href=/2 rel="ugc NoFollow noopener">x</a> <a href=/3 rel=nofollower>x</a>
    <a href=/4 rel=nofollow>x</a> <a href="https://a.example/4">x</a> <area href=5 rel=nofollow> <a rel=nofollow>x</a>
    """
    seen = page(markup)
    assert unendorsed(seen.tree, seen.base) == {
        "https://a.example/1",
        "https://a.example/2",
        "https://a.example/dir/5",
    }


def taken(seen: Page, **settings: bool) -> tuple[int, list[str], dict[str, int], dict[str, int]]:
    tally = Tally()
    given = Yielded([{"a": 1}, {"b": 2}], [*seen.follow_all("a"), Request("/typed")])
    kept = RobotsDirectives(Settings(**settings)).apply(seen, given, tally)
    report = tally.report()
    return len(kept.items), [request.url for request in kept.requests], report.refused, report.cut


def test_what_is_asked_for_is_done_if_the_settings_say_so() -> None:
    one, typed = "/1", "/typed"
    asking = page("<a href=/1 rel=nofollow>x</a>", "noindex")
    assert taken(asking) == (2, [one, typed], {}, {})
    assert taken(asking, robots_meta=True) == (0, [one, typed], {}, {"noindex items": 2})
    assert taken(asking, rel_nofollow=True) == (2, [typed], {"nofollow": 1}, {})
    none = page("<meta name=robots content=nofollow><a href=/1>x</a>")
    assert taken(none, robots_meta=True) == (2, [], {"nofollow": 2}, {})
    assert taken(none, rel_nofollow=True) == (2, [one, typed], {}, {})


def test_what_is_no_html_may_ask_by_its_header() -> None:
    seen = page("<meta name=robots content=nofollow>", "noindex", content_type="application/json")
    assert RobotsDirectives(Settings()).asked(seen) == {"noindex"}


# Examples of Google's documentation of robots meta tags, X-Robots-Tag and canonical URLs, as facts. Our name stands for
# that of its robot.
GOOGLE = [
    ("<meta name=robots content=noindex>", (), "noindex"),
    ('<meta name="ROBOTS" content="NOINDEX, NOFOLLOW">', (), "noindex nofollow"),
    ("<meta name=googlebot content=noindex>", (), ""),  # for another robot
    ("<meta name=shoal content=noindex>", (), "noindex"),
    ("<meta name=robots content=nofollow><meta name=shoal content=noindex>", (), "noindex nofollow"),
    ("<meta name=robots content=none>", (), "noindex nofollow"),
    ("<meta name=robots content=all>", (), ""),
    ("<meta name=robots content='noarchive, max-image-preview:large'>", (), "noarchive"),
    ("", ("noindex",), "noindex"),
    ("", ("noarchive", "unavailable_after: 25 Jun 2010 15:00:00 PST"), "noarchive"),
    ("", ("noarchive, unavailable_after: 25 Jun 2010 15:00:00 PST",), "noarchive"),
    ("", ("shoal: nofollow", "otherbot: noindex, nofollow"), "nofollow"),
    ("", ("max-snippet: 0, notranslate, noimageindex, nosnippet",), ""),
    ("<meta name=bingbot content=nocache>", (), ""),
    ("<meta name=robots content=nocache>", (), "noarchive"),  # Bing's word for it
]


@pytest.mark.parametrize(("markup", "tags", "asked"), GOOGLE)
def test_what_google_documents(markup: str, tags: tuple[str, ...], asked: str) -> None:
    assert RobotsDirectives(Settings()).asked(page(markup, *tags)) == set(asked.split())


def related(body: str, link: str = "", **settings: Any) -> tuple[int, list[str], dict[str, int]]:
    """How many items are written, which requests follow besides its own, and what was cut."""
    seen = page(body)
    if link:
        seen = seen.replace(headers={**seen.headers, "Link": link})
    tally = Tally()
    kept = RobotsDirectives(Settings(**settings)).apply(seen, Yielded([{}], [Request("/own")]), tally)
    assert all((one.handler, one.depth) == ("h", 0) for one in kept.requests[1:])
    return len(kept.items), [one.url for one in kept.requests if one.url != "/own"], tally.report().cut


CANONICAL = "<head><link rel=canonical href=/other></head><p>x"
OTHER = "https://a.example/other"


def test_canonical_urls() -> None:
    cut = {"items of pages with another canonical URL": 1}
    assert related(CANONICAL) == (1, [], {})
    assert related(CANONICAL, canonical="follow") == (1, [OTHER], {})
    assert related(CANONICAL, canonical="merge") == (0, [OTHER], cut)
    assert related("<p>x", f'<{OTHER}>; rel="canonical"', canonical="merge") == (0, [OTHER], cut)
    assert related(CANONICAL, f"<{OTHER}#x>; rel=canonical", canonical="merge") == (0, [OTHER], cut)


@pytest.mark.parametrize(
    "body",
    [
        "<link rel=canonical href=/dir/page>",  # itself
        "<link rel=canonical href='/dir/page?utm_source=x'>",
        "<link rel=canonical href=https://other.example/page>",  # another site
        "<body><p>x<link rel=canonical href=/other>",  # not in the head: anybody may have written it
        "<link rel=canonical href=/other><link rel=canonical href=/third>",  # which of them?
        "<link rel=canonical><link rel=canonical href='http://['>",
        "<meta name=robots content=nofollow><link rel=canonical href=/other>",
    ],
)
def test_canonical_urls_that_change_nothing(body: str) -> None:
    assert related(body, canonical="merge", robots_meta=True)[:2] == (1, []), body


def test_other_languages() -> None:
    body = "<link rel=alternate hreflang=de href=/de><link rel=alternate hreflang=x-default href=/>"
    feed = "<link rel=alternate type='application/rss+xml' href=/feed>"
    assert related(body + feed) == (1, [], {})
    found = ["https://a.example/de", "https://a.example/", "https://a.example/fr"]
    assert related(body + feed, "</fr>; rel=alternate; hreflang=fr", hreflang=True) == (1, found, {})


def test_noarchive_is_obeyed_by_setting() -> None:
    seen = page("<meta name=robots content=noarchive>")
    assert not RobotsDirectives(Settings()).refuses_archive(seen.task, seen.response)
    assert RobotsDirectives(Settings(robots_noarchive=True)).refuses_archive(seen.task, seen.response)
    plain = page("<p>x")
    assert not RobotsDirectives(Settings(robots_noarchive=True)).refuses_archive(plain.task, plain.response)
