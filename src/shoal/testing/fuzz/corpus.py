"""Inputs written by us: ordinary ones to begin with, and every attack that once got through. All must hold for ever."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module

import brotli  # type: ignore[import-untyped]

from shoal.testing.fuzz.target import Target

KB = 1024
# Spelt as names, because a type checker knows only the one or the other.
_zstd = import_module("compression.zstd") if sys.version_info >= (3, 14) else import_module("backports.zstd")


def inputs(target: Target) -> dict[str, bytes]:
    """Everything written for a target, by a short name."""
    return {**_numbered(ORDINARY.get(target.name, ())), **ATTACKS.get(target.name, {})}


def _numbered(plain: Sequence[bytes]) -> dict[str, bytes]:
    return {f"ordinary {number}": data for number, data in enumerate(plain, 1)}


_PAGE = (
    b'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Lamps &amp; more</title>'
    b'<meta name="description" content="All lamps"><base href="/shop/"><link rel="canonical" href="/lamps">'
    b"<style>p{color:red}</style></head><body><h1>Lamps</h1><p>A <b>bright</b> lamp.</p><ul>"
    b'<li><a href="lamp?id=1&amp;utm_source=x#top">One</a><li><a href="//b.example/">Two</a></ul>'
    b"<table><tr><td>1<td>2</table><script>var a = '<p>';</script><!-- end --></body></html>"
)
_FEED = (
    b'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x "y">]><rss xmlns:m="http://search.yahoo.com/mrss/"><channel>'
    b"<item><title>A &amp; B&nbsp;&x;</title><link>https://a.example/1</link><m:thumbnail url='/t.png'/>"
    b"<description><![CDATA[<p>x</p>]]></description></item></channel></rss>"
)
_PRODUCT = (
    b'{"@context":"https://schema.org","@graph":[{"@type":"Product","name":"Lamp","offers":{"@id":"#o"},'
    b'"aggregateRating":{"ratingValue":"4,5","reviewCount":3}},{"@id":"#o","@type":"Offer","price":"1.234,50 EUR",'
    b'"availability":"http://schema.org/InStock"},{"@type":"BreadcrumbList","itemListElement":[{"name":"A","item":"/a"}]}]}'
)
_ITEM = (
    b"<div itemscope itemtype=http://schema.org/Product itemref=more><h1 itemprop=name>Lamp</h1><p itemprop=offers"
    b" itemscope itemtype=http://schema.org/Offer><b itemprop=price>1,50</b><meta itemprop=priceCurrency content=EUR>"
    b"</p></div><p id=more itemprop=sku>L-1"
)
_TYPED = b"<p vocab=http://schema.org/ typeof=Recipe><b property=name>Soup</b><time property=cookTime datetime=PT1H>1 h"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
_TASK = b"\x00\x01\x05pageX\x43\x01\x02\x00\x85" + bytes(range(60)) + b"\x05hello\x04meta" * 4

ORDINARY: Mapping[str, Sequence[bytes]] = {
    "toml-page": (
        _PAGE,
        b"<h1>Lamp</h1><p class=price>\xe2\x82\xac 1.234,50</p><table><tr class=a><td><b>1</b><td>2</table>",
        b'{"price": 1, "a": [{"b": 1, "c": 2}], "deep": {"price": [1, null]}}',
        b'<script>x = {"a": [1, 2]};</script><script type="application/json">{"price": 5}</script>',
    ),
    "toml-file": (
        b'start = "https://a.example/"\n[handler.a]\nfollow.b = "a"\nnext = ".n"\n[handler.b.fields]\nc = "h1"\n'
        b'd = { css = "p", type = "price", regex = "x+", clean = ["lower", { cut = 3 }] }\n'
        b'e = ["a", { json = "b[0]" }]\n',
        b'[template.t.handler.p]\nmatch = "/p/*"\nfields.n = "h1"\n[site.a]\nuse = "t"\nstart = "https://a.example/"\n'
        b'[site."b.c"]\nuse = ["t"]\nsitemap = []\nstart = ["https://b.example/"]\nrate = 2\n',
        b"a.b.\"c\".d = [1, {e = 2}]\n[[f]]\ng = '''x'''\n[[f]]\n[f.h]\ni = 1979-05-27 07:32:00\n",
    ),
    "url": (
        b"https://user:s3cret@A.example:443/a/./b/../c?b=2&a=1&utm_source=x#top",
        b"../up?q=%7e%41\nhttps://a.example/x/y/",
        "http://bücher.example/straße?q=ü".encode(),
    ),
    "typed": (
        b"example.com/path",
        b"localhost:8000",
        b"[::1]/x",
        b"ftp://user:s3cret@host/",
        b"https://a.example",
    ),
    "admission": (b"/next?page=2\nhttps://a.example/", b"https://b.example/", b"//user:s3cret@a.example/x"),
    "paging": (b"page\n2\nhttps://a.example/list?page=1&q=x", b"p\n3\nPage 1 of 1,234"),
    "robots": (
        b"a/b\n\nUser-agent: *\nDisallow: /private/\nAllow: /private/open$\nCrawl-delay: 2\n\n"
        b"User-agent: Shoal\nDisallow: /a*b",
    ),
    "retry-after": (b"120", b"Wed, 21 Oct 2026 07:28:00 GMT", b"1.5"),
    "encodings": (
        b"text/html; charset=utf-8\n<p>x",
        b"text/html\n<meta charset=shift_jis>\x83\x65",
        b"\n\xff\xfeh\x00",
    ),
    "media": (
        b"text/html\n" + _PAGE,
        b"\n<?xml version='1.0'?><!-- a --><html>",
        b"application/octet-stream\n\x89PNG",
    ),
    "html": (_PAGE, b"<p>no head", b""),
    "without-code": (
        b'</de>; rel="alternate"; hreflang=de, <x>; rel=canonical\n' + _PAGE,
        b"googlebot: noindex, max-snippet: 2\n<h1>x</h1><img src=a alt><a href='#b' id=c>d</a>",
        b"\xff\n<link rel=canonical href=/x><h2><a name=y>",
    ),
    "structured": (
        _PRODUCT,
        _ITEM,
        _TYPED,
        b"<meta property=og:type content=article><meta name=author content=A>",
        b"",
    ),
    "prices": (
        "EUR\n1.234,50 €".encode(),
        "\nCHF 1'234.–".encode(),
        b"$\nfrom 10",
        b"\n2026-01-02T10:00:00+02:00",
    ),
    "guesses": (_PAGE, _PRODUCT, b"<ul><li><a href=/p/1>A</a> 5 EUR<li><a href=/p/2>B</a> 6 EUR</ul>", b""),
    "xml": (_PAGE, _FEED, b"<?xml version='1.0' encoding='koi8-r'?><a b='\xc1'>\xc1</a>", b""),
    "sources": (
        b"<urlset><url><loc>https://a.example/1</loc><lastmod>2026-01-31</lastmod></url></urlset>",
        b"https://a.example/1\nhttps://a.example/2\n",
        _FEED,
        b'{"items":[{"url":"https://a.example/1","title":"x"}]}',
        b'<https://a.example/2>; rel="next"; title="a, b"',
    ),
    "answers": (
        b"200\nContent-Type: text/html\n\n" + _PAGE,
        b"429\nRetry-After: 5\nSet-Cookie: sid=s3cret\n\nslow down",
        b"302\nLocation: //user:s3cret@b.example/\n\n",
        b"403\nCF-Mitigated: challenge\n\n<title>Just a moment...</title><script>1</script>",
    ),
    "cookies": (
        b"a=1; Path=/; Domain=a.example\nb=2; Secure; HttpOnly; Max-Age=60",
        b'c="x y"; Expires=Wed, 21 Oct 2026',
    ),
    "mendings": (
        b"\x10\r\nContent-Length: 5\r\n\r\nhello",
        b"\x03\nX : y\r\n folded\nTransfer-Encoding: chunked\n\n5;a=b\r\nhello\n0\r\nT: z\r\n\r\n",
        b"\x40\r\nContent-Length: 5, 5\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK",
    ),
    "decodings": (
        b"\x00\x10" + gzip.compress(_PAGE, mtime=0),
        b"\x01\x10" + zlib.compress(_PAGE),
        b"\x02\x10" + brotli.compress(_PAGE),
        b"\x03\x10" + _zstd.compress(_PAGE),
        b"\x04\x10plain",
    ),
    "gate": (_ANSWER, _CHUNKED, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    "sqlite-codec": (_TASK,),
    "redis-codec": (_TASK,),
    "packing": (_TASK,),
    "notes": (b"\x81\xa5start\xc3", b"\x82\xa6output\xc4\x01x\xa8settings\x81\xa4rate\xcb" + b"\0" * 8),
    "settings": (b"rate\n2.5\nrate = 1\nheaders = {A = 'b'}\n", b"proxies\n{}\n[lanes]\nurgent = 2\n"),
    "addresses": (
        b"user:s3cret@host:6379/0?shards=2",
        b"host",
        b"/run/valkey.sock?db=1",
        b"h1:1,h2:2/service/0",
    ),
    "cron": (b"*/15 * * * *", b"30 4 * * 1-5", b"0 0 29 feb *"),
    "http": (_ANSWER, _CHUNKED, b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"),
    "valkey": (_TASK, b""),
}

_COMMENTS = b"<!---->" * 140 + b"x"
_MANY_AGENTS = b"".join(b"User-agent: bot%d\n" % n for n in range(2_000))
_MANY_RULES = b"".join(b"Disallow: /%d*x\n" % n for n in range(2_000))
_ATTRIBUTES = b"<body " + b" ".join(b"a%d" % n for n in range(400)) + b">"
_HEAD = b"HTTP/1.1 200 OK\r\n"

_SHARED = (
    b'[{"@id":"#a","offers":['
    + b'{"price":1},' * 500
    + b"{}]},"
    + b'{"@type":"Product","offers":{"@id":"#a"}},' * 200
)

ATTACKS: Mapping[str, Mapping[str, bytes]] = {
    "structured": {
        "brackets": b"[" * (100 * KB),
        "braces": b'{"a":' * (20 * KB),
        "quotes before comments": b'{"a":' + b'" // ' * (20 * KB),
        "quotes in comments": b'{"a":"' + b'//"\n' * (20 * KB),
        "offers that many share": _SHARED + b"{}]",
        "an item that refers to itself": b"<div itemscope id=a itemref=a><p itemprop=b itemscope itemref='a a'>"
        * 2_000,
        "items that double": b"".join(
            b"<div id=i%d><p itemprop=a itemscope itemref=i%d></p><p itemprop=b itemscope itemref=i%d></p></div>"
            % (n, n + 1, n + 1)
            for n in range(40)
        )
        + b"<div itemscope itemref=i0>",
        "properties in properties": b"<div itemscope>" + b"<div itemprop=a>x" * (10 * KB),
        "many prefixes": b"<p typeof=a>" + b"".join(b"<div prefix='p%d: u'>" % n for n in range(8_000)),
        "half characters": b'{"@type":"Product","name":"\\ud800","url":"\\udc00","offers":{"price":1e999}}',
        "many metas": b"<meta property=og:image content=x>" * 10_000,
    },
    "prices": {
        "points": b"\n" + b"1." * (8 * KB),
        "digits": b"\n" + b"9" * (16 * KB),
        "a year of five digits": b"99999-01-01",
        "an hour too many": b"2026-12-31T24:00",
    },
    "url": {
        "a session id for a host": b"http:;jsessionid=",
        "half a character": b"https://a.example/\xed\xa0\x80",
        "nothing but dots": b"http://.../",
        "an escape within an escape": b"http://a.example/%%341%25%32%35",
        "a long host": b"http://" + b"a." * 4_000 + b"/",
        "many parameters": b"http://a.example/?" + b"b=1&a=2&" * 8_000,
        "many session ids": b"http://a.example/" + b";jsessionid=1/." * 4_000,
    },
    "robots": {
        "many agents, many rules": b"a\n\n" + _MANY_AGENTS + _MANY_RULES,
        "many groups": b"a\n\n" + b"User-agent: Shoal\nDisallow: /a\n" * 8_000,
        "one pattern of stars": b"a" * 500 + b"\n\nUser-agent: *\nDisallow: /" + b"*a" * 2_000 + b"$\n",
        "a redirect to half a host": b"a\n//[]@\n",
        "no text": b"a\n\n" + b"\xff\xfe\0" * 4_000,
    },
    "encodings": {
        "a long type": b"text/html; " + b"charset " * 4_000 + b"\nx",
        "a type of blanks": b"charset=" + b" " * (32 * KB) + b"\nx",
        "many metas": b"\n" + b"<meta " * 4_000,
    },
    "xml": {
        "entities of entities": b"<!DOCTYPE a [<!ENTITY a 'xx'><!ENTITY b '&a;&a;'>]><a b='&b;'>&b;</a>",
        "comments in a document type": b"<!DOCTYPE a [" + b"<!-- " * 4_000,
        "half of everything": b"<![CDATA[<!--<?<!DOCTYPE" * 1_000,
        "nested": b"<a>" * 8_000,
        "a namespace that is none": b"<a xmlns=''",
        "half a character in CDATA in an attribute": b"<l g='<![CDATA[&#xD800;'",
    },
    "media": {
        "empty comments": b"\n" + _COMMENTS,
        "declarations": b"\n" + b"<?xml>" * 160 + b"x",
        "blanks": b"\n" + b" " * 1_000 + b"x",
    },
    "without-code": {
        "links in links": b"\n" + b"<a href=x>t<object>" * (20 * KB),
        "headings in headings": b"\n" + b"<h1>t<div>" * (20 * KB),
        "anchors": b"\n" + b"".join(b"<p id=%d>" % n for n in range(40_000)),
        "a header without end": b"<a>; rel=" * (20 * KB) + b"\n<p>",
        "half characters": b"\n<h1 id='&#xD800;'>&#xD800;</h1><img src='&#xDC00;'><a href='&#xDC00;'>x",
    },
    "html": {
        "empty comments": _COMMENTS,
        "slashes and equals": b"<a/b=" * (32 * KB),
        "attributes on bodies": _ATTRIBUTES * 400,
        "ruby texts": b"<rt>" * (100 * KB),
        "ends that fit nothing": b"<svg></x>" * (60 * KB),
        "ends of another": b"<b></i>" * (80 * KB),
        "styles in drawings": b"<svg><style>" * (20 * KB),
        "formats": b"".join(b"<b id=%d>" % n for n in range(20_000)) + b"<p>" * 20_000,
        "deep": b"<div>" * (100 * KB),
        "tables": b"<table>" * (20 * KB),
        "half characters": b"<title>&#xD800;</title><a href='&#xDC00;'>x</a>",
    },
    "answers": {
        "header bytes that are no text": b"403\nServer: \xff\xfe\nSet-Cookie: a=s3cret\n\n",
        "a status beyond all": b"9999\n\n",
        "many headers of one name": b"404\n"
        + b"X: "
        + b"a" * 900
        + b"\n"
        + (b"X: " + b"b" * 900 + b"\n") * 127,
        "unclosed scripts": b"403\nContent-Type: text/html\n\n" + b"<script" * 9_000,
    },
    "cookies": {
        "many": b"\n".join(b"c%d=%d; Domain=a.example" % (n, n) for n in range(64)),
        "a public suffix": b"a=1; Domain=.example\nb=1; Domain=com",
        "line ends": b'a=1\\015\\012X: y\nb="\\012"',
        "quotes": b'a="' + b"\\" * 4_000,
    },
    "mendings": {
        "folds": b"\xff\r\nX: y" + b"\r\n y" * 40_000 + b"\r\n\r\n",
        "crumbs": b"\xff\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000,
    },
    "decodings": {
        "a bomb that unfolds to nothing": b"\x07\xff"
        + gzip.compress(b"\x78\x9c" + b"\0\0\0\xff\xff" * KB * KB, mtime=0),
        "a bomb of gzip": b"\x00\xff" + gzip.compress(bytes(8 * KB * KB), mtime=0),
        "a bomb of brotli": b"\x02\xff" + brotli.compress(bytes(8 * KB * KB), quality=1),
        "a bomb of zstd": b"\x03\xff" + _zstd.compress(bytes(8 * KB * KB)),
        "many empty members": b"\x00\xff" + gzip.compress(b"", mtime=0) * 2_000,
        "cut": b"\x00\x01" + gzip.compress(_PAGE, mtime=0)[:40],
        "junk behind the end": b"\x00\x10" + gzip.compress(_PAGE, mtime=0) + b"junk" * 100,
    },
    "gate": {
        "endless chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 4_000,
        "a long fold": b"HTTP/1.1 200 OK\r\nA: b\r\n" + b" x\r\n" * 8_000,
    },
    "retry-after": {
        "a number beyond all": b"9" * 5_000,
        "a zone beyond all": b"Wed, 21 Oct 2026 07:28:00 +99999999999",
    },
    "typed": {
        "a session id for a host": b";jsessionid=",
        "a password behind a mistyped scheme": b"ttp//./s3cret@",
        "half a character": b"\xed\xa0\x80.example",
        "a password": b"ftp://user:s3cret@host/",
        "an address": b"127.1" * 6_000 + b"x",
    },
    "settings": {"deep arrays": b"hosts\n" + b"[" * 5_000 + b"\nhosts = " + b"[" * 5_000},
    "cron": {
        "a step beyond all": b"*/" + b"9" * 5_000 + b" * * * *",
        "digits of another script": "*/² * * * *".encode(),
    },
    "paging": {
        "digits": b"p\n1\n" + b"1," * 20_000,
        "many parameters": b"p\n1\nhttp://a.example/?" + b"a&" * 20_000,
    },
    "addresses": {"a port of other digits": "host:²".encode(), "a long port": b"host:" + b"1" * 5_000},
    "http": {
        "endless headers": _HEAD + b"X: y\r\n" * 20_000,
        "a long header": _HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        "header bytes that are no text": _HEAD + b"Server: \xff\xfe\r\nContent-Length: 0\r\n\r\n",
        "a lie about the length": _HEAD + b"Content-Length: 1000\r\n\r\nshort",
        "many interim answers": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2_000,
        "a bomb": _HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(8 * KB * KB), mtime=0),
        "a long type": _HEAD
        + b"Content-Type: text/html; "
        + b"charset " * 4_000
        + b"\r\nContent-Length: 0\r\n\r\n",
        "empty chunks of many kinds": _HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"1;"
        + b"a" * 5_000
        + b"\r\nx\r\n0\r\n\r\n",
    },
}
