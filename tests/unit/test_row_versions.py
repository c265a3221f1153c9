"""Rows in databases that are files: a row with a key replaces the one with the same key, and can come back."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shoal.model import Row
from shoal.sink.databases.sqlite_file import SqliteFile

DAY = 86_400.0
AT = 1_800_000_000.0


def version(item: dict[str, Any], at: float = AT, *, first: bool = False, table: str = "product") -> Row:
    """The first has the hash of its key: the store looks whether it has been written."""
    data = json.dumps(item).encode() + b"\n"
    return Row(data, 7 if first else None, table, ("id",), str(item["id"]), at)


def touch(ident: object, at: float) -> Row:
    data = json.dumps({"id": ident}).encode() + b"\n"
    return Row(data, None, "product", ("id",), str(ident), at, touch=True)


def select(path: Path, sql: str) -> list[Any]:
    return apsw.Connection(str(path)).execute(sql).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.sqlite"


def test_a_newer_version_replaces_the_row(path: Path) -> None:
    file = SqliteFile(path)
    end = file.append(
        0, [version({"id": "a", "price": 1, "new": True}, first=True), version({"id": "b"}, first=True)]
    )
    end = file.append(end, [version({"id": "a", "price": 2, "tags": ["x"]}, AT + DAY)])
    assert end == 3
    assert list(file.read(end)) == [
        {"id": "b", "price": None, "new": None, "tags": None},
        {"id": "a", "price": 2, "new": None, "tags": ["x"]},
    ]
    assert select(path, "SELECT key, at, old, new FROM product_changes") == [
        ("a", "2027-01-16T08:00:00.000Z", '{"price":1,"new":true}', '{"price":2,"tags":["x"]}')
    ]
    # What a killed process left is undone: the row from before is there again.
    assert next(iter(file.read(2))) == {"id": "a", "price": 1, "new": True, "tags": None}
    assert file.append(2, []) == 2
    assert select(path, "SELECT id, price, new FROM product ORDER BY _row") == [
        ("a", 1, 1),
        ("b", None, None),
    ]
    assert select(path, "SELECT count(*) FROM product_changes") == [(0,)]
    file.close()


def test_rows_without_a_key_are_added(path: Path) -> None:
    file = SqliteFile(path)
    file.append(0, [Row(b'{"n": 1}\n', table="product"), Row(b'{"n": 1}\n', table="product")])
    assert len(list(file.read(2))) == 2
    file.close()


def test_when_a_row_was_checked(path: Path) -> None:
    """Also by keys that are numbers, and with a field of that name."""
    file = SqliteFile(path)
    rows = [{"id": 1, "_checked_at": "mine"}, {"id": "1"}, {"id": 1.5}]
    end = file.append(0, [version(one, first=True) for one in rows])
    assert file.append(end, [touch(1, AT + DAY), touch(1.5, AT + 2 * DAY), touch("new", AT)]) == end
    checked = select(path, "SELECT id, _checked_at, _checked_at_2 FROM product ORDER BY _row")
    assert checked == [
        (1, "2027-01-16T08:00:00.000Z", "mine"),
        ("1", None, None),
        (1.5, "2027-01-17T08:00:00.000Z", None),
    ]
    assert next(iter(file.read(end))) == {"id": 1, "_checked_at": "mine"}, "it is no field of the item"
    # A row that is written later was checked then.
    file.append(end, [version({"id": 1}, AT + 3 * DAY)])
    assert select(path, "SELECT _checked_at FROM product WHERE id = 1") == [("2027-01-18T08:00:00.000Z",)]
    file.close()
    other = SqliteFile(path)
    other.append(4, [touch(1, AT + 4 * DAY)])
    assert select(path, "SELECT _checked_at FROM product WHERE id = 1") == [("2027-01-19T08:00:00.000Z",)]
    other.close()


def test_a_table_that_is_called_like_the_history(path: Path) -> None:
    file = SqliteFile(path)
    end = file.append(0, [version({"id": "a"}, first=True), version({"id": "a"}, table="product_changes")])
    file.append(end, [version({"id": "a", "n": 1})])
    assert [row["id"] for row in file.read(3)] == ["a", "a"]
    assert select(path, "SELECT count(*) FROM product_changes_2") == [(1,)]
    file.close()


def test_old_versions_are_forgotten(path: Path) -> None:
    file = SqliteFile(path, history_keep=10 * DAY)
    end = file.append(0, [version({"id": "a", "n": 0}, first=True)])
    for day in range(1, 31):
        end = file.append(end, [version({"id": "a", "n": day}, AT + day * DAY)])
    kept = select(
        path, "SELECT min(json_extract(new, '$.n')), max(json_extract(new, '$.n')) FROM product_changes"
    )
    assert kept == [(20, 30)]
    file.close()


keys = st.sampled_from(["a", "b", 1, 2.5])
items = st.dictionaries(
    st.sampled_from(["n", "m", "_more"]),
    st.none() | st.booleans() | st.integers(-3, 2**54) | st.text(max_size=2),
    max_size=2,
)
batches = st.lists(st.tuples(keys, items), max_size=3)
steps = st.lists(st.tuples(st.integers(0, 2), batches), max_size=8)


def state(rows: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: {k: v for k, v in {"id": key, **item}.items() if v is not None} for key, item in rows}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@given(steps)
@example([(0, [("a", {}), ("a", {"n": 1})]), (0, [("a", {"n": True})]), (2, [])])
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_order_of_commits_and_losses(found: list[tuple[int, Any]]) -> None:
    """The store may go back several commits: then the rows are as they were."""
    with TemporaryDirectory() as folder:
        file = SqliteFile(Path(folder) / "rows.sqlite")
        known: list[tuple[int, list[tuple[Any, Any]]]] = [(0, [])]  # position, and all rows so far
        for back, batch in found:
            del known[max(1, len(known) - back) :]
            position, rows = known[-1]
            rows = [*rows, *batch]
            seen = {key for key, _ in known[-1][1]}
            new = []
            for key, item in batch:
                new.append(version({"id": key, **item}, first=key not in seen))
                seen.add(key)
            known.append((file.append(position, new), rows))
            for end, then in known[-3:]:
                assert {row["id"]: plain(row) for row in file.read(end)} == state(then)
        file.close()


def test_the_same_in_duckdb(tmp_path: Path) -> None:
    """Segments are shipped, taken back and shipped again."""
    import duckdb

    from shoal.sink.databases.duckdb_file import DuckdbFile

    file = DuckdbFile(tmp_path / "rows.duckdb", segment=1)
    first = [version({"id": 1, "n": 0}, first=True), version({"id": 2, "n": "x"}, first=True)]
    start = file.append(0, first)
    middle = file.append(start, [version({"id": 1, "n": 1}), version({"id": 1, "n": 2.5, "more": [1]})])
    end = file.append(middle, [version({"id": 2, "n": True})])
    file.finish(end)
    assert {row["id"]: row["n"] for row in file.read(end)} == {1: "2.5", 2: True}
    with duckdb.connect(str(tmp_path / "rows.duckdb"), read_only=True) as db:
        there = db.execute("SELECT id, n, more FROM product ORDER BY id").fetchall()
        noted = db.execute("SELECT key, old FROM product_changes ORDER BY _next").fetchall()
    assert there == [(1, "2.5", "[1]"), (2, "true", None)]
    assert noted == [("1", '{"n":"0"}'), ("1", '{"n":"1"}'), ("2", '{"n":"x"}')]
    # The store went back to before the last commit.
    file.append(middle, [])
    file.finish(middle)
    assert {row["id"]: row["n"] for row in file.read(middle)} == {1: "2.5", 2: "x"}
    file.append(start, [])
    file.finish(start)
    assert {row["id"]: row["n"] for row in file.read(start)} == {1: "0", 2: "x"}
    file.close()
