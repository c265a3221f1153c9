"""Schemas of items: what each kind of class takes, what it makes of it, and in which words it refuses."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from decimal import Decimal
from typing import Annotated, Any, NotRequired, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from shoal.errors import SpiderError
from shoal.limits import REJECTED_ITEM
from shoal.sink.items import Encoded, encode_rows, kept_item
from shoal.spider.schemas import table_of
from shoal.spider.spider import Handler, Spider


@dataclasses.dataclass
class Data:
    sku: str
    price: float
    at: dt.date | None = None

    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError("a price below zero")


class Typed(TypedDict):
    sku: str
    price: float
    at: NotRequired[dt.date]


class Packed(msgspec.Struct):
    sku: str
    price: Annotated[float, msgspec.Meta(ge=0)]
    at: dt.date | None = None


def _not_below_zero(_: object, __: object, value: float) -> None:
    if value < 0:
        raise ValueError("a price below zero")


@attrs.define
class Attred:
    sku: str
    price: float = attrs.field(validator=_not_below_zero)
    at: dt.date | None = None


class Model(pydantic.BaseModel):
    sku: str
    price: float = pydantic.Field(ge=0)
    at: dt.date | None = None


ALL = [Data, Typed, Packed, Attred, Model]
OBJECTS = [Data, Packed, Attred]  # of pydantic they are checked when they are made


def handler(item: Any, **options: Any) -> Handler:
    return Spider("s").add_handler(lambda page: None, name="page", item=item, **options)


def written(encoded: Encoded) -> list[dict[str, Any]]:
    assert not encoded.rejected, encoded.rejected
    return [json.loads(row.data) for row in encoded.rows]


def reason(encoded: Encoded) -> str:
    assert not encoded.rows
    [rejected] = encoded.rejected
    return rejected.reason


@pytest.mark.parametrize("kind", ALL)
def test_what_is_written_is_what_the_check_gives(kind: Any) -> None:
    encoded = encode_rows([{"sku": "a", "price": "12.50", "at": dt.date(2026, 1, 2)}], handler(kind), 3.0)
    assert written(encoded) == [{"sku": "a", "price": 12.5, "at": "2026-01-02"}]
    assert (encoded.rows[0].table, encoded.rows[0].at) == (kind.__name__.lower(), 3.0)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"price": "1,299"}, "price"),
        ({"price": None}, "price"),
        ({"price": float("nan")}, "price"),
        ({"price": {"amount": 1}}, "price"),
        ({"sku": 5}, "sku"),
        ({"at": "tomorrow"}, "at"),
    ],
)
def test_what_is_refused_names_the_field(kind: Any, change: dict[str, Any], field: str) -> None:
    item = {"sku": "a", "price": 1.0, **change}
    encoded = encode_rows([{"sku": "b", "price": 1.0}, item], handler(kind))
    assert [json.loads(row.data)["sku"] for row in encoded.rows] == ["b"]
    [rejected] = encoded.rejected
    assert (rejected.place, rejected.table) == (1, kind.__name__.lower())
    assert f"(field {field})" in rejected.reason, rejected.reason
    assert "\n" not in rejected.reason


@pytest.mark.parametrize("kind", ALL)
def test_a_missing_field_is_named(kind: Any) -> None:
    assert "sku" in reason(encode_rows([{"price": 1}], handler(kind)))


@pytest.mark.parametrize("kind", [Data, Attred, Packed, Model])
def test_own_checks_run(kind: Any) -> None:
    said = reason(encode_rows([{"sku": "a", "price": -1}], handler(kind)))
    assert "below zero" in said or ">= 0" in said or "greater than or equal to 0" in said


@pytest.mark.parametrize("kind", [Data, Typed, Packed, Attred])
def test_a_field_that_nobody_knows_is_not_left_out_in_silence(kind: Any) -> None:
    said = reason(encode_rows([{"sku": "a", "price": 1, "pirce": 2}], handler(kind)))
    assert said == f"{kind.__name__} has no field 'pirce'; did you mean 'price'?"


def test_with_pydantic_the_model_decides_about_other_fields() -> None:
    class Strict(Model, extra="forbid"):
        pass

    item = {"sku": "a", "price": 1, "x": 2}
    assert "x" not in written(encode_rows([item], handler(Model)))[0]
    assert "(field x)" in reason(encode_rows([item], handler(Strict)))


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_checked_too(kind: Any) -> None:
    """Python does not check the types of its fields."""
    assert "(field sku)" in reason(encode_rows([kind(5, 1.0)], handler(kind)))
    assert written(encode_rows([kind("a", 1)], handler(kind)))[0]["price"] == 1.0


def test_an_object_of_a_subclass_keeps_its_fields() -> None:
    @dataclasses.dataclass
    class Book(Data):
        pages: int = 0

    encoded = encode_rows([Book("a", 1.0, pages=7)], handler(Data))
    assert written(encoded)[0]["pages"] == 7
    assert encoded.rows[0].table == "data"
    assert "(field pages)" in reason(encode_rows([Book("a", 1.0, pages="x")], handler(Data)))  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", [[Data, Packed], Data | Packed, (Data, Packed)])
def test_several_classes(kinds: Any) -> None:
    several = handler(kinds)
    encoded = encode_rows([Packed("p", 1.0), Data("d", 2.0), {"sku": "x", "price": 3}], several)
    assert [row.table for row in encoded.rows] == ["packed", "data", "data"]
    said = reason(encode_rows([{"sku": "x"}], several))
    assert said.startswith("it is no Data: ")
    assert "; and no Packed: " in said
    assert encode_rows([{"sku": "x"}], several).rejected[0].table == ""
    # One that comes back from the store is what it was to be.
    assert encode_rows([{"sku": "x", "price": 1}], several, table="packed").rows[0].table == "packed"


def test_an_object_of_another_class() -> None:
    assert reason(encode_rows([Packed("a", 1.0)], handler(Data))) == "it is a Packed, and not a Data"


def test_the_key_is_that_of_the_checked_item() -> None:
    class Numbered(msgspec.Struct):
        number: int

    keyed = handler(Numbered, key="number")
    one, two = encode_rows([{"number": "7"}, {"number": 7}], keyed).rows
    assert one.key == two.key


def test_a_check_that_breaks_is_a_reason() -> None:
    @dataclasses.dataclass
    class Odd:
        sku: str

        def __post_init__(self) -> None:
            raise KeyError("colour")

    assert reason(encode_rows([{"sku": "a"}], handler(Odd))) == "its check failed: KeyError: 'colour'"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (int, "no dataclass, TypedDict, msgspec Struct, attrs class or pydantic model"),
        (Data("a", 1.0), "give the name of a table, or a class of items"),
        ({"a": Data}, "give the name of a table, or a class of items"),
        ([], "names no class"),
        ([Data, Data], "names two classes for the table 'data'"),
    ],
)
def test_what_is_no_schema_is_told_when_the_handler_is_made(given: Any, said: str) -> None:
    with pytest.raises(SpiderError, match=f"spider 's': handler 'page': item=.*{said}|item= {said}"):
        handler(given)


def test_a_text_is_the_name_of_a_table_only() -> None:
    encoded = encode_rows([{"anything": 1}], handler("books"))
    assert encoded.rows[0].table == "books"


def test_a_class_names_its_table() -> None:
    names = ["Product", "BookReview", "HTMLPage", "Offer2", "_Hidden", "snake_case"]
    assert [table_of(name) for name in names] == [
        *("product", "book_review", "html_page", "offer2", "_hidden", "snake_case"),
    ]


# -- what is kept of a rejected item


class _Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def _deep() -> dict[str, Any]:
    item: dict[str, Any] = {}
    for _ in range(100_000):
        item = {"a": item}
    return item


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ({"a": 1, "b": object}, "<class 'object'>"),
        ({"a": "\ud800"}, "ud800"),
        ({"a": _Unshowable()}, "a"),
        ({"a": 10**6000, "b": "fine"}, "fine"),
        (_deep(), "a"),
        (Data(sku=print, price=1.0), "built-in function print"),  # type: ignore[arg-type]
        ({"a": "x" * 3 * REJECTED_ITEM}, "xxx"),
    ],
    ids=["class", "surrogate", "unshowable", "large number", "deep", "object", "large"],
)
def test_what_cannot_be_kept_whole_can_be_looked_at(item: object, shown: str) -> None:
    kept = kept_item(item)
    assert not kept.is_json
    assert shown in kept.data.decode(errors="replace")
    assert len(kept.data) <= REJECTED_ITEM


@pytest.mark.parametrize(
    "item",
    [{"a": Decimal("1.5"), "b": b"x", "c": dt.date(2026, 1, 2)}, Data("a", 1), {"a": {"b": [1, None]}}],
)
def test_what_is_json_is_kept_as_json(item: object) -> None:
    kept = kept_item(item)
    assert kept.is_json
    assert kept.data == msgspec.json.encode(item)
