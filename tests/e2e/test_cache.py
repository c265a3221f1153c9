"""`--cache DIR`, `--archive DIR` and `shoal extract` with a site that counts its visitors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]

SITE = """
import asyncio, gzip, sys
from aiohttp import web

async def answer(request):
    path = request.path
    print(request.method, path, file=sys.stderr, flush=True)
    if path == "/robots.txt":
        return web.Response(status=404)
    if path == "/old":
        return web.Response(status=302, headers={"Location": "/7"})
    if path == "/gone":
        return web.Response(status=404)
    if path == "/style.css":
        return web.Response(text="h1 {}", content_type="text/css")
    if path == "/gzip":
        body = gzip.compress(b"<h1>gzip</h1>")
        return web.Response(body=body, headers={"Content-Type": "text/html", "Content-Encoding": "gzip"})
    if path == "/chunks":
        sent = web.StreamResponse(headers={"Content-Type": "text/html"})
        sent.enable_chunked_encoding()
        await sent.prepare(request)
        await sent.write(b"<h1>chu")
        await sent.write(b"nks</h1>")
        return sent
    number = path.strip("/") or "0"
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(1, 60)) if path == "/" else ""
    links += '<a href="/old">o</a><a href="/gone">g</a>' if path == "/" else ""
    lang = request.headers.get("Accept-Language", "")
    return web.Response(
        text=f"<h1>{number}</h1><h2>title {number}</h2><i>{request.method} {lang}</i>{links}", content_type="text/html"
    )

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Site:
    def __init__(self, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self._read = 0

    def visits(self) -> Counter[str]:
        """Since the last time."""
        lines = self._log.read_text().splitlines()
        new, self._read = lines[self._read :], len(lines)
        return Counter(new)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    log = tmp_path_factory.mktemp("site") / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", SITE], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as server,
    ):
        assert server.stdout is not None
        yield Site(int(server.stdout.readline()), log)
        server.kill()


def write_spider(site: Site, code: str, **options: object) -> None:
    given = {"start": f"{site.url}/", "rate": 0, "robots": False, **options}
    Path("shop.py").write_text(
        f"from shoal import Spider, Retry\nspider = Spider('shop', **{given!r})\n{code}"
    )


def rows_in(path: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


WRONG = """
@spider.handler
def page(page):
    yield {"number": page.text("h1"), "title": page.text("h3"), "cached": page.cached}
    yield from page.follow_all("a", page.handler, meta={"from": page.text("h1")})
"""
RIGHT = WRONG.replace("h3", "h2").replace(', "cached": page.cached', ", **page.meta")


def test_a_selector_was_wrong(cli: Cli, site: Site) -> None:
    """The rows of the mended spider are those of a crawl by it, and nobody has visited the site."""
    write_spider(site, WRONG)
    assert cli("crawl", "shop.py", "--archive", "pages", "-o", "wrong.jsonl")[0] == 0
    assert {row["title"] for row in rows_in("wrong.jsonl")} == {""}
    write_spider(site, RIGHT)
    site.visits()
    code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "extracted.jsonl")
    assert code == 0, said
    assert not site.visits()
    assert cli("crawl", "shop.py", "--fresh", "--job", "again", "-o", "crawled.jsonl")[0] == 0
    extracted, crawled = rows_in("extracted.jsonl"), rows_in("crawled.jsonl")
    assert len(crawled) == 60
    assert sorted(extracted, key=str) == sorted(crawled, key=str)
    # Replaced by an extraction, the file is not the crawl's any more, which would cut it back.
    assert cli("extract", "shop.py", "--from", "pages", "-o", "wrong.jsonl", "--fresh")[0] == 0
    code, _, said = cli("crawl", "shop.py", "--archive", "pages", "-o", "wrong.jsonl")
    assert rows_in("wrong.jsonl") == extracted


def test_what_is_in_the_cache_is_not_fetched(cli: Cli, site: Site) -> None:
    """At this rate, the pages would take five hours."""
    write_spider(site, WRONG)
    assert cli("crawl", "shop.py", "--cache", "pages", "-o", "first.jsonl")[0] == 0
    assert {row["cached"] for row in rows_in("first.jsonl")} == {False}
    site.visits()
    write_spider(site, RIGHT + '    yield {"cached": page.cached}\n', rate=1 / 300)
    code, _, said = cli(
        "crawl", "shop.py", "--cache", "pages", "-o", "rows.jsonl", "--fresh", "--summary", "summary.json",
    )  # fmt: skip
    assert code == 0, said
    assert not site.visits() - Counter({"GET /gone": 1})  # that one was an error
    rows = rows_in("rows.jsonl")
    assert [row for row in rows if row.get("cached") is not True and "title" not in row] == []
    assert len([row for row in rows if "title" in row]) == 60
    summary = json.loads(Path("summary.json").read_text())
    assert summary["cached"] == 61  # with a redirect
    assert summary["counts"]["from the cache"] == 61
    assert "answers from the cache" in said


STRICT = """
@spider.handler
def start(page):
    yield page.follow("/1", page_, headers={"Accept-Language": "de"})
    yield page.follow("/2", page_, form={"a": "b"})
    yield page.follow("/3", page_, session="somebody")
    yield page.follow("/4", again)
    yield page.follow("/5", inner)
    yield page.follow("/gone", page_)

@spider.handler
def page_(page):
    yield {"path": page.url[-2:], "cached": page.cached, "i": page.text("i")}

@spider.handler
def again(page):
    if page.cached:
        raise Retry("it must be new", after=0)
    yield {"path": "/4", "cached": page.cached}

@spider.handler
async def inner(page):
    other = await page.fetch("/6")
    new = await page.fetch(f"/new-{page.cached}")
    yield {"path": "/6", "cached": other.cached, "new": new.cached}
"""


def test_it_answers_only_if_it_is_sure(cli: Cli, site: Site) -> None:
    write_spider(site, STRICT, session_headers={})
    assert cli("crawl", "shop.py", "--cache", "pages", "-o", "first.jsonl")[0] == 0
    site.visits()
    code, _, said = cli("crawl", "shop.py", "--cache", "pages", "-o", "rows.jsonl", "--fresh")
    assert code == 0, said
    assert site.visits() == Counter(["GET /1", "POST /2", "GET /3", "GET /4", "GET /gone", "GET /new-True"])
    rows = {row["path"]: row for row in rows_in("rows.jsonl")}
    assert {path: row["cached"] for path, row in rows.items()} == {
        "/1": False, "/2": False, "/3": False, "/4": False, "/6": True,
    }  # fmt: skip
    assert rows["/1"]["i"] == "GET de"
    # A page that was asked for with other headers does not stand for the plain one.
    write_spider(site, WRONG.replace("page.follow_all(", "[] and page.follow_all("), start=f"{site.url}/1")
    assert cli("crawl", "shop.py", "--cache", "pages", "-o", "plain.jsonl", "--job", "plain")[0] == 0
    assert site.visits() == Counter(["GET /1"])


def test_wrong_usage(cli: Cli, site: Site) -> None:
    write_spider(site, WRONG)
    code, _, said = cli("crawl", "shop.py", "--cache", "a", "--archive", "b")
    assert (code, "leave out --archive" in said) == (2, True)
    code, _, said = cli("crawl", "shop.py", "-s", "cache=true")
    assert (code, "it needs an archive" in said) == (2, True)
    assert cli("crawl", "shop.py", "-q")[0] == 0
    code, _, said = cli("crawl", "shop.py", "--offline", "--fresh")
    assert (code, "offline: it needs" in said) == (2, True)
    assert "is finished" in cli("crawl", "shop.py")[2], "the job is not forgotten before it is sure to begin"


CAPTURE = """
import sys, warnings
from warcio.capture_http import capture_http
import requests
with capture_http("other.warc.gz"):
    for path in ("", "gzip", "chunks", "old", "gone", "style.css"):
        requests.get(f"{sys.argv[1]}/{path}")
"""

ALL = """
@spider.handler
def page(page):
    yield {"h1": page.text("h1")}
"""


def test_archives_of_other_tools(cli: Cli, site: Site) -> None:
    write_spider(site, ALL)
    subprocess.run([sys.executable, "-W", "ignore", "-c", CAPTURE, site.url], check=True)
    code, _, said = cli("extract", "shop.py", "--from", "other.warc.gz", "-o", "rows.jsonl")
    assert code == 0, said
    assert sorted(str(row["h1"]) for row in rows_in("rows.jsonl")) == ["0", "7", "chunks", "gzip"]
    if (wget := shutil.which("wget")) is not None:
        pages = [f"{site.url}/{path}" for path in ("", "gzip", "chunks", "old", "gone", "style.css")]
        subprocess.run([wget, "-q", "--warc-file=wget", "-O", "/dev/null", *pages], check=False)
        assert cli("extract", "shop.py", "--from", "wget.warc.gz", "-o", "wget.jsonl")[0] == 0
        assert sorted(str(row["h1"]) for row in rows_in("wget.jsonl")) == ["0", "7", "chunks", "gzip"]
