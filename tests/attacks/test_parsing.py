"""Pages made to choke parsers, patterns and selectors: each is read as far as its time goes, and nobody waits."""

from __future__ import annotations

import pytest

from attacks.stage import Stage, Villain, html

MEMORY = 500 * 1024 * 1024  # bytes
SIZE = 300_000
FIRST = b"<title>villain</title><a href=/first>x</a>"

SPIDER = """
from shoal import Spider

spider = Spider("choked", start=START)

@spider.handler
def everything(page):
    page.text()
    page.css("main div div div a")
    page.css("li:nth-child(2), p ~ p")
    page.xpath("//a/@href")
    page.links()
    yield {"url": page.url, "cut": page.cut, "title": page.text("title")}
    yield from page.follow_all("a")
"""


def repeated(fragment: bytes) -> bytes:
    return FIRST + fragment * (SIZE // len(fragment))


def attributes(count: int, first: int = 0) -> bytes:
    return b" ".join(b"a%d" % n for n in range(first, first + count))


# Parsed as far as their time goes.
NESTING = {
    "/ruby": html(repeated(b"<rt>")),
    "/foreign": html(repeated(b"<svg></x>")),
    "/misnested": html(repeated(b"<b></i>")),
    "/nested": html(repeated(b"<div>")),
}
ATTRIBUTES = {
    "/body": html(FIRST + b"".join(b"<body %b>" % attributes(400, n) for n in range(0, 150_000, 400))),
    "/attributes": html(FIRST + b"<p %b>" % attributes(80_000)),
    "/formats": html(
        FIRST + b"<p>" + b"".join(b"<b id=%d>" % n for n in range(30_000)) + b"</p><p>x" * 50_000
    ),
}
# Whole, and in no time.
PATTERNS = {
    "/comments": html(b"<!---->" * 140 + b"x", None),
    "/charset": html(FIRST, "text/html; charset=" + " " * 7_000 + '"'),
    "/slashes": html(FIRST + b"<a/b=" * 32_000),
}
SELECTORS = {
    "/styles": html(FIRST + b"<svg><style>x" * 5_000),
    "/chains": html(FIRST + b"<div>" * 500 + b"<a>x</a>" * 500),
    "/siblings": html(FIRST + b"<ul>" + b"<li>x" * 10_000),
}


@pytest.mark.parametrize(
    ("attack", "cut", "processes"),
    [(NESTING, True, 1), (ATTRIBUTES, True, 2), (PATTERNS | SELECTORS, False, 1)],
    ids=["nesting", "attributes", "patterns and selectors"],
)
def test_pages_that_choke_parsers(
    stage: Stage, twice: float, attack: dict[str, bytes], cut: bool, processes: int
) -> None:
    with Villain(attack | {"/first": html(b"<title>villain</title>")}) as villain:
        hostile = [villain.url(path) for path in attack]
        spider = stage.desk.file(
            "choked.py", SPIDER.replace("START", repr([*hostile, *stage.web.start_urls]))
        )
        result = stage.crawl(spider, options=["--processes", str(processes)])
    rows = {row["url"]: row for row in stage.desk.rows()}
    assert result.code == 0, result.err
    assert {rows[url]["cut"] > 0 for url in hostile} == {cut}
    assert result.letters == []
    if cut:
        assert rows[villain.url("/first")]["title"] == "villain"  # what came before the attack was read
        for url in hostile:
            assert f"bytes of {url} are parsed: the rest would take too long" in result.err
    stage.check_honest(result, at_most=twice)
    assert result.peak_rss < MEMORY
