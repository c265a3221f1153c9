"""Parquet files: every row once, whatever crashes; every value, whatever its type."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.errors import SinkError, UsageError
from shoal.model import Row
from shoal.sink import make_journal, spool_folder
from shoal.sink import spool as spool_module
from shoal.sink.journals import Several
from shoal.sink.ownership import Owner
from shoal.sink.parquet import parquet_parts, parquet_tables
from shoal.sink.parquet.parquet_file import ParquetFile
from spool_world import STEPS, Step, World, crashing_os

Columns = Mapping[str, Mapping[str, object]]


class AtOnce(ParquetFile):
    """Writes parts when a segment is closed, without a thread: so that a test is the same every time."""

    def __init__(self, path: Path, columns: Columns | None = None, *, segment: int = 200) -> None:
        super().__init__(path, columns or {}, segment=segment)
        self._kept = 0.0

    def _ship_soon(self) -> None:
        self._ship_in_thread()


def row(item: object, table: str = "book") -> Row:
    return Row(msgspec.json.encode(item) + b"\n", table=table)


def written(path: Path, items: list[Any], columns: Columns | None = None, *, segment: int = 200) -> pa.Table:
    """The table that is made of these items, each appended by itself."""
    journal = AtOnce(path, columns, segment=segment)
    committed = 0
    for item in items:
        committed = journal.append(committed, [item if isinstance(item, Row) else row(item)])
    journal.finish(committed)
    journal.close()
    return pq.read_table(path)


def types(table: pa.Table) -> dict[str, str]:
    return {field.name: str(field.type).replace("element:", "item:") for field in table.schema}


# -- exactly once


def numbers(path: Path) -> list[int]:
    return pq.read_table(path).column("n").to_pylist() if path.exists() else []


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_crashes_between_any_two_operations_lose_and_double_nothing(steps: list[Step]) -> None:
    modules = (spool_module, spool_folder, parquet_parts)
    with tempfile.TemporaryDirectory() as folder, crashing_os(*modules) as crashing:
        path = Path(folder) / "rows.parquet"
        World(crashing, lambda: AtOnce(path, segment=40), lambda: numbers(path), lambda n: row({"n": n})).run(
            steps
        )
        assert sorted(os.listdir(folder)) == [".rows.parquet.parts", "rows.parquet"]
        assert not list(spool_folder.Path(folder).glob(".rows.parquet.parts/*.parquet"))


def test_the_file_is_what_users_expect_and_grows_with_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path)
    committed = 0
    for run in range(3):
        for number in range(run * 50, run * 50 + 50):
            committed = journal.append(committed, [row({"n": number})])
        journal.finish(committed)
        assert numbers(path) == list(range(run * 50 + 50))
        assert duckdb.sql(f"SELECT count(*), sum(n) FROM '{path}'").fetchall() == [
            (run * 50 + 50, sum(range(run * 50 + 50)))
        ]
        journal.close()
        journal = AtOnce(path)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_finish_again_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path)
    committed = journal.append(0, [row({"n": 1})])
    journal.finish(committed)
    before = path.stat().st_ino
    journal.finish(committed)
    assert path.stat().st_ino == before


def test_a_process_that_knows_less_does_not_shorten_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path)
    first = journal.append(0, [row({"n": 1})])
    second = journal.append(first, [row({"n": 2})])
    journal.finish(second)
    journal.finish(first)
    assert numbers(path) == [1, 2]


def test_rows_of_the_same_length_in_the_place_of_others_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path)
    first = journal.append(0, [row({"n": 1})])
    journal.finish(journal.append(first, [row({"n": 2})]))
    journal.finish(journal.append(first, [row({"n": 3})]))
    assert numbers(path) == [1, 3]


def test_a_store_that_goes_back_after_the_end_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path, segment=60)
    ends = [0]
    for number in range(10, 50):
        ends.append(journal.append(ends[-1], [row({"n": number})]))
    journal.finish(ends[-1])
    back = next(place for place, end in enumerate(ends) if end > journal.folder.segments()[0].start)
    committed = journal.append(ends[back], [row({"n": 99})])
    journal.finish(committed)
    assert numbers(path) == [*range(10, 10 + back), 99]


def test_rows_are_read_back_before_and_after_the_end(tmp_path: Path) -> None:
    journal = AtOnce(tmp_path / "rows.parquet")
    committed = 0
    for number in range(40):
        committed = journal.append(committed, [row({"n": number})])
    expected = [{"n": number} for number in range(40)]
    assert list(journal.read(committed)) == expected
    journal.finish(committed)
    assert list(journal.read(committed)) == expected


@pytest.mark.parametrize("damage", ["removed", "replaced", "no parquet"])
def test_a_file_that_was_changed_is_told_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path)
    committed = 0
    for number in range(40):
        committed = journal.append(committed, [row({"n": number})])
    journal.finish(committed)
    committed = journal.append(committed, [row({"n": 40})])
    path.unlink()
    if damage == "replaced":
        written(tmp_path / "other.parquet", [{"n": 1}])
        os.replace(tmp_path / "other.parquet", path)
    elif damage == "no parquet":
        path.write_text("notes")
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(SinkError, match=r"rows\.parquet"):
        journal.finish(committed)
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_link_to_another_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "rows.parquet"
    path.symlink_to(tmp_path / "data" / "real.parquet")
    written(path, [{"n": 1}])
    assert path.is_symlink()
    assert numbers(tmp_path / "data" / "real.parquet") == [1]


def test_no_rows(tmp_path: Path) -> None:
    journal = AtOnce(tmp_path / "rows.parquet")
    journal.finish(0)
    assert not (tmp_path / "rows.parquet").exists()
    journal = AtOnce(tmp_path / "typed.parquet", {"book": {"title": str, "pages": int | None}})
    journal.finish(0)
    assert types(pq.read_table(tmp_path / "typed.parquet")) == {"title": "string", "pages": "int64"}


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("shoal.sink.parquet.parquet_file.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"Parquet needs pyarrow: pip install 'shoal\[parquet\]'"):
        ParquetFile(tmp_path / "rows.parquet", {})


# -- types without a schema

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.integers(-5, 5),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=5),
    ),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(st.sampled_from("abc_"), inside, max_size=3)
    ),
    max_leaves=8,
)


def is_held(value: Any, got: Any) -> bool:
    """Whether what was read back stands for the value."""
    if isinstance(value, dict) and isinstance(got, dict):
        return all(is_held(value.get(name), got.get(name)) for name in {*value, *got})
    if isinstance(value, list) and isinstance(got, list):
        return len(value) == len(got) and all(map(is_held, value, got))
    if isinstance(got, str) and not isinstance(value, str):
        return is_held(value, json.loads(got))
    if isinstance(value, bool) or isinstance(got, bool):
        return value is got
    return bool(value == got)


@pytest.mark.slow
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c d", ""]), JSON, max_size=3), min_size=1, max_size=12
    )
)
@example([{"a": [0.0, False]}])
@example([{"a": 0.5}, {"a": True}])
@settings(max_examples=50, deadline=None)
def test_every_value_is_held_by_some_type(items: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = written(Path(folder) / "rows.parquet", items, segment=60)
        assert len(table) == len(items)
        for item, got in zip(items, table.to_pylist(), strict=True):
            got.pop("_item", None)  # where no item has a field
            assert is_held(item, got), (item, got, table.schema)


@pytest.mark.parametrize(
    ("values", "type_", "read"),
    [
        ([1, 2.5], "double", [1.0, 2.5]),
        ([1, "a"], "string", ["1", "a"]),
        ([None, 1], "int64", [None, 1]),
        ([True, 1], "string", ["true", "1"]),
        ([2**60 + 1, 0.5], "string", ["1152921504606846977", "0.5"]),
        ([2**64, 1], "string", ["18446744073709551616", "1"]),
        ([[], [1]], "list<item: int64>", [[], [1]]),
        ([[1], ["a"]], "list<item: string>", [["1"], ["a"]]),
        ([{"a": 1}, {"b": "x"}], "struct<a: int64, b: string>", [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        ([{}, {"a": 1}], "struct<a: int64>", [{"a": None}, {"a": 1}]),
        ([{}, None], "struct<_empty: null>", [{"_empty": None}, None]),
        ([{}, "x"], "string", ["{}", "x"]),
        ([{"a": 1}, [1]], "string", ['{"a":1}', "[1]"]),
        ([None, None], "null", [None, None]),
    ],
)
@pytest.mark.parametrize("segment", [1, 10_000], ids=["two parts", "one part"])
def test_types_are_merged(
    tmp_path: Path, values: list[Any], type_: str, read: list[Any], segment: int
) -> None:
    path = tmp_path / "rows.parquet"
    table = written(path, [{"n": 1, "v": value} for value in values], segment=segment)
    assert (types(table)["v"], table.column("v").to_pylist()) == (type_, read)
    assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(len(values),)]


def test_a_column_that_changes_its_type_after_the_end(tmp_path: Path) -> None:
    """A column without values does not fix its type; one with values is converted."""
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path)
    first = journal.append(0, [row({"a": None, "b": 1, "c": {}})])
    journal.finish(first)
    journal.finish(journal.append(first, [row({"a": 5, "b": "x", "c": {"d": 1}})]))
    table = pq.read_table(path)
    assert table.to_pylist() == [{"a": None, "b": "1", "c": {"d": None}}, {"a": 5, "b": "x", "c": {"d": 1}}]
    assert types(table) == {"a": "int64", "b": "string", "c": "struct<d: int64>"}


def test_a_clash_of_types_is_told_once_and_names_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = [1, "a"] * 20
    written(tmp_path / "rows.parquet", [{"v": value, "o": [{"p": value}]} for value in values])
    assert caplog.text.count("column v holds values of type int64 and string") == 1
    assert caplog.text.count("column o[].p holds values of type int64 and string") == 1


def test_a_clash_is_told_once_though_the_file_is_opened_again_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = "rows.parquet: column v holds values of type"
    journal = AtOnce(tmp_path / "rows.parquet")
    end = journal.append(journal.append(0, [row({"v": 1})]), [row({"v": "a"})])
    for one in (journal, AtOnce(tmp_path / "rows.parquet")):
        one.finish(end)
        one.close()
    assert caplog.text.count(said) == 1
    (tmp_path / "other").mkdir()
    written(tmp_path / "other" / "rows.parquet", [{"v": 1}, {"v": "a"}])
    assert caplog.text.count(said) == 2, "of another file"


def test_a_clash_is_told_again_of_a_file_that_is_begun_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        written(tmp_path / "rows.parquet", [{"v": 1}, {"v": "a"}])
        assert caplog.text.count("column v holds values of type") == number
        shutil.rmtree(tmp_path / ".rows.parquet.parts")
        (tmp_path / "rows.parquet").unlink()


def test_rows_come_with_their_kinds(tmp_path: Path) -> None:
    """Those of the file, and those that wait."""
    journal = AtOnce(tmp_path / "rows.parquet")
    first = journal.append(0, [row({"a": 1}, "book"), row({"a": 2}, "shop")])
    journal.finish(first)
    end = journal.append(first, [row({"a": 3}, "shop")])
    assert [(kind, item["a"]) for kind, item in journal.items(end)] == [("book", 1), ("shop", 2), ("shop", 3)]
    assert [item["a"] for item in journal.read(end)] == [1, 2, 3]
    journal.close()


def test_deep_values_and_keys_without_end_become_text(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    keys = {f"key {n}": n for n in range(1_000)}
    table = written(tmp_path / "rows.parquet", [{"deep": deep, "keys": keys}])
    assert types(table) == {"deep": "string", "keys": "string"}
    assert json.loads(table.column("keys")[0].as_py()) == keys


def test_fields_without_end_go_to_one_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_tables, "COLUMNS", 10)
    items = [{f"f{n}": n, "x": 1} for n in range(30)]
    table = written(tmp_path / "rows.parquet", items, segment=100)
    assert table.num_columns <= 10
    for item, got in zip(items, table.to_pylist(), strict=True):
        more = json.loads(got.pop("_more") or "{}")
        assert {name: value for name, value in (got | more).items() if value is not None} == item


def test_many_small_tables_become_few_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path, segment=16 << 20)
    committed = 0
    for batch in range(50):
        committed = journal.append(committed, [row({"n": n}) for n in range(batch * 100, batch * 100 + 100)])
    journal.finish(committed)
    assert pq.ParquetFile(path).num_row_groups == 1
    assert numbers(path) == list(range(5_000))


# -- several kinds of items


def test_several_kinds_share_the_columns_and_are_told_apart(tmp_path: Path) -> None:
    items = [row({"a": 1}), row({"b": "x"}, "review"), row(5, "number")]
    table = written(tmp_path / "rows.parquet", items, segment=1)
    assert table.to_pylist() == [
        {"_item": "book", "a": 1, "b": None, "value": None},
        {"_item": "review", "a": None, "b": "x", "value": None},
        {"_item": "number", "a": None, "b": None, "value": 5},
    ]


def test_a_second_kind_that_comes_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path, segment=1)
    committed = 0
    for item in (row({"_item": "mine"}), row({"_item": "mine"})):
        committed = journal.append(committed, [item])
    journal.finish(committed)
    assert pq.read_table(path).to_pylist() == [{"_item": "mine"}] * 2
    for table in ("review", "book"):
        committed = journal.append(committed, [row({"_item": "x"}, table)])
        journal.finish(committed)
    assert pq.read_table(path).column("_item_").to_pylist() == ["book", "book", "review", "book"]


def test_rows_that_tell_their_kind_need_no_further_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    journal = AtOnce(path, segment=1)
    committed, expected = 0, []
    for kind in ("book", "review", "book"):
        item = {"a": len(expected), "_item": kind}  # as row_meta writes it
        expected.append(item)
        committed = journal.append(committed, [row(item, kind)])
        journal.finish(committed)  # the file is read again to make the next one
        assert pq.read_table(path).to_pylist() == expected
    committed = journal.append(committed, [row({"a": 3}, "brand")])
    journal.finish(committed)
    assert pq.read_table(path).column("_item_").to_pylist() == ["book", "review", "book", "brand"]


def test_a_file_for_each_kind_is_there_when_a_run_ends(tmp_path: Path) -> None:
    journal = make_journal([str(tmp_path / "{item}.parquet")], job="j")
    assert isinstance(journal, Several)
    journal.owner = Owner("j", 1.0)
    committed = journal.append(0, [row({"n": 1}, "a"), row({"n": 2}, "b")])
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert not any(path.exists() for path in files)
    assert set(files) < set(
        journal.files("j")
    )  # also while their rows are in spools: --fresh moves them away
    journal.pause(committed)
    assert [numbers(path) for path in files] == [[1], [2]]
    journal.close()


# -- types of a schema


class Colour(Enum):
    RED = "red"


@dataclass
class Maker:
    name: str
    since: date | None = None


class Offer(msgspec.Struct):
    price: Decimal
    until: datetime


class Size(TypedDict):
    width: float


@dataclass
class Product:
    name: str
    count: int
    weight: float
    price: Decimal
    when: datetime
    day: date
    colour: Colour
    kind: Literal["a", "b"]
    id: UUID
    maker: Maker
    size: Size
    raw: bytes
    notes: Annotated[str | None, "…"] = None
    tags: list[str] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    extra: dict[str, int] = field(default_factory=dict)
    number: int | float = 0


COLUMNS = {"product": Product.__annotations__}


def product(**changed: Any) -> Product:
    values: dict[str, Any] = {
        "name": "x",
        "count": 1,
        "weight": 1.0,
        "price": Decimal("1.50"),
        "when": datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
        "day": date(2024, 1, 2),
        "colour": Colour.RED,
        "kind": "a",
        "id": UUID(int=7),
        "maker": Maker("m", date(2000, 1, 1)),
        "size": {"width": 2},
        "raw": b"\x00\xff",
        "offers": [Offer(Decimal("10.125"), datetime(2025, 1, 1, tzinfo=UTC))],
    }
    return Product(**values | changed)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Columns:
    from typing import get_type_hints

    return {"product": get_type_hints(Product, include_extras=True)}


def test_types_of_a_schema(tmp_path: Path, columns: Columns) -> None:
    table = written(tmp_path / "rows.parquet", [row(product(), "product")], columns)
    assert types(table) == {
        "name": "string",
        "count": "int64",
        "weight": "double",
        "price": "decimal128(3, 2)",
        "when": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "colour": "string",
        "kind": "string",
        "id": "string",
        "maker": "struct<name: string, since: date32[day]>",
        "size": "struct<width: double>",
        "raw": "binary",
        "notes": "string",
        "tags": "list<item: string>",
        "offers": "list<item: struct<price: decimal128(5, 3), until: timestamp[us, tz=UTC]>>",
        "extra": "struct<_empty: null>",
        "number": "double",
    }
    got = table.to_pylist()[0]
    assert (got["price"], got["when"], got["day"], got["raw"]) == (
        Decimal("1.50"),
        datetime(2024, 1, 2, 1, tzinfo=UTC),
        date(2024, 1, 2),
        b"\x00\xff",
    )
    assert got["offers"] == [{"price": Decimal("10.125"), "until": datetime(2025, 1, 1, tzinfo=UTC)}]


def test_decimals_get_the_digits_that_they_need(tmp_path: Path, columns: Columns) -> None:
    prices = [Decimal("1.5"), Decimal("12345"), Decimal("0.001"), Decimal("1E+3")]
    table = written(
        tmp_path / "rows.parquet", [row(product(price=p), "product") for p in prices], columns, segment=1
    )
    assert types(table)["price"] == "decimal128(8, 3)"
    assert table.column("price").to_pylist() == prices
    long = [Decimal("1.5"), Decimal(f"1{'0' * 40}.1")]
    table = written(tmp_path / "long.parquet", [row(product(price=p), "product") for p in long], columns)
    assert [Decimal(text) for text in table.column("price").to_pylist()] == long


@pytest.mark.parametrize("segment", [1, 1_000_000])
def test_times_with_and_without_zone_become_text(tmp_path: Path, columns: Columns, segment: int) -> None:
    times = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2)]
    items = [row(product(when=when), "product") for when in times]
    table = written(tmp_path / "rows.parquet", items, columns, segment=segment)
    assert table.column("when").to_pylist() == ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00"]


def test_values_that_a_schema_does_not_know_are_kept(tmp_path: Path, columns: Columns) -> None:
    """Rows of another handler for the same table, or of an older version of the spider."""
    odd = {
        "count": "many",
        "when": "soon",
        "price": None,
        "maker": {"name": 5, "town": "x"},
        "new": 1,
        "weight": 2,
    }
    table = written(tmp_path / "rows.parquet", [row(product(), "product"), row(odd, "product")], columns)
    got = table.to_pylist()[1]
    assert (got["count"], got["when"], got["new"], got["weight"]) == ("many", "soon", 1, 2.0)
    assert got["maker"] == {"name": "5", "since": None, "town": "x"}


def test_columns_without_values_have_the_type_of_the_schema(tmp_path: Path) -> None:
    columns = {"book": {"a": datetime | None, "b": list[str], "c": Decimal | None, "d": Any}}
    table = written(tmp_path / "rows.parquet", [{"a": None}], columns)
    assert types(table) == {
        "a": "timestamp[us, tz=UTC]",
        "b": "list<item: string>",
        "c": "decimal128(38, 9)",
        "d": "null",
    }
