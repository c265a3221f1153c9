"""Answers and handlers that are too large: what is kept of them stays small."""

from __future__ import annotations

from collections.abc import Mapping

from attacks.stage import LOOPBACK, Answer, Stage, Villain, html
from crash.harness import ROWS, STORE

COOKIES = "".join(f"Set-Cookie: c{n}={'x' * 4_000}; Path=/\r\n" for n in range(60)).encode()
HOSTS, PAGES = 10, 8


def redirect(to: str) -> bytes:
    head = f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n"
    return head.encode() + COOKIES + b"\r\n"


def test_cookies_of_redirects_do_not_fill_the_store(stage: Stage, twice: float) -> None:
    """80 pages that are redirected at once, each with 240 KB of cookies, were 19 MB in the store."""
    answers: Mapping[str, Answer] = {
        **{f"/from/{n}": redirect(f"/to/{n}") for n in range(PAGES)},
        **{f"/to/{n}": html(b"<p>arrived</p>") for n in range(PAGES)},
    }
    with Villain(answers, hosts=HOSTS) as villain:
        circle = villain.url("/circle")
        villain.answers["/circle"] = redirect(circle.replace("//", "//joe:hunter2@") + "#" + "x" * 7_000)
        urls = [villain.url(f"/from/{n}", host) for n in range(PAGES) for host in range(HOSTS)]
        result = stage.crawl(*urls, circle, options=("-s", "max_redirects=2"))
    stage.check_honest(result, at_most=twice)
    (letter,) = result.letters
    assert (letter["kind"], letter["url"]) == ("redirect_loop", circle)
    assert len(letter["attempts"][-1]["detail"]) <= 500
    assert "hunter2" not in str(letter)
    arrived = [url for url in result.rows if "/to/" in url]
    assert len(arrived) == HOSTS * PAGES
    store = sum(path.stat().st_size for path in (stage.desk.folder / STORE).parent.glob("shoal.db*"))
    assert store < 8_000_000, f"{store:,} bytes"
    assert "cut" in result.err, "the summary says so"


SPIDER = """
from shoal import Spider

spider = Spider("greedy", start={start!r})


@spider.handler
def parse(page):
    yield {{"url": page.url}}
    if "greedy" in page.url:
        yield page.follow("/next", meta={{"html": "x" * 1_000_000}})
    if "deep" in page.url:
        inner = []
        for _ in range(10_000):
            inner = [inner]
        yield page.follow("/next", meta={{"inner": inner}})
    if "many" in page.url:
        yield from (page.follow(f"/{{n}}", meta={{"html": "x" * 250_000}}) for n in range(300))
    if "odd" in page.url:
        yield page.follow("/next", meta={{"page": object()}})
"""


def test_a_request_that_cannot_be_stored_is_the_fault_of_its_page_alone(stage: Stage) -> None:
    desk, pages = stage.desk, ["/good", "/greedy", "/deep", "/odd", "/many", "/fine"]
    with Villain({path: html(b"<p>text</p>") for path in pages}) as site:
        spider = desk.file("greedy.py", SPIDER.format(start=site.urls))
        desk.finish("crawl", spider, "-o", ROWS, "--rate", "0", "--allow-network", LOOPBACK)
    assert {row["url"] for row in desk.rows()} == {site.url("/good"), site.url("/fine")}
    found = {letter["url"].rpartition("/")[2]: letter for letter in desk.dead()}
    assert {name: letter["kind"] for name, letter in found.items()} == dict.fromkeys(
        ["greedy", "deep", "odd", "many"], "junk"
    )
    said = {name: letter["attempts"][-1]["detail"] for name, letter in found.items()}
    assert "'parse' yielded a request: its meta has 1,000,0" in said["greedy"]
    assert "its meta has more than 64 containers" in said["deep"]
    assert "its meta cannot be stored" in said["odd"]
    assert "with those before it, it has more than 67,108,864 bytes" in said["many"]
