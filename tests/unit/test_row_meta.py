"""`row_meta`: rows that say where they are from."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from shoal.config import load
from shoal.errors import SettingsError
from shoal.settings import Settings
from shoal.sink.items import ItemRejected, encode_row, encode_rows, without_meta
from shoal.sink.row_meta import MetaWriter, PageMeta, fields_of, meta_columns
from shoal.spider.spider import Handler

PLAIN = Handler("book", print)
AT = 1_700_000_000.25


def meta(*names: str) -> PageMeta:
    settings = load(None, {"row_meta": list(names) or True}, {}, {})
    return MetaWriter(fields_of(settings)).page("http://a.test/ä?x=1", AT, "shop", "book")


def test_every_row_says_where_it_is_from() -> None:
    (row,) = encode_rows([{"a": 1}], PLAIN, meta=meta()).rows
    assert row.data.endswith(b"}\n")
    assert json.loads(row.data) == {
        "a": 1,
        "_url": "http://a.test/ä?x=1",
        "_fetched_at": "2023-11-14T22:13:20.250Z",
        "_job": "shop",
        "_handler": "book",
        "_item": "book",
    }
    assert list(json.loads(row.data)) == ["a", *meta_columns(Settings(row_meta=True))]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("url",), {"_url": "http://a.test/ä?x=1"}),
        (("item",), {"_item": "book"}),
        (("record", "job"), {"_job": "shop", "_record": None}),
    ],
)
@pytest.mark.parametrize("item", [{}, {"a": {"_url": 1}}, {"a": '"_url"'}])
def test_only_those_that_are_named(
    names: tuple[str, ...], wanted: dict[str, object], item: dict[str, object]
) -> None:
    row = encode_row(item, PLAIN, meta=meta(*names))
    assert json.loads(row.data) == {**item, **wanted}
    assert json.loads(without_meta(row)) == item


def test_off_by_default() -> None:
    assert not MetaWriter(fields_of(Settings()))
    row = encode_row({"a": 1}, PLAIN)
    assert (row.data, row.meta, without_meta(row)) == (b'{"a":1}\n', 0, b'{"a":1}')


@dataclass
class Checked:
    sku: str


def test_schemas_and_keys_do_not_see_them() -> None:
    handler = Handler("book", print, key=("sku",))
    assert encode_row({"sku": "a"}, handler, meta=meta()).key == encode_row({"sku": "a"}, handler).key
    row = encode_row(Checked("a"), PLAIN, meta=meta("url"))
    assert json.loads(row.data) == {"sku": "a", "_url": "http://a.test/ä?x=1"}


def test_a_field_of_the_item_is_not_replaced() -> None:
    with pytest.raises(
        ItemRejected, match=r"its field '_url' is one that row_meta adds: rename it, or leave"
    ):
        encode_row({"_url": "mine"}, PLAIN, meta=meta())
    assert b'"_url":"mine"' in encode_row({"_url": "mine"}, PLAIN, meta=meta("job")).data
    with pytest.raises(ItemRejected, match="it has no fields"):
        encode_row("a string", PLAIN, meta=meta())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("off", False),
        ("url,fetched_at", ["url", "fetched_at"]),
        ('["job"]', ["job"]),
        ("", None),
    ],
)
def test_is_read_from_text(text: str, value: object) -> None:
    if value is None:
        with pytest.raises(SettingsError):
            load(None, {}, {"SHOAL_ROW_META": text}, {})
    else:
        assert load(None, {}, {"SHOAL_ROW_META": text}, {}).row_meta == value


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="row_meta must be true or false or a list of cached, fetched_at, handler"
    ):
        load(None, {}, {}, {"row_meta": "url,offset"})
