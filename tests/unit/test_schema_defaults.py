"""Defaults of a schema are in the rows, also those of classes inside of others."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from shoal.spider.schemas import schemas_of


@dataclass
class Offer:
    seller: str
    currency: str = "EUR"


@dataclass(slots=True)
class Slotted:
    sku: str
    offers: list[Offer] = field(default_factory=list)
    kind: str = "slotted"


@dataclass
class Product:
    sku: str
    offers: list[Offer]
    best: Offer | None = None
    labels: list[str] = field(default_factory=list)
    kind: str = "product"


class Bundle(msgspec.Struct):
    sku: str
    offers: dict[str, Offer]


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    kind: str = "tree"


OFFER, WHOLE = {"seller": "a"}, {"seller": "a", "currency": "EUR"}


@pytest.mark.parametrize(
    ("type_", "item", "row"),
    [
        (
            Product,
            {"sku": "1", "offers": [OFFER]},
            {"sku": "1", "offers": [WHOLE], "best": None, "labels": [], "kind": "product"},
        ),
        (Slotted, {"sku": "1", "offers": [OFFER]}, {"sku": "1", "offers": [WHOLE], "kind": "slotted"}),
        (Bundle, {"sku": "1", "offers": {"x": OFFER}}, {"sku": "1", "offers": {"x": WHOLE}}),
        (
            Tree,
            {"name": "a", "children": [{"name": "b"}]},
            {
                "name": "a",
                "children": [{"name": "b", "children": [], "kind": "tree"}],
                "kind": "tree",
            },
        ),
    ],
)
def test_defaults_are_written(type_: type, item: dict[str, object], row: dict[str, object]) -> None:
    [schema] = schemas_of(type_)
    checked = schema.checked_mapping(item, msgspec.json.encode(item))
    assert msgspec.json.decode(msgspec.json.encode(checked)) == row
