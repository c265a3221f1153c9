"""Servers see the URLs that were published, in every spelling: as links, in robots.txt, and after redirects."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from w3lib.url import canonicalize_url, safe_url_string

import shoal
from integration.raw_server import RawServer, page, serve
from shoal import Results
from shoal.admit.canonical import Canonicaliser
from shoal.admit.sending import sent_url
from shoal.spider.default import summary_spider

# What a page links to, and the only spelling under which its server gives the page.
INSISTING = {
    "order of parameters": ("/order?a=1&b=2", "/order?b=2&a=1"),
    "a tracking parameter": ("/tracked?id=1", "/tracked?id=1&utm_source=direct"),
    "a session": ("/session?id=1", "/session?PHPSESSID=0123456789abcdef&id=1"),
    "a slash at the end": ("/slash", "/slash/"),
    "escapes in lower case": ("/%C3%A4", "/%c3%a4"),
    "plus for blank": ("/plus?q=a%20b", "/plus?q=a+b"),
    "equal names": ("/equal?x=1&x=2", "/equal?x=2&x=1"),
    "an empty query": ("/empty", "/empty?"),
    "escapes that need not be": ("/~user", "/%7Euser"),
    "words in a row": ("/words?1&2&3", "/words?3&1&2"),
    "a cookie": ("/wall", "/wall"),
}


def html(links: list[str]) -> bytes:
    return "".join(f'<a href="{link.replace("&", "&amp;")}">x</a>' for link in links).encode()


async def insisting(head: bytes, writer: asyncio.StreamWriter) -> None:
    target = head.split(b" ")[1].decode()
    ways = dict(INSISTING.values())
    if target == "/":
        writer.write(page(html(list(ways)), Content_Type="text/html"))
    elif target in ways.values() and (target != "/wall" or b"seen=1" in head):
        writer.write(page(b"here"))
    elif target == "/wall":
        writer.write(page(b"", "302 Found", Location=target, Set_Cookie="seen=1; Path=/"))
    elif target in ways:
        writer.write(page(b"", "301 Moved Permanently", Location=ways[target]))
    else:
        writer.write(page(b"", "404 Not Found"))


async def crawl(server: RawServer, **settings: object) -> Results:
    spider = summary_spider("spelling", server.url("/"), **{"rate": 0, "robots": False, **settings})
    async with asyncio.timeout(20):
        return await shoal.crawl(spider)


async def test_servers_that_insist_on_their_spelling() -> None:
    async with serve(insisting) as server:
        results = await crawl(server)
        assert results.view.report.errors == {}
        got = {item["url"].removeprefix(server.url("")) for item in results}
        assert got == {"/", *(insisted for _, insisted in INSISTING.values())}, "11 kinds, all obtained"
        assert len(server.paths) == 1 + 2 * len(INSISTING), "each was asked for twice: as linked, and as told"


@pytest.mark.skipif(shutil.which("wget") is None, reason="wget is not installed")
async def test_wget_obtains_the_same(tmp_path: Path) -> None:
    async with serve(insisting) as server:
        links = tmp_path / "links"
        links.write_text("\n".join(server.url(linked) for linked, _ in INSISTING.values()))
        await run("wget", "-q", "-O", "/dev/null", "-i", str(links))
        assert {insisted for _, insisted in INSISTING.values()} <= set(server.paths)


# -- robots.txt

# Rules as sites have them, each with a link that it forbids and one that it does not.
RULES = [
    (
        "/index.php?title=Special:",
        "/index.php?title=Special:Search&limit=20",
        "/index.php?title=Main&limit=20",
    ),
    ("/*?sort=", "/1?sort=price&dir=asc", "/1?dir=asc"),
    ("/*?sid=", "/2?sid=0123456789abcdef0123456789abcdef&id=1", "/2?id=1"),
    ("/*&print=1", "/3?z=2&print=1", "/3?z=2"),
    ("/*?utm_source=", "/4?utm_source=mail", "/4"),
    ("/*&utm_", "/5?id=1&utm_medium=mail", "/5?id=1"),
    ("/search?q=", "/search?q=x&as=1", "/search?as=1"),
    ("/*?q=*&page=", "/6?q=x&page=2", "/6?q=x"),
    ("/7?x=2&x=1$", "/7?x=2&x=1", "/7?x=1&x=2"),
    ("/8?3&1&2", "/8?3&1&2", "/8?1&2&3"),
    ("/9?$", "/9?", "/9"),
    ("/*;jsessionid=", "/10;jsessionid=1A?id=1", "/10?id=1"),
    ("/*PHPSESSID=", "/11?PHPSESSID=ab12", "/11"),
    ("/*gclid=", "/12?id=1&gclid=x", "/12?id=1"),
    ("/13?f[]=b&f[]=a", "/13?f[]=b&f[]=a", "/13?f[]=a&f[]=b"),
    ("/*?replytocom=", "/14?replytocom=5&a=1#respond", "/14?a=1"),
]


@pytest.mark.parametrize("forbidden_first", [True, False])
async def test_no_rule_lets_a_link_through_that_it_forbids(forbidden_first: bool) -> None:
    forbidden, allowed = ([rule[n] for rule in RULES] for n in (1, 2))
    links = forbidden + allowed if forbidden_first else allowed + forbidden
    robots = "User-agent: *\n" + "".join(f"Disallow: {rule[0]}\n" for rule in RULES)

    async def site(head: bytes, writer: asyncio.StreamWriter) -> None:
        target = head.split(b" ")[1]
        if target == b"/robots.txt":
            writer.write(page(robots.encode()))
        else:
            writer.write(page(html(links) if target == b"/" else b"", Content_Type="text/html"))

    async with serve(site) as server:
        results = await crawl(server, robots=True)
    assert set(server.paths) == {"/robots.txt", "/", *allowed}, "and none stands for a page that is allowed"
    plain = [
        link for link in map(sent_url, map(server.url, forbidden)) if link and Canonicaliser()(link) == link
    ]
    assert results.view.report.errors == {"robots": len(plain)}
    assert results.view.report.refused == {"robots": len(forbidden) - len(plain)}


# -- second opinions

PUBLISHED = [
    *(
        f"/{n}?{query}"
        for n, query in enumerate(("b=2&a=1", "x=2&x=1", "3&1&2", "", "&&a=1&", "a=1&utm_source=x"))
    ),
    *(
        "/%7euser/%C3%a4",
        "/a%2fb",
        "/a//b",
        "/;v=1?q=a+b%20c",
        "/~a!b$c'(d)*",
        "/q?u=http://x/?y=1&f[]=b&f[]=a",
    ),
    *(
        "/p?sid=0123456789abcdef0123456789abcdef",
        "/p;jsessionid=1",
        "/p?q=%zz%",
        "/p?a=1#top",
        "/a/../b/./c?../d",
    ),
]


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    async with asyncio.timeout(20):
        await process.wait()


async def test_what_arrives_is_what_other_programs_send(tmp_path: Path) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(page(html(PUBLISHED) if b" / " in head else b"", Content_Type="text/html"))

    async with serve(answer) as server:
        await crawl(server)
        ours = [target for target in server.paths if target != "/"]
        assert len(ours) == len(PUBLISHED)
        scrapys = {safe(server.url(link)).removeprefix(server.url("")) for link in PUBLISHED}
        assert set(ours) ^ scrapys == {"/3?", "/3"}, "only it drops an empty query"
        links = tmp_path / "links"
        links.write_text("".join(f"{server.url(link)}\n" for link in PUBLISHED))
        config = tmp_path / "config"
        config.write_text("".join(f'url = "{server.url(link)}"\n' for link in PUBLISHED))
        stray = {"/p?q=%zz%", "/p?q=%25zz%25"}  # only wget escapes a "%" that begins no escape
        for apart, *command in (
            (stray, "wget", "-q", "-O", "/dev/null", "-i", str(links)),
            (set(), "curl", "-s", "-g", "-K", str(config)),
        ):
            if shutil.which(command[0]) is not None:
                server.hits.clear()
                await run(*command)
                assert set(server.paths) ^ set(ours) == apart, command[0]


def safe(url: str) -> str:
    """What Scrapy sends, which leaves fragments and dot segments to others; only it escapes brackets."""
    url = safe_url_string(url).replace("%5B", "[").replace("%5D", "]")
    return (sent_url(url) or "").partition("#")[0]


def test_identity_as_others_see_it() -> None:
    """w3lib also sorts by value, so it takes ?x=2&x=1 and ?x=1&x=2 for one page; and words without "=" for parameters.
    Elsewhere we agree on which URLs are the same page."""
    draw, identity = random.Random(7), Canonicaliser()
    for _ in range(500):
        pairs = [f"{name}={draw.choice(('1', '%7e', '~', '%2f', '%2F'))}" for name in draw.sample("abcde", 3)]
        urls = []
        for _ in range(2):
            draw.shuffle(pairs)
            urls.append("http://a.example/%7Ex?" + "&".join(pairs[: draw.choice((2, 3))]))
        ours, theirs = ({form(url) for url in urls} for form in (identity, canonicalize_url))
        assert len(ours) == len(theirs), urls
