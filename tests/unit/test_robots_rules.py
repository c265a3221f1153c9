"""Asking a robots.txt record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fetch.robots import Robots, RobotsRecord, RobotsVerdict, fetch_robots, product_token
from shoal.fetch.transport import FetchRequest
from shoal.model import Response

AGENT = "Shoal/0.1 (+https://shoal.example/)"
SITE = "https://a.example"


def robots(text: str, agent: str = AGENT) -> Robots:
    return Robots.of(RobotsRecord("rules", 0.0, 1.0, text=text), agent)


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        (AGENT, "Shoal"),
        ("shoal", "shoal"),
        ("my-bot_2/3", "my-bot_2"),
        ("Mozilla/5.0 (compatible; FooBot/2.1; +http://foo.example)", "FooBot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"),
        ("", "*"),
        ("(nothing)", "*"),
    ],
)
def test_product_token(agent: str, token: str) -> None:
    assert product_token(agent) == token


def test_longest_match_wins_and_ties_allow() -> None:
    rules = robots(
        "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /c$\nAllow: /d\nDisallow: /d\nDisallow: /*.pdf$\n"
    )
    paths = ("/", "/a", "/a/b", "/c", "/cc", "/d", "/x.pdf", "/x.pdfs")
    allowed = {path: rules.allows(SITE + path) for path in paths}
    assert allowed == {
        "/": True,
        "/a": False,
        "/a/b": True,
        "/c": False,
        "/cc": True,
        "/d": True,
        "/x.pdf": False,
        "/x.pdfs": True,
    }


def test_the_own_group_replaces_the_general_one() -> None:
    rules = robots("User-agent: *\nDisallow: /\n\nUser-agent: SHOAL\nDisallow: /private\nCrawl-delay: 2.5\n")
    assert rules.allows(f"{SITE}/open")
    assert not rules.allows(f"{SITE}/private/x")
    assert rules.crawl_delay() == 2.5


def test_groups_of_others_do_not_matter() -> None:
    rules = robots("User-agent: Mozilla\nUser-agent: otherbot\nDisallow: /\n")
    assert rules.allows(f"{SITE}/x")
    assert rules.crawl_delay() is None


def test_sitemaps() -> None:
    assert robots("Sitemap: https://a.example/s.xml\nsitemap: /t.xml\n").sitemaps() == [
        "https://a.example/s.xml",
        "/t.xml",
    ]


def test_robots_txt_itself_is_always_allowed() -> None:
    assert robots("User-agent: *\nDisallow: /\n").allows(f"{SITE}/robots.txt")
    assert Robots.of(RobotsRecord("disallow", 0.0, 1.0), AGENT).allows(f"{SITE}/robots.txt")


@pytest.mark.parametrize(("verdict", "allowed"), [("allow", True), ("disallow", False)])
def test_records_without_rules(verdict: RobotsVerdict, allowed: bool) -> None:
    rules = Robots.of(RobotsRecord(verdict, 0.0, 1.0), AGENT)
    assert rules.allows(f"{SITE}/x") is allowed
    assert rules.crawl_delay() is None
    assert rules.sitemaps() == []


@pytest.mark.parametrize("delay", ["-1", "nan", "inf", "soon", ""])
def test_crawl_delays_that_are_none(delay: str) -> None:
    assert robots(f"User-agent: *\nCrawl-delay: {delay}\n").crawl_delay() is None


@given(st.text(), st.text())
def test_junk_never_raises(text: str, path: str) -> None:
    rules = robots("User-agent: *\nDisallow: " + text)
    rules.allows(f"{SITE}/{path}")
    rules.crawl_delay()
    rules.sitemaps()


async def test_a_redirect_to_half_a_host_leads_nowhere() -> None:
    class Redirecting:
        async def fetch(self, request: FetchRequest) -> Response:
            return Response(request.url, 302, {"Location": "//[]@"}, b"")

        async def close(self) -> None: ...

    async def pause() -> None: ...

    record = await fetch_robots(Redirecting(), "https://a.example", now=0.0, pause=pause)
    assert (record.verdict, record.reason) == ("allow", "a redirect to nowhere")
