"""Parsing within a budget: hostile pages are cut in time, ordinary ones are not touched."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from shoal.html import parsing
from shoal.html.attribute_bombs import MOST_ATTRIBUTES, _is_clear, crowded_tag
from shoal.html.parsing import _different_formats, _has_more_tags, _piece_for, affordable, parse
from shoal.html.visible_text import visible_length, visible_text
from shoal.html.xml import XmlDocument, evaluate
from shoal.model import Response, Task
from shoal.spider.page import Page

SIZE = 600_000
FIRST = b"<a href=/first>x</a>"


def repeated(fragment: bytes) -> bytes:
    return FIRST + fragment * (SIZE // len(fragment))


def attributes(count: int, first: int = 0) -> bytes:
    return b" ".join(b"a%d" % n for n in range(first, first + count))


# Each of these took between ten seconds and minutes.
ATTACKS = {
    "ruby": repeated(b"<rt>"),
    "foreign": repeated(b"<svg></x>"),
    "misnested": repeated(b"<b></i>"),
    "nested": repeated(b"<div>"),
    "body": FIRST + b"".join(b"<body %b>" % attributes(400, n) for n in range(0, 200_000, 400)),
    "attributes": FIRST + b"<a %b>" % attributes(100_000),
    "formats": FIRST
    + b"<p>"
    + b"".join(b"<b id=%d>" % n for n in range(30_000))
    + b"</p>"
    + b"<p>x" * 60_000,
    "fat formats": FIRST
    + b"<p>"
    + b"".join(b"<b x%d %b>" % (n, attributes(400)) for n in range(150))
    + b"</p>"
    + b"<p>x" * 60_000,
    "late": FIRST + b"x" * 4_000_000 + b"<rt>" * 150_000,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_would_take_minutes_is_cut(attack: str) -> None:
    html = ATTACKS[attack]
    began = time.thread_time()
    tree, kept = parse(html)
    assert time.thread_time() - began < 5
    assert len(FIRST) <= kept < len(html)
    assert [node.attributes["href"] for node in tree.css("a[href]")] == ["/first"]


def test_a_small_page_can_do_no_harm() -> None:
    """Formatting elements in 8 KB took 150 ms and 200 MB; in 16 KB a second and a gigabyte."""
    html = b"<p>" + b"".join(b"<b %d>" % n for n in range(1_300)) + b"</p>" + b"<p>x" * 2_000
    began = time.thread_time()
    _, kept = parse(html)
    assert kept < len(html) < 24 * 1024
    assert time.thread_time() - began < 2


def test_many_attributes_without_an_end_are_no_tag() -> None:
    html = b"<a/b=" * 32_000
    began = time.thread_time()
    assert affordable(html) == len(html)  # one attribute, whose value is all the rest
    assert time.thread_time() - began < 1


def test_a_page_that_was_cut_says_so(caplog: pytest.LogCaptureFixture) -> None:
    url = "https://a.example/"
    page = Page(Task(url=url), Response(url, 200, {}, ATTACKS["ruby"]), "h")
    assert page.cut == 0
    assert page.links() == [url + "first"]
    assert 0 < page.cut < len(page.body)
    assert [record.getMessage() for record in caplog.records] == [
        f"only {len(page.body) - page.cut} of the {len(page.body)} bytes of {url} are parsed:"
        " the rest would take too long"
    ]


def read_as_xml(document: bytes) -> int:
    return XmlDocument(document).kept


def read_for_xpath(html: bytes) -> int:
    return evaluate(html, "//a")[1]


@pytest.mark.parametrize("read", [affordable, read_as_xml, read_for_xpath])
def test_a_machine_that_stands_still_for_a_moment_costs_no_page_its_end(
    read: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    html = b"<html>" + ordinary(1, 1_000) + b"</html>"
    assert read(html) == len(html)
    readings = itertools.count()

    def after_a_pause(clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + (10.0 if next(readings) > 20 else 0.0)

    clocks = {name: after_a_pause(getattr(time, name)) for name in ("perf_counter", "thread_time")}
    monkeypatch.setattr(parsing, "time", SimpleNamespace(**clocks))
    assert read(html) == len(html)


def test_xpath_has_the_same_budget() -> None:
    pytest.importorskip("lxml")
    url = "https://a.example/"
    page = Page(Task(url=url), Response(url, 200, {}, ATTACKS["attributes"]), "h")
    began = time.thread_time()
    assert page.xpath("//a/@href") == ["/first"]
    assert page.cut > 0
    assert time.thread_time() - began < 5


def test_nested_styles_are_measured_once() -> None:
    tree = LexborHTMLParser(b"a<svg><style>b<g>c</g><style>d</style></style></svg>e<script>f</script>")
    assert (visible_text(tree), visible_length(tree)) == ("ae", 2)
    deep = LexborHTMLParser(b"<svg><style>x" * 30_000)
    began = time.thread_time()
    assert visible_length(deep) == 0
    assert time.thread_time() - began < 2


# -- ordinary pages

WORDS = [
    b"lorem",
    b"ipsum",
    b"caf\xc3\xa9",
    b"&amp;",
    b"&eacute;",
    b"a < b",
    b"5 > 3",
    b"it's",
    b'"so"',
    b"\n",
]
BLOCKS = [
    b'<div class="card c%d"><h3><a href="/item/%d">%b</a></h3><p>%b<br>%b</div>',
    b"<ul><li>%d<li><a href='?page=%d'>%b</a><li>%b %b</ul>",
    b'<table><tr><td>%d<td><font color="red">%d</font><td><i class=icon></i>%b<td>%b%b</table>',
    b'<script>if (a<%d && b>"%d") { document.write("<p title=\'%b %b") } // %b</script>',
    b"<!-- %d <a href='/hidden/%d'> %b -- > %b > %b -->",
    b'<svg viewBox="0 0 %d %d"><title>%b</title><style>.a > b { x: "%b" }</style><path d="%b"/></svg>',
    b'<img alt="%d > %d" src=/x/%b.png><input value="%b" disabled><select><option>%b</select>',
    b"<b id=b%d><i>%d %b</b>%b</i> %b",
    b"<textarea>%d </p><a href=/no/%d>%b %b %b</textarea>",
    b'<p data-page=\'{"a": %d, "b": [%d, "%b"]}\'>%b<p>%b',
]


def ordinary(seed: int, blocks: int) -> bytes:
    rng = random.Random(seed)
    body = [
        rng.choice(BLOCKS) % (n, rng.randrange(99), *(b" ".join(rng.choices(WORDS, k=5)) for _ in range(3)))
        for n in range(blocks)
    ]
    return (
        b"<!doctype html><html lang=en><head><title>%d</title><style>a>b{}</style></head><body>" % seed
        + b"\n".join(body)
    )


@pytest.mark.parametrize("blocks", [10, 100, 1_000, 5_000])
def test_ordinary_pages_are_parsed_as_ever(blocks: int) -> None:
    for seed in range(20 if blocks <= 100 else 2):
        html = ordinary(seed, blocks)
        tree, kept = parse(html)
        assert kept == len(html)
        assert tree.html == LexborHTMLParser(html).html


# -- tags with too many attributes, wherever they are

PIECES = [
    *(b"<!--", b"-->", b"--!>", b"<!-->", b"<!", b"<?", b"</", b"<![CDATA[", b"]]>", b">", b"<", b"/", b"="),
    *(b'"', b"'", b' x="', b" x='", b"<a t=", b'<a t="', b"<p>", b"</p>", b"text", b" ", b"<a <b"),
    *(b"<script>", b"</script>", b"<SCRIPT ", b"</Script", b"<style>", b"</style>", b"<title>", b"</title>"),
    *(
        b"<textarea>",
        b"</textarea>",
        b"<xmp>",
        b"</xmp>",
        b"<iframe>",
        b"</iframe>",
        b"<noframes>",
        b"<noembed>",
    ),
    *(b"<noscript>", b"</noscript>", b"<plaintext>", b"<svg>", b"</svg>", b"<math>", b"<mi>", b"<desc>"),
    *(
        b"<select>",
        b"</select>",
        b"<frameset>",
        b"<template>",
        b"</template>",
        b"<table>",
        b"<td>",
        b"<head>",
    ),
    *(b"<foreignObject>", b"<annotation-xml encoding=text/html>", b"<option>", b"<body>", b"\0", b"\x0b"),
]
NAMES = [b"%x" % number for number in range(MOST_ATTRIBUTES + 1)]
SHORT_NAMES = [chr(number).encode() for number in range(0x100, 0x100 + MOST_ATTRIBUTES + 1)]
CROWDS = [
    *(
        b"<a " + between.join(NAMES) + b">"
        for between in (b" ", b"/", b"\f\n", b"=1 ", b" = '>'", b'=">"', b'=""')
    ),
    *(b"<a" + between + between.join(SHORT_NAMES) + b">" for between in (b" ", b"/")),
    b"<a x='" + b"=''".join(NAMES) + b"=''>",
]
USUAL = CROWDS[0]


@given(
    st.lists(st.sampled_from(PIECES), max_size=12),
    st.sampled_from(CROWDS),
    st.lists(st.sampled_from(PIECES), max_size=4),
)
@example([b"<svg>", b"<style>", b"<!--", b"</style>"], USUAL, [])
@example([b"<script>", b"<!--", b"<script>", b"</script>", b'<a t="', b"</script>"], USUAL, [])
@example([b"<!--", b'<a t="', b"-->"], USUAL, [])
@settings(max_examples=300, deadline=None)
def test_what_the_parser_sees_as_a_crowd_is_found(
    before: list[bytes], crowd: bytes, after: list[bytes]
) -> None:
    html = b"".join(before) + crowd + b"".join(after)
    tree = LexborHTMLParser(html)
    nodes = tree.root.traverse() if tree.root is not None else ()
    if any(len(node.attributes) > MOST_ATTRIBUTES for node in nodes):
        assert crowded_tag(html) is not None


@pytest.mark.parametrize(
    "html",
    [
        b"<a %b>" % attributes(MOST_ATTRIBUTES),
        b"<p title='%b'>" % attributes(10_000),
        b"<!-- <p %b> -->" % attributes(10_000),
        b"<a %b" % attributes(10),
        b'<a x="%b' % attributes(10_000),
        b"<p>" + b"<p a b c>" * 10_000,
    ],
)
def test_what_is_no_crowd_is_let_through(html: bytes) -> None:
    assert crowded_tag(html) is None


@pytest.mark.parametrize("crowd", CROWDS)
def test_every_crowd_is_one_to_the_parser_and_is_found(crowd: bytes) -> None:
    node = LexborHTMLParser(crowd).css_first("a")
    assert node is not None
    assert len(node.attributes) > MOST_ATTRIBUTES
    assert crowded_tag(b"<p>text</p>" + crowd) == len(b"<p>text</p>")


@pytest.mark.parametrize(
    "fragment", [b"<", b"<a ", b'="', b"='", b"= ", b"<a b='>'", b">", b"<!--", b"< " * 600 + b">"]
)
def test_a_glance_takes_linear_time(fragment: bytes) -> None:
    """Four times the length takes about four times as long, on whatever machine."""

    def seconds(size: int) -> float:
        html = fragment * (size // len(fragment))
        took = []
        for _ in range(3):
            began = time.thread_time()
            _is_clear(html)
            took.append(time.thread_time() - began)
        return min(took)

    assert seconds(2_000_000) < 12 * seconds(500_000) + 0.01


@given(st.text(alphabet="<>a", max_size=40), st.integers(0, 40))
def test_whether_there_are_more_tags_is_a_count(text: str, most: int) -> None:
    html = text.encode()
    assert _has_more_tags(html, most) is (html.count(b"<") > most)


def test_the_memory_of_a_parsed_page_is_used_again() -> None:
    """Otherwise the system clears a hundred kilobytes for every page."""
    page = b"<ul>" + b"<li><a href=/x>text</a>" * 500
    program = f"""
import resource
from shoal.html.parsing import parse
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50): parse({page!r})
before = faults()
for _ in range(200): parse({page!r})
print(faults() - before)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    assert int(told.stdout) < 200  # without, there are some twenty a page


# -- how many bytes are read at a time


@pytest.mark.parametrize(
    ("formats", "size", "piece"),
    [(10, 100_000, 1024), (10, 300_000, 256), (100, 100_000, 256), (300, 30_000, 256), (300, 100_000, 16)],
)
def test_the_more_a_piece_can_cost_the_smaller_it_is(formats: int, size: int, piece: int) -> None:
    html = b"".join(b"<b id=%d>" % n for n in range(formats))
    assert _piece_for(html + b"<p>" * ((size - len(html)) // 3)) == piece


@pytest.mark.parametrize(
    "tag", [b"<b c>", b"<STRONG\tc>", b"<nobr/c>", b"<Font c=1>", b"<u c='>'>", b"<tt >"]
)
def test_a_formatting_element_with_attributes_is_counted(tag: bytes) -> None:
    assert _different_formats(b"<p>" + tag + b"</p>") == 1


@pytest.mark.parametrize(
    "tag", [b"<b>", b"</b c>", b"<bdo c>", b"<section c>", b"<strongest c>", b"<p c>", b"< b c>"]
)
def test_other_tags_are_not(tag: bytes) -> None:
    assert _different_formats(b"<p>" + tag + b"</p>") == 0
