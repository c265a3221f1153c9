"""What an untold body is taken for, beside the table of the WHATWG's MIME Sniffing Standard (section 7.1)."""

from __future__ import annotations

import time

import pytest

from shoal.html.media import is_html

# Matched after leading white space, in any case; then comes a blank or ">".
WHATWG = [
    *(
        b"<!DOCTYPE HTML",
        b"<HTML",
        b"<HEAD",
        b"<SCRIPT",
        b"<IFRAME",
        b"<H1",
        b"<DIV",
        b"<FONT",
        b"<TABLE",
        b"<A",
    ),
    *(b"<STYLE", b"<TITLE", b"<B", b"<BODY", b"<BR", b"<P"),
]


@pytest.mark.parametrize("tag", WHATWG)
@pytest.mark.parametrize("before", [b"", b" \t\r\n\x0c", b"\n\n"])
@pytest.mark.parametrize("end", [b" ", b">"])
def test_every_tag_of_the_standard_is_html(before: bytes, tag: bytes, end: bytes) -> None:
    assert is_html("", before + tag + end + b"x")
    assert is_html("application/octet-stream", before + tag.lower() + end)
    assert not is_html("text/plain", before + tag + end)


@pytest.mark.parametrize("tag", WHATWG)
def test_a_longer_name_is_another_tag(tag: bytes) -> None:
    assert not is_html("", tag + b"x>")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"%PDF-1.7",
        b"GIF89a",
        b"\x89PNG",
        b"PK\x03\x04",
        b"{}",
        b"text <p>",
        b"<?xml version='1.0'?><rss>",
    ],
)
def test_other_things_are_not(body: bytes) -> None:
    assert not is_html("", body)


@pytest.mark.parametrize(
    ("body", "ours"),
    [
        # The standard takes any comment for HTML; ours looks behind it, because feeds begin so, too.
        (b"<!-- x --><html>", True),
        (b"<!-- a --><!----><!-->\n<p>", True),
        (b"<!-- x --><rss>", False),
        (b"<!-- x", False),
        # … and takes XHTML for XML; ours for what it is.
        (b"<?xml version='1.0'?>\n<!DOCTYPE html>", True),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- x --><html xmlns='x'>", True),
        # It does not know <meta>.
        (b"<meta charset=utf-8>", True),
    ],
)
def test_where_we_disagree_with_the_standard(body: bytes, ours: bool) -> None:
    assert is_html("", body) is ours


@pytest.mark.parametrize(
    "body",
    [b"<!---->" * 140 + b"x", b"<!-->" * 200, b"<?xml>" * 170, b" " * 1024, b"<!doctype" + b" " * 1010],
)
def test_no_beginning_takes_long(body: bytes) -> None:
    began = time.thread_time()
    for _ in range(100):
        assert not is_html("", body)
    assert time.thread_time() - began < 1
