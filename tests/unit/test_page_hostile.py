"""Pages made to break parsers: bounded time, text replaced, nothing raised."""

from __future__ import annotations

import encodings
import encodings.aliases
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.html.charset import codec_named, codec_of
from shoal.html.decoding import decode
from shoal.html.parsing import affordable
from shoal.model import Response, Task
from shoal.spider.default import summary
from shoal.spider.page import Page

# A quadratic parser takes between ten seconds and minutes for each of these; a slow machine must not fail the test.
SECONDS = 8.0
N = 100_000


def make(body: bytes, content_type: str = "text/html") -> Page:
    url = "https://a.example/"
    return Page(Task(url=url), Response(url, 200, {"Content-Type": content_type}, body), "h")


def look_everywhere(page: Page) -> None:
    page.text()
    page.text("title")
    page.links()
    page.css("div div a")
    page.follow_all("a")
    summary(page)
    page.html.encode()
    page.text().encode()


@pytest.mark.parametrize(
    "build",
    [
        lambda: b"<a href=/first>x</a>" + b"<div>" * N + b"deep",
        lambda: b"<a href=/first>x</a>" + b"<ul><li>" * N,
        lambda: (
            b"<a href=/first>x</a>" + b"<p>" + b"".join(b"<b id=%d>" % n for n in range(N)) + b"</p><p>x" * N
        ),
        lambda: (
            b"<a href=/first>x</a>"
            + b"<p>"
            + b"".join(b"<b id=%d>" % n for n in range(4_000))
            + b"</p><p>x" * 4_000
        ),
        lambda: b"<a href=/first>x</a><a " + b" ".join(b"a%d=1" % n for n in range(N)) + b">",
        lambda: b'<a href=/first>x</a><a title=">" ' + b" ".join(b"a%d=1" % n for n in range(N)) + b">",
        lambda: b"<a href=/first>x</a>" + b"<span>" * N + b"<p></p>" * N,
    ],
    ids=["nested", "lists", "formats", "fewer formats", "attributes", "quoted attributes", "inline"],
)
def test_shapes_on_which_parsers_take_forever(build: Callable[[], bytes]) -> None:
    page = make(build())
    started = time.process_time()
    assert page.links() == ["https://a.example/first"]
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "build",
    [
        lambda: b"<table>" + b'<tr><td><font color="red">a</font><a href="/x">b</a><br>' * 20_000,
        lambda: b"<svg>" + b'<rect x="1"/>' * N + b"</svg>",
        lambda: b"<p data-page='" + b'{"a b": 1, /x}' * 50_000 + b"'>y</p>",
        lambda: b'<div class="c"><h3><a href="/1">T</a></h3><i class="icon"></i><p>text</div>' * 10_000,
        lambda: b'<a href="' + b"x" * 50_000_000 + b'">y</a>',
    ],
    ids=["table", "drawing", "long attribute", "cards", "50 MB attribute"],
)
def test_large_but_ordinary_pages_pass_whole(build: Callable[[], bytes]) -> None:
    body = build()
    assert affordable(body) == len(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"<p>a\0b<a href='x\0y'>",
        b"\xff\xfe",
        b"\xfe\xff\xd8\x00",
        b"<p>\xed\xa0\x80\xff&#xD800;",
        b"\xef\xbb\xbf",
    ],
)
@pytest.mark.parametrize(
    "content_type",
    ["text/html", "", "text/html; charset=utf-16", "text/html; charset=undefined", "text/html; charset=\0"],
)
def test_bytes_that_are_no_text_never_raise(body: bytes, content_type: str) -> None:
    look_everywhere(make(body, content_type))


@given(
    st.binary(max_size=300),
    st.sampled_from(["", "text/html", "text/html;charset=gbk", "text/html;charset=utf-16"]),
)
@example(b"<meta charset=base64>x", "text/html")
@example(b"<frameset><frame>", "text/html")
def test_no_bytes_raise(body: bytes, content_type: str) -> None:
    look_everywhere(make(b"<title>" + body + b"<a href=" + body + b">", content_type))
    look_everywhere(make(body, content_type))


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("Grüße".encode(), "text/html", "Grüße"),
        ("Grüße".encode("latin-1"), "text/html; charset=ISO-8859-1", "Grüße"),
        ("“Grüße”".encode("cp1252"), 'text/html; charset="latin1"', "“Grüße”"),
        ("Привет".encode("koi8-r"), "text/html; Charset = koi8-r ; x=y", "Привет"),
        ("\ufeffПривет".encode("utf-16-le"), "text/html", "Привет"),
        ("\ufeffПривет".encode("utf-16-be"), "text/html", "Привет"),
        ("\ufeffПривет".encode(), "text/html", "Привет"),
        ("\ufeffПривет".encode(), "text/html; charset=utf-8", "Привет"),
        (b'<meta charset="windows-1251">' + "Привет".encode("cp1251"), "text/html", "Привет"),
        (
            b"<meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'>" + "日本".encode("cp932"),
            "text/html",
            "日本",
        ),
        (b"<meta charset=utf-16>abc", "text/html", "abc"),
        (b"<meta charset=rot13>abc", "text/html", "abc"),
        (b"a\xffb", "text/html; charset=utf-8", "a�b"),
        (b"\x00\xd8a\x00", "text/html; charset=utf-16le", "�a"),
    ],
)
def test_the_charset_is_found_and_what_is_wrong_replaced(body: bytes, content_type: str, text: str) -> None:
    page = make(body, content_type)
    assert page.text() == text
    assert page.html.endswith(text)
    assert not page.html.startswith("\ufeff")


@pytest.mark.parametrize(
    "header",
    ["text/html; charset=" + " " * 32_000, "text/html; charset" + " " * 32_000, "charset= " * 4_000 + '"'],
)
def test_a_long_header_takes_no_longer(header: str) -> None:
    began = time.thread_time()
    assert codec_of(b"", header) == "cp1252"
    assert codec_of(b"<meta " * 100 + b"charset=" + b" " * 1000) == "cp1252"
    assert time.thread_time() - began < 1


def test_labels_that_were_made_up_are_not_remembered() -> None:
    """Python keeps every label it was asked about: a server could fill the memory with them."""
    before = len(encodings._cache)  # type: ignore[attr-defined]
    for n in range(500):
        codec_named(f"made-up-{n}")
        codec_named(f"utf{'-' * (n % 30)}8")
    assert len(encodings._cache) <= before + 1  # type: ignore[attr-defined]


@given(st.binary(max_size=64), st.text(max_size=20))
def test_every_label_is_an_encoding_or_nothing(body: bytes, label: str) -> None:
    decode(body, codec_named(label) or "utf-8").encode()
