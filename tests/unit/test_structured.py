"""What a page says about itself for machines, by syntax: JSON-LD however broken, microdata, RDFa, OpenGraph."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.html.parsing import parse
from shoal.html.structured import Structured
from shoal.html.structured.broken_json import read_json
from shoal.testing.growth import Reader, describe, growth, page, read_jsonld, too_fast
from shoal.testing.growth_families import Family

BASE = "https://a.example/dir/page"


def read(html: str) -> Structured:
    return Structured(parse(html.encode("utf-8", "replace"))[0], BASE)


# -- JSON-LD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,], "b": 3,}', {"a": [1, 2], "b": 3}),
        ('{"a": [1,, 2]}', {"a": [1, 2]}),
        ('{"a": 1 /* one */, // two\n "b": 2}', {"a": 1, "b": 2}),
        ('{"u": "http://a/b//c", "v": "/* x */",}', {"u": "http://a/b//c", "v": "/* x */"}),
        ('{"a": "line\nbreak\tand\x01control",}', {"a": "line\nbreak\tand\x01control"}),
        ('{"a": "a 5" screen", "b": 2}', {"a": 'a 5" screen', "b": 2}),
        ('{"a": "the "best", he says", "b": "x"}', {"a": 'the "best", he says', "b": "x"}),
        ('{"a": "the "best", 19" wide: fine", "b": 1}', {"a": 'the "best", 19" wide: fine', "b": 1}),
        ('{"a": ["x "y" z", "w"]}', {"a": ['x "y" z', "w"]}),
        ("{'a': 'It's fine', 'b': 3}", {"a": "It's fine", "b": 3}),
        ('{"@type": "Product", name: "x"', {"@type": "Product", "name": "x"}),
        ('{"a": "b"\n c: "d"}', {"a": "b", "c": "d"}),
        ("{a: 1, $b: true, c: undefined, d: None}", {"a": 1, "$b": True, "c": None, "d": None}),
        ("{“a”: “b”}", {"a": "b"}),
        ('{"a": "b"\n "c": "d"}', {"a": "b", "c": "d"}),
        ('{"price": 1.234,50, "currency": "EUR"}', {"price": "1.234,50", "currency": "EUR"}),
        ('{"price": , "a": 1}', {"a": 1}),
        ('{"a": {"b": [1, {"c": 2', {"a": {"b": [1, {"c": 2}]}}),
        ('{"a": [{"b": 1], "c": 2}', {"a": [{"b": 1}], "c": 2}),
        ('{"a": 1}}}]', {"a": 1}),
        ('{"a": "x \\\' \\d \\x41 \\u00fc",}', {"a": "x ' d A ü"}),
        ('{"a": "\\ud83d\\ude00",}', {"a": "😀"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('//<![CDATA[\n{"a": 1,}\n//]]>', {"a": 1}),
        ('{"a": "cut off he', {}),
        ('{"a": 1, "b": "cut off he', {"a": 1}),
    ],
)
def test_broken_json_is_read_as_far_as_it_makes_sense(text: str, expected: dict[str, Any]) -> None:
    assert read_json(text) == ([expected] if expected else [])


def test_several_values_in_one_script() -> None:
    for text in ('{"a": 1}{"b": 2}', '{"a": 1},\n{"b": 2}', '{"a": 1};{"b": 2};'):
        assert read_json(text) == [{"a": 1}, {"b": 2}]


def test_json_that_is_whole_is_read_as_it_is() -> None:
    text = '{"a": ["x, y", "z": 1], "b": "} ] //"}'.replace('"z": 1', '"z"')
    assert read_json(text) == [{"a": ["x, y", "z"], "b": "} ] //"}]


def test_scripts() -> None:
    html = (
        '<script type=" Application/LD+JSON ;charset=utf-8">{&quot;a&quot;: 1}</script>'
        '<script type="application/ld+json">{&quot;name&quot;: &quot;R&amp;amp;D&quot;}</script>'
        '<script type="application/ld+json">{"@graph": {"b": 2}}</script>'
        '<script type="application/ld+json">no JSON at all</script>'
    )
    assert read(html).jsonld == [{"a": 1}, {"name": "R&amp;D"}, {"b": 2}]


# -- microdata


def test_items_and_their_values() -> None:
    html = """
    <div itemscope itemtype="http://schema.org/Product https://schema.org/Car" itemid="#p">
      <h1 itemprop="name">A <b>red</b>
      lamp</h1><meta itemprop=sku content=" L-1 "><a itemprop=url href="/lamp">x</a><img itemprop=image src=a.png>
      <time itemprop=releaseDate datetime=2026-01-02>soon</time><time itemprop=at>2026-03</time>
      <data itemprop=d value=7>x</data>
      <span itemprop=price content="1.50">1,50</span><span itemprop=empty content>text</span>
      <object itemprop=o data=/o></object><meter itemprop=m value=3>x</meter><link itemprop=tel href="tel:+1">
      <div itemprop="offers alternate" itemscope><p itemprop=price>2</p></div>
      <div itemprop=color>red</div><div itemprop=color>blue</div>
    </div>"""
    [item] = read(html).microdata
    assert item == {
        "@type": ["Product", "Car"],
        "@id": "https://a.example/dir/page#p",
        "name": "A red lamp",
        "sku": "L-1",
        "url": "https://a.example/lamp",
        "image": "https://a.example/dir/a.png",
        "releaseDate": "2026-01-02",
        "at": "2026-03",
        "d": "7",
        "price": "1.50",
        "empty": "text",
        "o": "https://a.example/o",
        "m": "3",
        "tel": "tel:+1",
        "offers": {"price": "2"},
        "alternate": {"price": "2"},
        "color": ["red", "blue"],
    }


def test_items_refer_to_elements_elsewhere() -> None:
    html = """<div itemscope itemtype="http://schema.org/Product" itemref="b missing a">
      <p itemprop=name>x</p></div><div id=a><p itemprop=sku>1</p></div>
      <p id=b itemprop=gtin>2</p><div id=c itemprop=orphan itemscope><p itemprop=z>3</p></div>"""
    assert read(html).microdata == [
        {"@type": "Product", "name": "x", "sku": "1", "gtin": "2"},
        {"z": "3"},
    ]


def test_a_property_in_a_property_belongs_to_the_item() -> None:
    html = "<div itemscope><div itemprop=a>x <b itemprop=b>y</b> <i itemscope itemprop=c><u itemprop=d>z</u></i></div>"
    assert read(html).microdata == [{"a": "x y z", "b": "y", "c": {"d": "z"}}]


def test_items_that_refer_to_each_other_end() -> None:
    html = (
        "<div itemscope id=a itemref=b><p itemprop=n>1</p></div>"
        "<div id=b><div itemprop=x itemscope itemref=c></div></div>"
        "<div id=c><div itemprop=y itemscope itemref=b></div></div>"
    )
    [item] = read(html).microdata
    assert item["n"] == "1"
    assert item["x"]["y"] == {}  # the circle ends where it would come back


# -- RDFa


def test_typed_items() -> None:
    html = """
    <div vocab="https://schema.org/" typeof="Product" resource="#p"><h1 property="name">A <b>lamp</b></h1>
      <a property=url href=/lamp>more</a><img property=image src=a.png><span property=price content=1.5>1,50</span>
      <time property=releaseDate datetime=2026-01-02>soon</time>
      <div property=offers typeof=Offer><span property=price>2</span><link property=availability href=http://schema.org/InStock>
      </div></div>
    <div prefix="s: http://schema.org/ x: http://x.example/#" resource="#p"><i property="s:sku x:y">L-1</i></div>"""
    assert read(html).rdfa == [
        {
            "@id": "https://a.example/dir/page#p",
            "@type": "Product",
            "name": "A lamp",
            "url": "https://a.example/lamp",
            "image": "https://a.example/dir/a.png",
            "price": "1.5",
            "releaseDate": "2026-01-02",
            "offers": {"@type": "Offer", "price": "2", "availability": "http://schema.org/InStock"},
            "sku": "L-1",
            "http://x.example/#y": "L-1",
        }
    ]


def test_items_that_know_each_other_end() -> None:
    html = """<div vocab="http://schema.org/"><p resource="#a" typeof="Person"><a property=knows href="#b">b</a></p>
      <p resource="#b" typeof="Person"><a property=knows href="#a">a</a></p></div>"""
    [person] = read(html).rdfa
    assert person["knows"]["knows"] == "https://a.example/dir/page#a"


def test_typeof_in_a_script_is_none() -> None:
    assert read('<script>if (typeof a == "b") {}</script><meta property="og:title" content="x">').rdfa == []


# -- meta


def test_meta() -> None:
    found = read(
        '<html prefix="o: http://ogp.me/ns#"><meta property="og:image" content=" /a ">'
        '<meta property="og:image" content=/b>'
        '<meta property="OG:Title" content=x><meta name="og:type" content=product><meta property="o:url" content=/u>'
        '<meta name="twitter:card" content=summary><meta name=Author content="A B">'
        '<meta property="product:price:amount" content="1">'
        '<meta name=empty content=""><meta name=none><meta itemprop=name content=y><meta charset=utf-8>'
        '<meta property="http://ogp.me/ns#locale" content=en>'
    ).metadata
    assert found.opengraph == {
        "og:image": ["/a", "/b"],
        "og:title": "x",
        "og:type": "product",
        "og:url": "/u",
        "product:price:amount": "1",
        "og:locale": "en",
    }
    assert found.twitter == {"twitter:card": "summary"}
    assert found.meta == {"author": "A B", "name": "y"}


# -- hostile pages

HOSTILE = (
    "<p itemprop=name>x",
    "<div itemprop=a>x",
    "<div itemscope itemprop=offers>",
    "<div itemscope id=i%d itemref='i%d i0' itemprop=a></div>",
    "<div property=a typeof=b>x",
    "<a property=a typeof=b resource='#%d' href='#0'></a>",
    "<div prefix='p%d: u%d'>",
    "<meta property=og:image content=x>",
    '<script type="application/ld+json">{"@type":"Product",name:"x"</script>',
)


@pytest.mark.parametrize("fragment", HOSTILE)
def test_the_time_grows_with_the_page(fragment: str) -> None:
    reader = Reader("structured data", describe, parses=True)
    found = growth(reader, Family(fragment), 256 * 1024)
    assert not too_fast(found, reader), str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fragment", ["[", "{", '{"a":', '"', '" // ', '//"\n', '{"a":"b" ', "[],", "\\", "'a':1,"]
)
def test_the_time_grows_with_the_script(fragment: str) -> None:
    reader = Reader("JSON-LD", read_jsonld, parses=True)
    found = growth(reader, Family(fragment), 512 * 1024)
    assert not too_fast(found, reader), str(found)


def test_what_many_refer_to_is_not_unfolded() -> None:
    offers = ",".join(['{"price": 1}'] * 1_000)
    products = ",".join(['{"@type": "Product", "name": "x", "offers": {"@id": "#a"}}'] * 2_000)
    text = f'[{{"@id": "#a", "offers": [{offers}]}}, {products}]'
    found = page(f'<script type="application/ld+json">{text}</script>'.encode()).data("product")
    assert sum(len(one["offers"]) for one in found) < 20_000  # not 500 for each of 1,000


def test_items_that_double_are_bounded() -> None:
    pair = "<div id=i{0}><p itemprop=a itemscope itemref=i{1}></p><p itemprop=b itemscope itemref=i{1}></p></div>"
    found = read("".join(pair.format(n, n + 1) for n in range(40)) + "<div itemscope itemref=i0>").microdata
    assert 0 < str(found).count("{") <= 6_000
