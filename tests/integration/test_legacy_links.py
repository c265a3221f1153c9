"""Links on pages in legacy encodings ask for what a browser asks for."""

from __future__ import annotations

import asyncio

import pytest

from browser import browser, text_of
from integration.raw_server import page, serve
from shoal.admit.sending import sent_url
from shoal.html.charset import codec_named
from shoal.html.decoding import decode
from shoal.html.page_links import in_encoding
from shoal.model import Response, Task
from shoal.spider.page import Page

WORDS = {
    "windows-1251": "привет № — €",
    "koi8-r": "привет №",
    "windows-1252": "Zürich’s café €",
    "iso-8859-2": "žluťoučký kůň",
    "iso-8859-7": "Αθήνα",
    "windows-1255": "שלום",
    "tis-620": "สวัสดี",
    "shift_jis": "表示 ソート ﾊﾝｶｸ",
    "euc-jp": "表示 ソート",
    "iso-2022-jp": "表示 ソート",
    "gbk": "中文 价格 €",
    "gb2312": "中文 价格",
    "gb18030": "中文 价格",
    "big5": "中文 價格",
    "euc-kr": "한국어 가격",
    "utf-8": "привет 表示",
    "utf-16le": "привет 表示",
}
# What Python writes in another way than browsers, or not at all. Each is its own query.
ODD = {
    "windows-1252": "\x81\x9d",
    "windows-1255": "\x81ֺ",
    "windows-874": "\x81",
    "koi8-u": "ўЎ",
    "shift_jis": "髙①￢∵～−¥‾ⅰ纊\x80\ue000",
    "euc-jp": "～丂①−¥‾ｱ髙",
    "iso-2022-jp": "①−¥‾ｱﾞ髙é",
    "gbk": "€\ue5e5\ue7c7\ue81e︐龴·—",
    "big5": "～€䏰═十卅∕／¥￥Ê㡵",
    "euc-kr": "～갂€",
}
PYTHON = {"utf-16le": "utf-16-le", "windows-874": "cp874"}


def links(label: str) -> list[str]:
    """In path and query, with what an encoding cannot write, and after other marks. (GB18030 can write all: that is not
    told from GBK.)"""
    words = WORDS.get(label, "é")
    return [
        f"/{words.split()[0]}?q={words.replace(' ', '+')}",
        f"/x?{words.split()[0]}=1&b={'' if label == 'gb18030' else '😀ж한'}#{words.split()[0]}",
        f"/x?a=%20'|&q={words}&f[]=b&f[]=a",
    ]


def odd_links(label: str) -> list[str]:
    odd = ODD.get(label, "")
    return [*(f"/o?{character}" for character in odd), f"/o?a\\~'{odd}'~\\a"] if odd else []


def document(label: str, tag: str) -> bytes:
    text = "".join(tag.format(link.replace("&", "&amp;")) for link in links(label))
    odd = "".join(tag.format(link) for link in odd_links(label)).encode("ascii", "xmlcharrefreplace")
    return text.encode(PYTHON.get(label, label), "xmlcharrefreplace") + odd


async def test_as_a_browser_does() -> None:
    labels = [*WORDS, *(ODD.keys() - WORDS.keys())]

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        target = head.split(b" ")[1].decode("latin-1")
        if target == "/":
            frames = "".join(f"<iframe src=/page/{label}></iframe>" for label in labels)
            writer.write(page(frames.encode(), Content_Type="text/html"))
        elif target.startswith("/page/"):
            label = target.removeprefix("/page/")
            body = document(label, f'<img src="/{label}{{}}">')
            writer.write(page(body, Content_Type=f"text/html; charset={label}"))
        else:
            writer.write(page(b"", "404 Not Found"))

    async with serve(answer) as server, browser(browser_block=[]) as transport:
        await text_of(transport, server.url("/"), "load")
        for label in labels:
            asked = {path for path in server.paths if path.startswith(f"/{label}/")}
            response = Response(
                server.url("/"),
                200,
                {"Content-Type": f"text/html; charset={label}"},
                document(label, '<a href="{}">'),
            )
            found = Page(Task(server.url("/")), response, "").links()
            ours = {f"/{label}" + (sent_url(link) or "").removeprefix(server.url("")) for link in found}
            assert ours == asked, label


WRONG = {
    "euc-kr": b"\xd1\x9f\xdf\xf2 \xa1A\xc9\xa1\xff\xb0\xa1",
    "big5": b"\xb2\x9aAf \xa3\xe1\x80\xa4\xff\xa4\xa4",
    "shift_jis": b"\xfc\x9a\xb4 \xff\xa0 \xfd\x81\xff\x82\xa0",
    "euc-jp": b"\xaf\xd1 \x8f\xa1\xa1\xa4\xa2 \x8e\xe0\xa4\xa2 \x8f\x8f\xa4\xa2 \xa2\xaf",
    "gbk": b"\x81\xff\xd6\xd0 \x84\x32\xa4\x38\xd6\xd0 \x81\x30\xff\xff\xd6\xd0",
    "iso-2022-jp": b'\x1b$B$\xa2$"/Q$"\x1b(Bx',
}


async def test_wrong_bytes_are_read_as_a_browser_reads_them() -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        label = head.split(b" ")[1].decode("latin-1").removeprefix("/")
        body = b"<!doctype html><p>" + WRONG.get(label, b"") + b" z</p>"
        writer.write(page(body, Content_Type=f"text/html; charset={label}"))

    async with serve(answer) as server, browser(browser_block=[]) as transport:
        for label, data in WRONG.items():
            text = await text_of(transport, server.url(f"/{label}"), "load")
            codec = codec_named(label)
            assert codec is not None
            assert decode(data + b" z", codec) in text, label


@pytest.mark.parametrize("link", ["/é", "/é?q=1", "/é#?é", "#é?é", "?q=1#é", "", "?", "mailto:é"])
def test_the_rest_of_a_link_is_left_alone(link: str) -> None:
    assert in_encoding(link, "cp1252") == link


def test_every_way_to_follow_a_link() -> None:
    body = "<a href='?q=ж'>x</a>".encode("cp1251")
    response = Response("http://a.example/", 200, {"Content-Type": "text/html; charset=windows-1251"}, body)
    found = Page(Task("http://a.example/"), response, "page")
    ways = [
        *found.follow_all("a"),
        *found.follow_all(found.css("a")),
        *found.follow_all(["?q=ж"], meta={}),
        found.follow(found.css("a")[0]),
        found.follow("?q=ж"),
    ]
    assert {request.url for request in ways} == {"?q=%E6"}


@pytest.mark.parametrize("charset", ["x-user-defined", "hz-gb-2312", "iso-2022-kr", "utf-16"])
def test_what_cannot_be_written_is_sent_as_utf8(charset: str) -> None:
    headers = {"Content-Type": f"text/html; charset={charset}"}
    found = Page(Task("http://a.example/"), Response("http://a.example/", 200, headers, b"<p>"), "page")
    assert found.follow("?q=ж").url == "?q=ж"
