"""SQLite databases as result files: every row once, and no value changed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SinkError, UsageError
from shoal.model import Row
from shoal.sink.databases.item_tables import MOST_COLUMNS
from shoal.sink.databases.sqlite_file import SqliteFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[SqliteFile]:
    file = SqliteFile(path)
    yield file
    file.close()


def rows(*items: object, table: str = "book") -> list[Row]:
    return [Row(json.dumps(item).encode() + b"\n", table=table) for item in items]


READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for sql in sys.argv[2:]:
    print(db.execute(sql).fetchall())
"""


def select(path: Path, *sql: str) -> list[Any]:
    """What the last statement gives, as another program sees it: with the SQLite of the standard library. In a process
    of its own: in one process, two copies of SQLite would end each other's locks."""
    command = [sys.executable, "-I", "-S", "-c", READER, str(path), *sql]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: list[Any] = ast.literal_eval(said.splitlines()[-1])
    return found


def declared(path: Path, table: str = "book") -> dict[str, str]:
    found = select(path, f'SELECT name, type FROM pragma_table_info("{table}")')
    return {name: type_ for name, type_ in found if name != "_row"}


def test_rows_of_every_kind_of_value(file: SqliteFile, path: Path) -> None:
    item = {"title": "A", "price": 1.5, "stock": 3, "new": True, "tags": ["a", {"b": 1}], "of": None}
    assert file.append(0, rows(item, {"title": "B"})) == 2
    assert select(path, "SELECT * FROM book") == [
        (1, "A", 1.5, 3, 1, '["a",{"b":1}]', None),
        (2, "B", None, None, None, None, None),
    ]
    assert declared(path) == {
        "title": "TEXT",
        "price": "REAL",
        "stock": "INTEGER",
        "new": "BOOLEAN",
        "tags": "JSON",
        "of": "",
    }
    assert list(file.read(2)) == [item, dict.fromkeys(item, None) | {"title": "B"}]


def test_a_table_for_each_kind_of_item(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}) + rows({"b": 2}, table="review") + rows({"a": 3}))
    assert select(path, "SELECT * FROM book") == [(1, 1), (3, 3)]
    assert select(path, "SELECT * FROM review") == [(2, 2)]
    assert list(file.read(end)) == [{"a": 1}, {"b": 2}, {"a": 3}]
    assert list(file.read(2)) == [{"a": 1}, {"b": 2}]


def test_columns_of_a_schema_come_first_and_keep_their_types(path: Path) -> None:
    columns: dict[str, dict[str, object]] = {
        "book": {"upc": str, "price": float | None, "tags": list[str], "any": object},
        "shop": {"n": int},
    }
    file = SqliteFile(path, columns=columns)
    file.append(0, rows({"price": 3, "extra": "x"}))
    file.close()
    assert declared(path) == {"upc": "TEXT", "price": "REAL", "tags": "JSON", "any": "", "extra": "TEXT"}
    assert select(path, "SELECT price, typeof(price) FROM book") == [(3.0, "real")]
    assert declared(path, "shop") == {"n": "INTEGER"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "then", "type_"),
    [
        (5, "007", ""),  # in a column of integers it would become 7
        (1.5, "1e3", ""),
        ("abc", 5, ""),  # in a column of text it would become '5'
        (True, 5, ""),
        (5, 5.5, "NUMERIC"),
        (1.5, 2**60 + 1, "NUMERIC"),  # as a float it would become even
        (1.5, 7, "REAL"),
        (5, 2**70, ""),
        (2**70, "x", "TEXT"),
        ([1], "x", "TEXT"),
        ("x", [1], "TEXT"),
        ([1], 5, ""),
        (None, "007", "TEXT"),
    ],
)
def test_a_value_of_another_type_is_not_changed(
    file: SqliteFile, path: Path, first: object, then: object, type_: str
) -> None:
    file.append(file.append(0, rows({"a": first, "z": 1})), rows({"a": then, "z": 2}))
    file.append(2, rows({"a": first}))
    kept = [_as_stored(value) for value in (first, then, first)]
    assert select(path, "SELECT a FROM book ORDER BY _row") == [(value,) for value in kept]
    assert [type(a) for (a,) in select(path, "SELECT a FROM book")] == [_type(v, type_) for v in kept]
    assert declared(path) == {"a": type_, "z": "INTEGER"}
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


def _as_stored(value: object) -> object:
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, int) and value >= 2**63 else value


def _type(value: object, declared: str) -> type:
    return float if declared == "REAL" else type(value)


def test_names_that_sql_finds_odd(file: SqliteFile, path: Path) -> None:
    item = {"select": 1, "Title": 2, "title": 3, "TITLE": 4, "": 5, 'a"b': 6, "a\0b": 7, "a_b": 8, "_row": 9}
    item |= {
        "_more": 10,
        "é": 11,
        "É": 12,
        "x" * 5000: 13,
        "title_2": 14,
        "rowid": 15,
        "a, ": 16,
        " INTEGER": 17,
    }
    names = ["order", "Book", "book", "", "_shoal", "_SHOAL_tables", "sqlite_master", 'x"y', "a\0", "a, "]
    end = 0
    for name in names:
        end = file.append(end, rows(item, dict.fromkeys(item, "text"), table=name))
    assert list(file.read(end)) == [item, dict.fromkeys(item, "text")] * len(names)
    kept = dict(select(path, "SELECT item, name FROM _shoal_tables"))
    assert (kept["Book"], kept["book"], kept[""], kept["_shoal"]) == ("Book", "book_2", "rows", "_shoal_2")
    columns = dict(select(path, "SELECT field, name FROM _shoal_columns WHERE item = 'Book'"))
    assert columns["Title"] == "Title"
    assert len({name.lower() for name in columns.values()}) == len(item)
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


def test_more_fields_than_a_table_has_columns(file: SqliteFile, path: Path) -> None:
    item = {f"f{n}": n for n in range(MOST_COLUMNS + 2)}
    file.append(0, rows(item, {"f0": 1}))
    assert select(path, "SELECT _more FROM book") == [('{"f1000":1000,"f1001":1001}',), (None,)]
    assert next(file.read(2)) == item


def test_items_that_are_no_objects(file: SqliteFile, path: Path) -> None:
    file.append(0, rows("x", [1], 5))
    assert select(path, "SELECT value FROM book") == [("x",), ("[1]",), (5,)]


def test_what_is_not_committed_is_replaced(file: SqliteFile, path: Path) -> None:
    first = file.append(0, rows({"a": 1}))
    file.append(first, rows({"a": 2}, {"a": 3}) + rows({"b": 1}, table="review"))
    again = file.append(first, rows({"a": 4}))
    assert select(path, "SELECT a FROM book") == [(1,), (4,)]
    assert select(path, "SELECT * FROM review") == []
    assert again == 2
    assert file.append(0, []) == 0  # the store went all the way back
    assert select(path, "SELECT a FROM book") == []


def test_two_processes_see_each_others_columns(path: Path) -> None:
    one, two = SqliteFile(path), SqliteFile(path)
    end = one.append(0, rows({"a": 1}))
    end = two.append(end, rows({"a": "x", "b": 2}))
    end = one.append(end, rows({"b": "y", "c": 3}) + rows({}, table="new"))
    end = two.append(end, rows({"c": 4}) + rows({"n": 1}, table="new"))
    assert [*one.read(end)][:3] == [
        {"a": 1, "b": None, "c": None},
        {"a": "x", "b": 2, "c": None},
        {"a": None, "b": "y", "c": 3},
    ]
    one.close()
    two.close()
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_failed_append_leaves_nothing_behind(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}))
    with pytest.raises(Exception, match=r"malformed|truncated|invalid"):
        file.append(end, [*rows({"a": "x", "b": 2}), Row(b"{oops", table="new")])
    assert declared(path) == {"a": "INTEGER"}
    assert file.append(end, rows({"b": 3})) == 2
    assert list(file.read(2)) == [{"a": 1, "b": None}, {"a": None, "b": 3}]


def test_tables_that_the_user_adds_are_not_touched(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}))
    select(
        path, "CREATE TABLE review(mine)", "CREATE INDEX book_a ON book(a)", "CREATE VIEW shop AS SELECT 1"
    )
    end = file.append(end, rows({"b": 1}, table="review") + rows({"c": 1}, table="shop") + rows({"a": "x"}))
    assert select(path, "SELECT * FROM review") == []
    assert select(path, "SELECT * FROM review_2") == [(2, 1)]
    assert select(path, "SELECT * FROM shop_2") == [(3, 1)]
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


def test_after_finish_there_is_one_plain_file(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}))
    file.finish(end)
    file.finish(end)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert select(path, "PRAGMA journal_mode") == [("delete",)]
    assert file.append(end, rows({"a": 2})) == 2  # a later run goes on
    file.finish(2)
    assert select(path, "SELECT a FROM book") == [(1,), (2,)]


def test_finish_while_others_have_it_open(file: SqliteFile, path: Path) -> None:
    other = SqliteFile(path)
    end = other.append(file.append(0, rows({"a": 1})), rows({"a": 2}))
    with closing(apsw.Connection(str(path))) as reader:
        reader.execute("BEGIN")
        assert len(reader.execute("SELECT * FROM book").fetchall()) == 2
        file.finish(end)
        end = other.append(end, rows({"a": 3}))
        assert len(reader.execute("SELECT * FROM book").fetchall()) == 2  # its own moment
    other.finish(end)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert len(select(path, "SELECT * FROM book")) == 3


KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for sql in ("PRAGMA cache_size = 1", "BEGIN IMMEDIATE", "CREATE TABLE other(text)"):
    db.execute(sql)
db.executemany("INSERT INTO other VALUES (?)", [("x" * 4_000,)] * 200)  # more than it keeps in memory
os._exit(9)
"""


def test_a_process_that_died_while_it_changed_the_file(file: SqliteFile, path: Path) -> None:
    """As one that is killed while `finish` ends the WAL mode: what it left is undone before the file is read."""
    end = file.append(0, rows({"a": 1}))
    file.finish(end)
    journal = path.with_name("rows.sqlite-journal")
    for look in (lambda: file.check(end), lambda: list(file.read(end))):
        subprocess.run([sys.executable, "-I", "-S", "-c", KILLED, str(path)], check=False)
        assert journal.exists()
        look()
        assert not journal.exists()
    assert select(path, "SELECT name FROM sqlite_schema WHERE name = 'other'") == []


# -- what can go wrong


def test_check_of_a_new_file_and_of_one_in_use(file: SqliteFile, path: Path) -> None:
    file.check(0)
    end = file.append(0, rows({"a": 1}))
    SqliteFile(path).check(end)
    with pytest.raises(SinkError, match=r"rows.sqlite has fewer rows than this job has written \(2\)"):
        SqliteFile(path).check(2)
    assert len(select(path, "SELECT * FROM book")) == 1


@pytest.mark.parametrize("committed", [0, 5])
def test_something_else_in_its_place(path: Path, committed: int) -> None:
    """`check` is asked before a file is replaced (`--fresh`), so it does not mind what is there until rows are."""
    path.write_text("not a database, but long enough to be read as the header of one" * 9)
    with pytest.raises(SinkError, match="is not a SQLite database: choose another file with -o"):
        _try(path, committed)
    path.unlink()
    select(path, "CREATE TABLE book(mine)")
    other = r"is a database of another program \(it has 'book'\)"
    with pytest.raises(SinkError, match="fewer rows than this job has written" if committed else other):
        _try(path, committed)
    path.unlink()
    path.mkdir()
    with pytest.raises(SinkError, match="not a regular file"):
        _try(path, committed)


def _try(path: Path, committed: int) -> None:
    with closing(SqliteFile(path)) as file:
        file.check(committed)
        file.append(committed, rows({"a": 1}))


def test_a_name_that_is_not_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"-o \\xff.db: the name of a database must be UTF-8"):
        SqliteFile(tmp_path / os.fsdecode(b"\xff.db"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"cannot write .*No such file or directory"):
        SqliteFile(tmp_path / "none" / "rows.db").append(0, rows({"a": 1}))


def test_a_database_that_is_removed_or_replaced(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}))
    path.rename(path.with_name("away"))
    with pytest.raises(SinkError, match="it was changed or removed"):
        file.append(end, rows({"a": 2}))
    path.touch()
    with pytest.raises(SinkError, match="it was changed or removed"):
        file.append(end, rows({"a": 2}))
    with pytest.raises(SinkError, match="it was changed or removed"), closing(SqliteFile(path)) as new:
        new.append(end, rows({"a": 2}))


def test_a_program_that_locks_the_database(path: Path) -> None:
    file = SqliteFile(path, patience=0.05)
    end = file.append(0, rows({"a": 1}))
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            SinkError, match=r"locked by another program for 0.05 seconds: end that, nothing is lost"
        ):
            file.append(end, rows({"a": 2}))
        other.execute("ROLLBACK")
        assert file.append(end, rows({"a": 2})) == 2
    file.close()


def test_a_full_disk(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}))
    file._db.pragma("max_page_count", 8)  # type: ignore[union-attr]
    with pytest.raises(SinkError, match="no space left; make room, nothing is lost"):
        file.append(end, rows({"a": "x" * 100_000}))
    file._db.pragma("max_page_count", 10**6)  # type: ignore[union-attr]
    assert file.append(end, rows({"a": "x" * 100_000})) == 2
    assert select(path, "SELECT length(a) FROM book") == [(1,), (100_000,)]


def test_a_table_that_was_changed_by_hand(file: SqliteFile, path: Path) -> None:
    end = file.append(0, rows({"a": 1}))
    select(path, "ALTER TABLE book RENAME COLUMN a TO b")
    with pytest.raises(SinkError, match=r"no column named a; was a table changed\? Undo that"):
        file.append(end, rows({"a": 2}))
    with pytest.raises(SinkError, match="column 'a' cannot hold values of another type"):
        file.append(end, rows({"a": "x"}))
    select(path, "ALTER TABLE book RENAME COLUMN b TO a", "ALTER TABLE book ADD COLUMN mine TEXT")
    assert file.append(end, rows({"a": "x"})) == 2


# -- any history of appends

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "007", "1.0", "x", "[1]", "a\0b"]),
    st.lists(st.integers(0, 3), max_size=2),
)
_ITEMS = st.dictionaries(st.sampled_from(["a", "A", "b", ""]), _VALUES, max_size=3)
_BATCH = st.lists(st.tuples(st.sampled_from(["book", "Book", "_shoal"]), _ITEMS), max_size=4)
# How far the store goes back before this append, in commits; and whether the process is new.
_STEPS = st.lists(st.tuples(_BATCH, st.integers(0, 3), st.booleans()), max_size=8)


@settings(max_examples=40, deadline=None)
@given(steps=_STEPS)
def test_any_history_of_appends(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    path = tmp_path_factory.mktemp("any") / "rows.db"
    file = SqliteFile(path)
    written: list[Any] = []
    commits = [0]
    for batch, back, is_new in steps:
        if is_new:
            file.close()
            file = SqliteFile(path)
        del commits[max(1, len(commits) - back) :]
        committed = commits[-1]
        items = [row for table, item in batch for row in rows(item, table=table)]
        commits.append(file.append(committed, items))
        written[committed:] = [item for _, item in batch]
        assert commits[-1] == len(written)
        assert list(map(_comparable, file.read(commits[-1]))) == list(map(_comparable, written))
    file.finish(commits[-1])
    with closing(apsw.Connection(str(path))) as db:
        assert db.pragma("integrity_check") == "ok"


def _comparable(item: dict[str, Any]) -> dict[str, Any]:
    """In a column of mixed types, lists are JSON, booleans 0 or 1, and large integers text."""
    return {name: _plain(value) for name, value in item.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value
