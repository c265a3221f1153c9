"""DuckDB databases as result files: every row once, and no value lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SinkError, UsageError
from shoal.model import Row
from shoal.sink.databases import item_tables
from shoal.sink.databases.duckdb_file import DuckdbFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.duckdb"


@pytest.fixture
def file(path: Path) -> Iterator[DuckdbFile]:
    file = DuckdbFile(path)
    yield file
    file.close()


def rows(*items: object, table: str = "book") -> list[Row]:
    return [Row(json.dumps(item).encode() + b"\n", table=table) for item in items]


def select(path: Path, sql: str) -> list[Any]:
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute(sql).fetchall()


def types(path: Path, table: str = "book") -> dict[str, str]:
    found = select(path, f"SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{table}'")
    return {name: type_ for name, type_ in found if name != "_row"}


def write(file: DuckdbFile, *batches: list[Row]) -> int:
    """Each batch is in the database before the next one comes."""
    end = 0
    for batch in batches:
        end = file.append(end, batch)
        file.finish(end)
    return end


def test_rows_of_every_kind_of_value(file: DuckdbFile, path: Path) -> None:
    item = {"title": "A", "price": 1.5, "stock": 3, "new": True, "tags": ["a", {"b": 1}], "of": None}
    end = write(file, rows(item, {"title": "B"}) + rows({"stars": 5}, table="review"))
    assert select(path, "SELECT * EXCLUDE _row FROM book ORDER BY _row") == [
        ("A", 1.5, 3, True, '["a",{"b":1}]', None),
        ("B", None, None, None, None, None),
    ]
    assert types(path) == {
        "title": "VARCHAR",
        "price": "DOUBLE",
        "stock": "BIGINT",
        "new": "BOOLEAN",
        "tags": "VARCHAR",
        "of": "VARCHAR",
    }
    assert list(file.read(end)) == [item, {"title": "B"}, {"stars": 5}]


def test_columns_of_a_schema(path: Path) -> None:
    columns: dict[str, dict[str, object]] = {"book": {"upc": str, "price": float | None}, "shop": {"n": int}}
    file = DuckdbFile(path, columns=columns)
    write(file, rows({"price": 3, "extra": "x"}))
    file.close()
    assert types(path) == {"upc": "VARCHAR", "price": "DOUBLE", "extra": "VARCHAR"}
    assert types(path, "shop") == {"n": "BIGINT"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "then", "type_", "kept"),
    [
        (5, 5.5, "DOUBLE", [5.0, 5.5]),
        (1.5, 7, "DOUBLE", [1.5, 7.0]),
        (2**60 + 1, 5.5, "VARCHAR", ["1152921504606846977", "5.5"]),  # as a float it would become even
        (1.5, 2**60 + 1, "VARCHAR", ["1.5", "1152921504606846977"]),
        (5, "007", "VARCHAR", ["5", "007"]),
        (1.5, "x", "VARCHAR", ["1.5", "x"]),
        (True, 5, "VARCHAR", ["true", "5"]),
        ("x", [1], "VARCHAR", ["x", "[1]"]),
        ([1], "x", "VARCHAR", ["[1]", "x"]),
        ("x", True, "VARCHAR", ["x", "true"]),
        (5, 2**70, "VARCHAR", ["5", str(2**70)]),
        (None, 5, "BIGINT", [None, 5]),
        (None, "x", "VARCHAR", [None, "x"]),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_value_of_another_type_widens_the_column(
    file: DuckdbFile, path: Path, first: object, then: object, type_: str, kept: list[object], together: bool
) -> None:
    if together:
        write(file, rows({"a": first}, {"a": then}))
    else:
        write(file, rows({"a": first}), rows({"a": then}))
    assert select(path, "SELECT a FROM book ORDER BY _row") == [(value,) for value in kept]
    assert types(path) == {"a": type_}


def test_names_that_sql_finds_odd(file: DuckdbFile, path: Path) -> None:
    item = {"select": 1, "Title": 2, "title": 3, "TITLE": 4, "": 5, 'a"b': 6, "a\0b": 7, "a_b": 8, "_row": 9}
    item |= {"_more": 10, "é": 11, "É": 12, "x" * 5000: 13, "title_2": 14, "rowid": 15, "a, ": 16}
    names = ["order", "Book", "book", "", "_shoal", "_SHOAL_tables", "sqlite_master", 'x"y', "a\0"]
    end = write(file, [row for name in names for row in rows(item, item, table=name)])
    assert list(file.read(end)) == [item] * 2 * len(names)
    kept = dict(select(path, "SELECT item, name FROM _shoal_tables"))
    assert (kept["Book"], kept["book"], kept[""], kept["_shoal"]) == ("Book", "book_2", "rows", "_shoal_2")


def test_more_fields_than_a_table_has_columns(
    file: DuckdbFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_tables, "MOST_COLUMNS", 3)
    item = {f"f{n}": n for n in range(5)}
    end = write(file, rows(item, {"f0": 1}))
    assert select(path, "SELECT _more FROM book ORDER BY _row") == [('{"f3":3,"f4":4}',), (None,)]
    assert item in list(file.read(end))


def test_segments_are_in_the_database_before_the_end(path: Path) -> None:
    file = DuckdbFile(path, segment=200)
    end = 0
    for n in range(30):
        end = file.append(end, rows({"n": n, "text": "x" * 50}))
    assert list(file.read(end)) == [{"n": n, "text": "x" * 50} for n in range(30)]
    file.close()  # waits for what is under way
    assert select(path, "SELECT count(*) > 0 FROM book") == [(True,)]
    file.finish(end)
    assert select(path, "SELECT n FROM book ORDER BY _row") == [(n,) for n in range(30)]
    file.close()


def test_a_result_without_rows_is_a_database(path: Path) -> None:
    file = DuckdbFile(path, columns={"book": {"upc": str}})
    path.touch()
    file.append(0, [])
    file.finish(0)
    assert select(path, "SELECT * FROM book") == []
    file.close()


def test_tables_that_the_user_adds_are_not_touched(file: DuckdbFile, path: Path) -> None:
    end = write(file, rows({"a": 1}))
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE review(mine INT); CREATE VIEW shop AS SELECT * FROM book")
    file.finish(
        file.append(end, rows({"b": 1}, table="review") + rows({"a": "x"}) + rows({"c": 1}, table="shop"))
    )
    assert select(path, "SELECT * FROM review") == []
    assert select(path, "SELECT b FROM review_2") == [(1,)]
    assert select(path, "SELECT c FROM shop_2") == [(1,)]


# -- what can go wrong


def test_a_program_that_has_the_database_open(path: Path) -> None:
    file = DuckdbFile(path, patience=0.05)
    end = file.append(0, rows({"a": 1}))
    file.finish(end)
    reader = f"import duckdb, sys; db = duckdb.connect({str(path)!r}, read_only=True); print(1, flush=True); input()"
    command = [sys.executable, "-c", reader]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline()
        end = file.append(end, rows({"a": 2}))  # rows wait in the spool
        said = rf"cannot write .*rows.duckdb: .* \(PID {process.pid}\) has it open; close it there"
        with pytest.raises(SinkError, match=said):
            file.finish(end)
        file.pause(end)  # says so, and leaves it to the next run
        process.stdin.write("\n")
        process.stdin.close()
    file.finish(end)
    assert select(path, "SELECT a FROM book ORDER BY a") == [(1,), (2,)]
    file.close()


def test_a_database_that_is_removed_or_replaced(path: Path) -> None:
    file = DuckdbFile(path, segment=10)
    end = file.append(file.append(0, rows({"a": 1})), rows({"a": 2}))
    file.finish(end)
    file.close()
    for segment in file.folder.segments()[:-1]:
        file.folder.remove(segment)  # as after a minute
    path.rename(path.with_name("away"))
    with pytest.raises(SinkError, match="it was changed or removed; restore it or start again with --fresh"):
        file.check(end)
    with pytest.raises(SinkError, match="it was changed or removed; restore it or start again with --fresh"):
        file.finish(end)
    file.close()


def test_something_else_in_its_place(file: DuckdbFile, path: Path) -> None:
    path.write_text("not a database")
    end = file.append(0, rows({"a": 1}))
    with pytest.raises(SinkError, match="is not a valid DuckDB database file!; mend that; nothing is lost"):
        file.finish(end)


def test_a_name_that_is_not_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"-o \\xff.db: the name of a database must be UTF-8"):
        DuckdbFile(tmp_path / os.fsdecode(b"\xff.db"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"cannot write .*No such file or directory"):
        DuckdbFile(tmp_path / "none" / "rows.duckdb").append(0, rows({"a": 1}))


# -- any history of appends

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "007", "x", "[1]", "a\0b"]),
    st.lists(st.integers(0, 3), max_size=2),
)
_ITEMS = st.dictionaries(st.sampled_from(["a", "A", ""]), _VALUES, max_size=3)
_BATCH = st.lists(st.tuples(st.sampled_from(["book", "Book"]), _ITEMS), max_size=4)
# How far the store goes back before this append, in commits; whether the process is new; whether a run ends.
_STEPS = st.lists(st.tuples(_BATCH, st.integers(0, 2), st.booleans(), st.booleans()), max_size=6)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(steps=_STEPS)
def test_any_history_of_appends(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    path = tmp_path_factory.mktemp("any") / "rows.duckdb"
    file = DuckdbFile(path, segment=60)
    commits: list[tuple[int, list[Any]]] = [(0, [])]
    for batch, back, is_new, ends in steps:
        if is_new:
            file.close()
            file = DuckdbFile(path, segment=60)
        del commits[max(1, len(commits) - back) :]
        committed, written = commits[-1]
        items = [row for table, item in batch for row in rows(item, table=table)]
        commits.append((file.append(committed, items), [*written, *(item for _, item in batch)]))
        if ends:
            file.finish(commits[-1][0])
    committed, written = commits[-1]
    file.finish(committed)
    assert list(map(_comparable, file.read(committed))) == list(map(_comparable, written))
    file.close()


def _comparable(item: dict[str, Any]) -> dict[str, Any]:
    """In a column of mixed types everything is text: numbers and lists as in JSON."""
    return {name: _text(value) for name, value in item.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool | list):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, str):
        try:
            return repr(float(value)) if value != "007" else value
        except ValueError:
            return value
    return repr(float(value))
