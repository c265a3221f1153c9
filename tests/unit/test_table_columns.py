"""Types of columns: from annotations, and wide enough for every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from itertools import product
from typing import Annotated, Any, Literal, Optional, TypedDict, Union
from uuid import UUID

import attrs
import msgspec
import pytest
from pydantic import BaseModel

from shoal.sink.databases.table_columns import Kind, Type, free_name, type_of, widened


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


@dataclass
class Offer:
    price: float


@attrs.define
class Attrs:
    n: int


class Pydantic(BaseModel):
    n: int


class Shop(TypedDict):
    name: str


@pytest.mark.parametrize(
    ("annotation", "type_"),
    [
        (str, Type.TEXT),
        (int, Type.INTEGER),
        (float, Type.REAL),
        (bool, Type.BOOLEAN),
        (int | None, Type.INTEGER),
        (Optional[str], Type.TEXT),  # noqa: UP045
        (Union[int, float, None], Type.REAL),  # noqa: UP007
        (int | str, Type.UNKNOWN),
        (Annotated[int, msgspec.Meta(gt=0)], Type.INTEGER),
        (Literal["a", "b"], Type.TEXT),
        (Literal[1, "b"], Type.UNKNOWN),
        (Colour, Type.TEXT),
        (Size, Type.INTEGER),
        (date, Type.TEXT),
        (datetime | None, Type.TEXT),
        (Decimal, Type.TEXT),
        (UUID, Type.TEXT),
        (bytes, Type.TEXT),
        (list[str], Type.JSON),
        (dict[str, int] | None, Type.JSON),
        (Mapping[str, int], Type.JSON),
        (Offer, Type.JSON),
        (Shop, Type.JSON),
        (Pydantic, Type.JSON),
        (Attrs | None, Type.JSON),
        (None, Type.UNKNOWN),
        (Any, Type.UNKNOWN),
        (object, Type.UNKNOWN),
        ("int", Type.UNKNOWN),
    ],
)
def test_the_type_of_an_annotation(annotation: object, type_: Type) -> None:
    assert type_of(annotation) is type_


def test_a_wider_type_holds_what_the_narrower_one_held() -> None:
    for type_, kind in product(Type, Kind):
        wider = widened(type_, kind)
        assert widened(wider, kind) is wider
        held = {one for one in Kind if widened(type_, one) is type_}
        assert all(widened(wider, one) is wider for one in held)


def test_names_that_are_taken() -> None:
    assert free_name("Title", {"other"}, empty="empty") == "Title"
    assert free_name("Title", {"title", "title_2"}, empty="empty") == "Title_3"
    assert free_name("", {"empty"}, empty="empty") == "empty_2"
    assert free_name("a\0\nb", set(), empty="empty") == "a__b"
    assert len(free_name("x" * 999, {"x" * 200}, empty="empty")) == 202
