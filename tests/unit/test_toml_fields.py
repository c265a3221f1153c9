"""Fields of TOML spiders: every place, type and cleaning step, on pages as sites write them."""

from __future__ import annotations

import time
import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from shoal.errors import SpiderError
from shoal.spider.declared.compiling import file_spider
from shoal.spider.declared.looking import VALUES_CUT
from shoal.spider.declared.reading_file import SpiderFile
from shoal.spider.handlers import is_item
from shoal.spider.page import Page
from shoal.spider.schemas import Invalid
from shoal.spider.spider import Spider
from shoal.testing import page
from toml_tools import declared

PRODUCT = """<html><head><title>Lamp</title><meta property="og:title" content="The lamp">
<meta name="Description" content=" A  good lamp "></head>
<body><h1> The <b>brass</b> lamp </h1><p class="sku">SKU: L-1 </p>
<p class="price" content="12.50">€ 1.234,50</p><img src="/a.jpg"><img src="b.jpg">
<ul class="tags"><li>red</li><li> blue</li><li></li><li>red</li></ul>
<div class="seller"><span class="name">Ann</span><span class="rating">4.5 of 5</span></div>
<table><tr class="variant" data-sku="L-1-s"><td class="size">S</td><td class="p">10,00</td></tr>
<tr class="variant" data-sku="L-1-m"><td class="size">M</td><td class="p">11,00</td></tr></table>
<script type="application/json" id="state">{"product": {"stock": 3, "tags": ["x", "y"], "in": true}}</script>
<script>window.__STATE__ = {"deep": {"price": 9.99}}; var other = 1;</script>
<script>var quoted = JSON.parse("{\\"price\\": 5}");</script>
</body></html>"""
URL = "https://shop.example/dir/lamp?id=7"
START = 'start = "https://a.example/"\n'


def read(fields: str, html: Any = PRODUCT, handler: str = "", **given: Any) -> dict[str, Any]:
    """The one item that a handler with these fields reads."""
    [item] = items(fields, html, handler, **given)
    return dict(item)


def items(fields: str, html: Any = PRODUCT, handler: str = "", **given: Any) -> list[Any]:
    spider = declared(
        f'start = "https://shop.example/"\n[handler.it]\n{handler}\n[handler.it.fields]\n{fields}'
    )
    return yielded(spider, page(html, URL, **given))


def yielded(spider: Spider, at: Page) -> list[Any]:
    return [one for one in spider.handler_named("").function(at) if is_item(one)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('"h1"', "The brass lamp"),
        ('"img::attr(src)"', "/a.jpg"),
        ('"h1::text"', "The brass lamp"),
        ('{ css = "img", attr = "src" }', "/a.jpg"),
        ('{ css = "img", attr = "src", list = true }', ["/a.jpg", "b.jpg"]),
        ('{ css = "h1 b", type = "html" }', "<b>brass</b>"),
        ('{ xpath = "//h1/b" }', "brass"),
        ('{ xpath = "//img/@src", list = true }', ["/a.jpg", "b.jpg"]),
        ('{ xpath = "//img", attr = "src" }', "/a.jpg"),
        ('{ xpath = "count(//li)", type = "int" }', 4),
        ('{ json = "product.stock" }', 3),
        ('{ json = "product.tags", list = true }', ["x", "y"]),
        ('{ json = "$.product.in" }', True),
        ('{ css = "#state", json = "product.stock" }', 3),
        ('{ script = "__STATE__", json = "deep.price" }', 9.99),
        ('{ script = "quoted", json = "price" }', 5),
        ('{ meta = "og:title" }', "The lamp"),
        ('{ meta = "description" }', "A good lamp"),
        ('{ page = "url" }', URL),
        ('{ page = "url", regex = "id=([0-9]+)", type = "int" }', 7),
        ('{ page = "status" }', 200),
        ('{ page = "depth" }', 2),
        ('{ carried = "shelf" }', "A3"),
        ('{ like = "always", clean = ["upper"] }', "THE BRASS LAMP"),
        ('{ const = 5 }', 5),
        ('{ const = "x", clean = ["upper"] }', "X"),
        ('{ css = ".sku", regex = "L-[0-9]+" }', "L-1"),
        ('[".nothing", ".sku"]', "SKU: L-1"),
        ('{ any = [".nothing", { meta = "og:title" }] }', "The lamp"),
        ('{ css = ".nothing", default = "none" }', "none"),
        ('".nothing"', None),
        ('{ css = ".nothing", list = true }', []),
        ('{ css = ".seller", fields = { name = ".name", stars = { css = ".rating", type = "float" } } }',
         {"name": "Ann", "stars": 4.5}),
        ('{ css = ".nobody", fields = { name = ".name" } }', None),
        ('{ each = ".variant", fields = { sku = { attr = "data-sku" }, price = { css = ".p", type = "decimal" } } }',
         [{"sku": "L-1-s", "price": Decimal("10.00")}, {"sku": "L-1-m", "price": Decimal("11.00")}]),
        ('{ each = { xpath = "//tr" }, fields = { size = { xpath = "td[1]" }, sku = { xpath = "@data-sku" } } }',
         [{"size": "S", "sku": "L-1-s"}, {"size": "M", "sku": "L-1-m"}]),
    ],
)  # fmt: skip
def test_places(field: str, value: object) -> None:
    assert read(f"it = {field}\nalways = 'h1'", depth=2, meta={"shelf": "A3"})["it"] == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('type = "str"', "€ 1.234,50"),
        ('type = "decimal"', Decimal("1234.50")),
        ('type = "price"', Decimal("1234.50")),
        ('type = "float"', 1234.5),
        ('type = "currency"', "EUR"),
        ('type = "bool"', True),
        ('attr = "content", type = "decimal"', Decimal("12.50")),
        ('attr = "content", type = "float"', 12.5),
        ('attr = "content", type = "int"', None),
        ('attr = "content", type = "url"', "https://shop.example/dir/12.50"),
        ('attr = "content", type = "json"', 12.5),
    ],
)
def test_types(field: str, value: object) -> None:
    assert read(f'it = {{ css = ".price", {field} }}\nalways = "h1"')["it"] == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2031-05-30", "date", date(2031, 5, 30)),
        ("2031-05-30T12:00:00Z", "datetime", datetime(2031, 5, 30, 12, tzinfo=UTC)),
        ("Fri, 30 May 2031 12:00:00 GMT", "datetime", datetime(2031, 5, 30, 12, tzinfo=UTC)),
        ("Fri, 30 May 2031 12:00:00 GMT", "date", date(2031, 5, 30)),
        ("30.05.2031", 'date", format = "%d.%m.%Y', date(2031, 5, 30)),
        ("soon", "date", None),
        ("1.234", 'decimal", format = "1.234,56', Decimal(1234)),
        ("1.234", "decimal", Decimal("1.234")),
        ("1.234", "int", 1234),
        ("1,234", "int", 1234),
        ("1 234,50 kr", "decimal", Decimal("1234.50")),
        ("1'234.50", "decimal", Decimal("1234.50")),
        ("−5 °C", "int", -5),
        ("from 12, 13 or 14", "int", 12),
        ("In stock (22 available)", "int", 22),
        ("none", "int", None),
        ("1e3", "float", 1000.0),
        ("USD 12", "currency", "USD"),
        ("eur", "currency", "EUR"),
        ("https://schema.org/InStock", "availability", "in_stock"),
        ("Sold out", "availability", "out_of_stock"),
        ("Pre-order now", "availability", "preorder"),
        ("mailto:a@b", "url", None),
        ("//cdn.example/x", "url", "https://cdn.example/x"),
    ],
)
def test_texts_of_a_type(text: str, kind: str, value: object) -> None:
    html = f"<p id=it>{text}</p><i>x</i>"
    assert read(f'it = {{ css = "#it", type = "{kind}" }}\nalways = "i"', html)["it"] == value


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        ('"strip", "lower"', ["red", "blue", "red"]),
        ('"upper"', ["RED", "BLUE", "RED"]),
        ('"title"', ["Red", "Blue", "Red"]),
        ('"unique"', ["red", "blue"]),
        ('"sort"', ["blue", "red", "red"]),
        ('"reverse"', ["red", "blue", "red"]),
        ('"last"', ["red"]),
        ('{ join = ", " }', ["red, blue, red"]),
        ('{ join = "," }, { split = "," }', ["red", "blue", "red"]),
        ('{ remove = "re" }', ["d", "blue", "d"]),
        ('{ remove = ["r", "e"] }', ["d", "blu", "d"]),
        ('{ replace = ["red", "rot"] }', ["rot", "blue", "rot"]),
        ('{ before = "e" }', ["r", "blu", "r"]),
        ('{ after = "e" }', ["d", "d"]),
        ('{ prefix = "a " }', ["a red", "a blue", "a red"]),
        ('{ suffix = "!" }', ["red!", "blue!", "red!"]),
        ('{ cut = 2 }', ["re", "bl", "re"]),
        ('{ map = { red = "R" } }', ["R", "blue", "R"]),
        ('"digits"', []),
        ('"squeeze", "unescape"', ["red", "blue", "red"]),
    ],
)  # fmt: skip
def test_cleaning(steps: str, value: list[str]) -> None:
    assert read(f'it = {{ css = ".tags li", list = true, clean = [{steps}] }}\nalways = "h1"')["it"] == value


def test_a_handler_may_read_many_items_from_one_page() -> None:
    found = items(
        'size = ".size"\nsku = { attr = "data-sku" }\nshop = { page = "url" }', handler='each = ".variant"'
    )
    assert [(one["size"], one["sku"], one["shop"]) for one in found] == [
        ("S", "L-1-s", URL),
        ("M", "L-1-m", URL),
    ]


def test_items_of_a_json_answer() -> None:
    body = {"items": [{"id": 1, "price": {"now": "3.50"}}, {"id": 2, "price": {}}]}
    fields = 'id = { json = "id" }\nprice = { json = "price.now", type = "decimal" }'
    found = items(fields, body, handler='each = { json = "items[*]" }')
    assert found == [{"id": 1, "price": Decimal("3.50")}, {"id": 2, "price": None}]


def test_when_says_on_which_pages_there_is_an_item() -> None:
    assert len(items('name = "h1"', handler='when = "h1"')) == 1
    assert items('name = "h1"', handler='when = ".missing"') == []


def rejected(fields: str, html: str = PRODUCT) -> str:
    """Why the item is rejected."""
    spider = declared(f'start = "https://shop.example/"\n[handler.it.fields]\n{fields}')
    [item] = yielded(spider, page(html, URL))
    [schema] = spider.handler_named("it").schemas
    with pytest.raises(Invalid) as caught:
        schema.checked_mapping(item, b"")
    return str(caught.value)


def test_a_required_field_that_is_missing_rejects_the_item() -> None:
    assert (
        rejected('name = "h1"\nsku = { css = ".no", required = true }')
        == 'sku: nothing was found by css ".no"'
    )
    assert (
        rejected('name = "h1"\nsku = { css = ".sku", type = "date", required = true }')
        == 'sku: "SKU: L-1" is not a date'
    )
    inner = 'v = { each = ".variant", fields = { s = ".size", q = { css = ".no", required = true } } }'
    assert rejected(inner) == 'v[0].q: nothing was found by css ".no"; v[1].q: nothing was found by css ".no"'


def test_an_item_in_which_nothing_was_found_is_rejected() -> None:
    assert (
        rejected('a = ".no"\nb = ".never"\nurl = { page = "url" }')
        == "none of its fields was found: a, b, url"
    )


def test_a_hook_may_supply_what_was_missing() -> None:
    spider = declared(
        'start = "https://a.example/"\n[handler.it.fields]\nname = "h1"\nsku = { css = ".no", required = true }'
    )
    [item] = yielded(spider, page(PRODUCT, URL))
    item["sku"] = "from elsewhere"
    [schema] = spider.handler_named("it").schemas
    assert schema.checked_mapping(item, b"") == {"name": "The brass lamp", "sku": "from elsewhere"}
    with pytest.raises(Invalid, match="sku: required, and missing"):  # as it comes back from the store
        schema.checked_mapping({"name": "x", "sku": None}, b"")


def test_what_cannot_be_read_is_counted() -> None:
    at = page(PRODUCT, URL)
    spider = declared(
        'start = "https://a.example/"\n[handler.it.fields]\nname = "h1"\nday = { css = ".sku", type = "date" }'
    )
    assert yielded(spider, at) == [{"name": "The brass lamp", "day": None}]
    assert dict(at._counts) == {"unreadable: day": 1}


def test_structured_data(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"type": "product", "name": "Lamp", "price": "12.50", "offers": [{"sku": "a"}, {"sku": "b"}]}]
    monkeypatch.setattr(
        Page, "data", lambda self, kind=None: records if kind == "product" else [], raising=False
    )
    fields = (
        'name = { data = "product.name" }\nprice = { data = "product.price", type = "decimal" }\n'
        'other = { data = "article.title" }\nskus = { data = "product.offers[*].sku", list = true }\n'
        'offers = { each = { data = "product.offers" }, fields = { s = { json = "sku" } } }'
    )
    assert read(fields) == {
        "name": "Lamp",
        "price": Decimal("12.50"),
        "other": None,
        "skus": ["a", "b"],
        "offers": [{"s": "a"}, {"s": "b"}],
    }


def test_many_values_are_cut_and_counted() -> None:
    at = page("<ul>" + "<li class=v><b>x</b>" * 20_000 + "</ul>", URL)
    spider = declared(
        'start = "https://a.example/"\n[handler.it.fields]\nv = { css = "li", list = true }\n'
        'o = { each = ".v", fields = { b = "b" } }\none = "li:nth-child(19000)"'
    )
    [item] = yielded(spider, at)
    assert len(item["v"]) == len(item["o"]) == 10_000
    assert item["o"][9_999] == {"b": "x"}
    assert item["one"] == "x"
    assert dict(at._counts) == {VALUES_CUT: 2}


@pytest.mark.slow
def test_a_pattern_that_backtracks_ends_the_page_and_not_the_process() -> None:
    with pytest.raises(
        SpiderError, match=r"the regular expression '\(a\+\)\+\$' takes more than 1 s on a text of"
    ):
        read('it = { css = "p", regex = "(a+)+$" }', f"<p>{'a' * 60}!</p>")


def test_columns_have_the_types_of_the_fields() -> None:
    from shoal.spider.schemas import columns_of

    spider = declared(
        'start = "https://a.example/"\n[handler.product.fields]\nname = "h1"\n'
        'price = { css = ".p", type = "price" }\ntags = { css = ".t", list = true, type = "str" }\n'
        'day = { css = "i", type = "date" }'
    )
    assert columns_of(spider) == {"product": {"name": str, "price": Decimal, "tags": list[str], "day": date}}


def test_the_short_form_is_a_selector() -> None:
    from pathlib import Path

    text = 'start = "https://a.example/"\n[handler.it.fields]\na = "h1"\n"b c" = ["h2", "h3"]'
    file = SpiderFile(Path("x.toml"), text, tomllib.loads(text))
    assert list(file_spider(file).handlers) == ["it"]


def test_elements_inside_each_other_take_linear_time() -> None:
    """Each has the text of all that are in it."""
    spider = declared(
        START + '[handler.it.fields]\nall = { css = "li", list = true }\nfirst = "li.none, b"\n'
        'o = { each = "ul", fields = { l = { css = "li", list = true } } }'
    )

    def seconds(number: int) -> float:
        at = page("<ul><li>x" * number, URL)
        began = time.process_time()
        yielded(spider, at)
        assert number < 1_000 or at._counts[VALUES_CUT]
        return time.process_time() - began

    def least(number: int) -> float:
        """Other programs only add to it."""
        return min(seconds(number) for _ in range(3))

    seconds(100)
    assert least(8_000) < 10 * max(least(2_000), 0.01)
