"""What is repeated: every element of HTML alone and in pairs, other markup, and text as in headers and URLs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from msgspec import Struct

_ELEMENTS = """
a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink blockquote
body br button canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl
dt em embed fieldset figcaption figure font footer form frame frameset h1 h2 h6 head header hgroup hr html i
iframe image img input ins isindex kbd keygen label legend li link listing main map mark marquee math menu
menuitem meta meter nav nobr noembed noframes noscript object ol optgroup option output p param picture
plaintext pre progress q rb rp rt rtc ruby s samp script search section select selectedcontent slot small
source spacer span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead
time title tr track tt u ul var video wbr xmp custom-element mi mtext annotation-xml foreignObject desc
"""
ELEMENTS = tuple(_ELEMENTS.split())

# fmt: off
# {} is an element's name, %d a number that grows.
SHAPES = (
    "<{}>", "<{}>x", "<{}></{}>", "<{}></x>", "</{}>", "<{}/>", "<x></{}>", "<{} a=1>", "<{} a%d>",
    "<{} id=%d>x", "<p><{}></p>x", "<svg><{}>", "<math><{}>", "<table><{}>", "<select><{}>",
    "<template><{}>", "<td><{}>x",
)
PAIRS = ("<{0}><{1}>", "<{0}></{1}>x", "<{0}><{1}></{0}>", "<{0} a%d><{1}>x")

MARKUP = (
    "<!---->", "<!--", "<!-- -- -->", "<!-->", "<!", "<?", "<?xml ?>", "<!doctype html>", "<!doctype a%d>",
    "<![CDATA[", "<svg><![CDATA[x]]>", "]]>", "<", ">", "</", "</>", "/>", "<a", "<a ", "<a/b=", "<a b=",
    '<a b="', "<a b='", '<a b="c\'d" ', "<a a%d=1 ", "<body a%d b%d c%d d%d>", "<html a%d>", '"', "'", "=",
    "x", " ", "\n", "\x00", "&", "&amp;", "&amp", "&#", "&#x41;", "&#99999999999;", "&notit;",
    "&CounterClockwiseContourIntegral;", "a&b;", "\x00x", "x</y>", "é", "\r\n", "\x0c", "\x0b", "<script>",
    "<script><!--", "<script><!--<script>", "</script>", "<svg><style>x", "<svg><style><!--</style>",
    "<title><a b='</title>", "<textarea></textare", "<svg></p>",
    "<select><button><selectedcontent></selectedcontent></button><option selected>x", "<select><option>",
    "<!DOCTYPE a [", "<!DOCTYPE a>", "<!ENTITY a%d 'b'>", "<a xmlns:p%d='u%d'>", "<a xmlns:p%d='u%d'/>",
    "<p:a p:b='1'/>", "<![CDATA[x]]>", "<a/>", "<a b='>'/>", "&own;", "&#146;", "<?a ?>",
    "<a href=/%d>x</a>", "<a href=/%d>", "<a href=x:%d>", "<base href=/%d>", "<meta charset=x%d>",
    "<title>x</title>", "<meta name=description content=x>", "<link rel=canonical href=/%d>",
    "<p><b id=%d></p>x", "<li><ul>", "<td><table>",
    "<plaintext><script>", "<plaintext><style></style>", "<div title='<script>'>", "<fieldset><input name=a%d>",
    "<fieldset disabled><input name=a%d>", "<fieldset disabled><legend><input name=a%d>",
    "<div><input name=a dirname=b%d>", "<select name=a%d><option selected>x</select>", "<form><input name=a form=b>",
    "<table><form><tr><td><input name=a>", "<textarea name=a>", '<script type="application/ld+json">',
    '<script type="application/ld+json">{"@type":"Product","name":"x"}</script>',
    "<p itemprop=name>x", "<div itemprop=a>x", "<div itemscope itemprop=offers>x", "<div itemscope id=a itemref=a>",
    "<div itemscope id=i%d itemref='i%d i1' itemprop=a>", "<p property=name>x", "<div property=a typeof=b>x",
    "<a property=a resource='#%d' href='#1'>", "<div prefix='p%d: u%d'>", "<meta property=og:image content=x>",
)

TEXT = (
    " ", "\t", "\n", "x", "1", "9", "0", ".", ",", "1,", "1,000", "1.5", ";", ":", "=", "&", "?", "#", "/",
    "//", "@", "//@", "//a@", "%", "%4", "%41", "%%", "%2e/", "../", "./", "/a", "/a/b", "a=1&", "&a%d=1",
    "a=&", "charset", "charset=", "charset = ", 'charset="', "charset=x;", ";jsessionid=1", ";jsessionid=",
    "/;jsessionid=1", "utm_a=1&", "&month=1", "&month=&year=", "?month=", "&page=1", "/page/1", "/2001",
    "/2001-1", "calendar/", "http://", "é", "\\", "xn--", "Sun, ", "06 Nov ", "GMT ", "-", "[", "]", "{",
    '{"a":', '"', "'", "\ud800", "\x00", "Reset(", "A_", "GoAway(A", "login", "/login", "captcha",
    "/captcha/", "<!--", "-->", "// <![CDATA[", "//]]>", '[{"@graph":', '{"@graph":[', "[]",
    '{"a":"b" ', '"a",', '" // ', '" /*', '//"\n', "'a':", '\\"', '{"@type":"Product","offers":[', '{"@id":"a","@id":',
    "&quot;", "€", "1 ", "1.1", "1,000.", " $", "not in stock", "1:00 ",
    "\r\n ", "\r", "\n", "\r\nX: y", "\r\n:", "1\r\nx\r\n", "1;", "0\r\n",
)
# fmt: on


class Family(Struct, frozen=True):
    fragment: str

    @property
    def name(self) -> str:
        return repr(self.fragment)

    def of(self, size: int) -> bytes:
        """The fragment repeated, to about so many bytes."""
        fragment = self.fragment.encode("utf-8", "surrogatepass")
        numbers = fragment.count(b"%d")
        if not numbers:
            return fragment * max(1, size // len(fragment))
        parts: list[bytes] = []
        while size > 0:
            first = len(parts) * numbers
            parts.append(fragment % tuple(range(first, first + numbers)))
            size -= len(parts[-1])
        return b"".join(parts)


def singles() -> Iterator[Family]:
    for shape, element in product(SHAPES, ELEMENTS):
        yield Family(shape.replace("{}", element))


def pairs() -> Iterator[Family]:
    for shape, first, second in product(PAIRS, ELEMENTS, ELEMENTS):
        yield Family(shape.format(first, second))


def markup() -> Iterator[Family]:
    return map(Family, MARKUP)


def text() -> Iterator[Family]:
    return map(Family, TEXT)
