"""Where a page leads: links, areas, frames and refreshes, as other programs see them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from urllib.parse import urljoin

import pytest
from w3lib.html import get_meta_refresh

import shoal
from integration.raw_server import page, serve
from shoal.model import Response, Task
from shoal.spider.default import summary_spider
from shoal.spider.page import Page

URL = "http://a.example/dir/"
PAGE = """<!doctype html><meta http-equiv="Refresh" content="300; URL=/refresh?b=2&amp;a=1"><p>
<a href="/link">x</a><a name=nowhere>x</a><map><area href="/area"><area></map>
<iframe src="/iframe"></iframe><iframe></iframe>"""
FRAMES = '<frameset><frame src="/frame"><frame><noframes><a href="/none">x</a></noframes></frameset>'


def seen(html: str) -> Page:
    return Page(Task(URL), Response(URL, 200, {"Content-Type": "text/html"}, html.encode()), "page")


def test_all_that_leads_to_pages() -> None:
    paths = ["/link", "/area", "/iframe", "/refresh?b=2&a=1"]
    assert seen(PAGE).links() == [f"http://a.example{path}" for path in paths]
    assert [request.url for request in seen(PAGE).follow_all()] == paths
    assert seen(PAGE).links("a") == ["http://a.example/link"]
    assert "http://a.example/frame" in seen(FRAMES).links()


REFRESHES = [
    *(
        "5; url=/next",
        "5;url=/next",
        "0; URL='/next'",
        '0;url="/next"',
        "5, url=/next",
        "5 url=/next",
        "5;/next",
    ),
    *(
        "5; url = /next",
        " 5 ;  url=/next ",
        "0.5; url=/next",
        "5",
        "5;",
        "",
        "url=/next",
        "x; url=/next",
        "5; url='/a'b",
    ),
    *("5; url=next?a=1;b=2", "5; url=/a, /b", "-1; url=/next", "5url=/next", "5; url=", "5; url='"),
]
# Browsers need the number, take a blank or a comma for the semicolon, and end at a quote; w3lib looks for ";url=" in
# the source. A page that refreshes itself leads nowhere.
STANDARD = {
    "5, url=/next": "/next",
    "5 url=/next": "/next",
    "5;/next": "/next",
    "5; url='/a'b": "/a",
    "5url=/next": None,
    "-1; url=/next": None,
    '0;url="/next"': "/next",
    "5; url = /next": "/next",
    "5; url=": None,
    "5; url='": None,
}


@pytest.mark.parametrize("content", REFRESHES)
def test_a_refresh_as_w3lib_reads_it(content: str) -> None:
    tag = '<meta http-equiv=refresh content="{}">'.format(content.replace('"', "&quot;"))
    _, theirs = get_meta_refresh(tag, URL)
    wanted = urljoin(URL, STANDARD[content]) if STANDARD.get(content) else theirs
    if content in STANDARD and STANDARD[content] is None:
        wanted = None
    assert seen(tag).links() == ([wanted] if wanted else [])


@pytest.mark.skipif(shutil.which("wget") is None, reason="wget is not installed")
async def test_wget_goes_to_the_same_places(tmp_path: Path) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        target = head.split(b" ")[1]
        body = {b"/": PAGE + '<a href="/frames">x</a>', b"/frames": FRAMES}.get(target, "")
        writer.write(page(body.encode(), Content_Type="text/html"))

    async with serve(answer) as server:
        async with asyncio.timeout(20):
            await shoal.crawl(summary_spider("all", server.url("/"), rate=0, robots=False))
            ours = set(server.paths)
            server.hits.clear()
            wget = await asyncio.create_subprocess_exec(
                "wget", "-q", "-r", "-l", "3", "-e", "robots=off", "-P", str(tmp_path), server.url("/")
            )
            await wget.wait()
    assert set(server.paths) - ours == {"/none"}, "what is only for programs without frames"
    assert ours == {"/", "/link", "/area", "/iframe", "/frames", "/frame", "/refresh?b=2&a=1"}
