"""Which sink an output means, and what of its name may be shown or stored."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.errors import UsageError
from shoal.model import Done, Lease, Row, Settlement, Task, Verdict
from shoal.sink import describe, open_sink, output_key
from shoal.sink.file_sink import FileSink
from shoal.sink.jsonl import JsonLines, StdoutJournal, encode_row
from shoal.sink.postgres.address import read_address
from shoal.sink.postgres.writing import rows_by_table
from shoal.sink.row_meta import MetaWriter
from shoal.spider.spider import Handler, Spider

SECRET = "hunter2"


def test_a_file_of_a_fleet_is_known_by_its_own_name_and_not_by_its_path(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "rows.jsonl", tmp_path / "other" / "rows.jsonl"
    elsewhere.parent.mkdir()

    def key(path: Path) -> str:
        journal = open_sink(path, job="j", local=False).journal
        assert journal is not None
        return journal.key

    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(key, [path] * 32))
    assert len(keys) == 1
    assert key(elsewhere) not in keys
    moved = tmp_path / "moved"
    path.touch()
    moved.mkdir()
    for name in ("rows.jsonl", ".rows.jsonl.id"):
        (tmp_path / name).rename(moved / name)
    assert key(moved / "rows.jsonl") in keys
    assert sorted(p.name for p in moved.iterdir()) == [".rows.jsonl.id", "rows.jsonl"]


def test_a_path_is_a_file_and_nothing_is_standard_output(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "rows.jsonl", job="j")
    assert isinstance(sink, FileSink)
    assert isinstance(sink.journal, JsonLines)
    assert output_key(tmp_path / "rows.jsonl") == sink.journal.key.encode()
    assert isinstance(open_sink(None, job="j").journal, StdoutJournal)
    assert (describe(None), output_key(None)) == ("stdout", b"")
    assert describe("rows.jsonl") == "rows.jsonl"


@pytest.mark.parametrize("output", ["mysql://db/shop", "sqlite:///x.db", "postgresqlx://db"])
def test_other_kinds_are_refused_with_what_is_possible(output: str) -> None:
    for refuse in (describe, output_key, lambda output: open_sink(output, job="j")):
        with pytest.raises(
            UsageError, match=r"no results of kind .* rows\.jsonl.* postgresql://HOST/DATABASE"
        ) as told:
            refuse(output)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("output", "shown", "key"),
    [
        ("postgresql://db/shop", "postgresql://db/shop", "postgresql://db/shop"),
        ("postgres://me:hunter2@db:5433/shop", "postgresql://db:5433/shop", "postgresql://me@db:5433/shop"),
        ("POSTGRESQL://me:a@hunter2@db/shop", "postgresql://db/shop", "postgresql://me@db/shop"),
        ("postgresql://db/shop?password=hunter2", "postgresql://db/shop", "postgresql://db/shop"),
        (
            "postgresql://a:hunter2@one:1,two:2/shop?sslmode=require&history=1",
            "postgresql://one:1,two:2/shop",
            "postgresql://a@one:1,two:2/shop?sslmode=require&history=1",
        ),
        ("postgresql:", "postgresql://", "postgresql://"),
        ("postgresql://", "postgresql://", "postgresql://"),
    ],
)
def test_a_database_is_shown_and_stored_without_its_secrets(output: str, shown: str, key: str) -> None:
    assert describe(output) == shown
    assert output_key(output) == key.encode()
    assert output_key(key) == key.encode()  # can be opened again
    address = read_address(output)
    assert SECRET not in repr(address) + repr(open_sink(output, job="j"))
    assert (SECRET in address.dsn) == (SECRET in output)
    assert "history" not in address.dsn
    assert address.history == ("history=1" in output)


@pytest.mark.parametrize(
    "output",
    [
        "postgresql://me:hunter2/x@db/shop",
        "postgresql://me:hunter2?x@db/shop",
        "postgresql://me:hunter2#x@db/shop",
        "postgresql://me:hunter2[@db/shop",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(output: str) -> None:
    with pytest.raises(UsageError, match="PGPASSWORD") as told:
        describe(output)
    assert SECRET not in str(told.value)
    assert told.value.__suppress_context__ or told.value.__context__ is None


def test_history_is_on_or_off() -> None:
    assert not read_address("postgresql://db/shop?history=0").history
    with pytest.raises(UsageError, match="history=maybe is not allowed; write history=1"):
        describe("postgresql://db/shop?history=maybe")


def test_the_driver_is_loaded_only_when_it_is_needed() -> None:
    code = (
        "import sys, shoal.runtime.crawl, shoal.sink; shoal.sink.describe('postgresql://db/x');"
        "shoal.sink.open_sink('x.jsonl', job='j'); assert 'asyncpg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- from settlements to rows of tables


def settled(*rows: Row, url: str = "http://a/1", fingerprint: int | None = 1, id: int = 7) -> Settlement:
    verdict: Verdict = Done()
    return Settlement(Lease(1, Task(url, id=id, job="j", fingerprint=fingerprint), 0.0, 0), verdict, (), rows)


def keys(*batch: Settlement, job: str = "j", table: str = "book") -> list[str]:
    return [entry.key for entry in rows_by_table(batch, job)[table].entries]


BOOK = Handler("book", print, key=("upc",))
PLAIN = Handler("book", print)


def test_a_row_knows_its_kind_key_and_time() -> None:
    spider = Spider("s")

    @spider.handler(key=["sku", "seller"], item="offer")
    def page(page: object) -> None: ...

    row = encode_row({"sku": 7, "seller": "x"}, spider.handlers["page"], 12.5)
    assert (row.table, row.by, row.ident, row.at) == ("offer", ("sku", "seller"), '[7,"x"]', 12.5)
    row = encode_row({"upc": "B 1"}, BOOK)
    assert (row.table, row.by, row.ident) == ("book", ("upc",), "B 1")
    assert encode_row({"upc": 12}, BOOK).ident == "12"


def test_rows_without_a_key_are_known_by_page_and_place() -> None:
    rows = [encode_row({"n": n}, PLAIN) for n in range(3)]
    again = keys(settled(*rows))
    assert again == keys(settled(*rows)) == sorted(set(again))
    others = [
        keys(settled(*rows, fingerprint=2)),
        keys(settled(*rows), job="another"),
        keys(settled(*rows, fingerprint=None, id=7)),
        keys(settled(*rows, fingerprint=None, id=8)),
    ]
    assert len({key for one in (again, *others) for key in one}) == 15


def test_a_page_tells_which_keys_it_no_longer_has() -> None:
    many = keys(settled(*[encode_row({"n": n}, PLAIN) for n in range(12)]))
    (extent,) = rows_by_table([settled(encode_row({}, PLAIN, 3.0), encode_row({}, PLAIN, 3.0))], "j")[
        "book"
    ].ranges
    assert [extent.after < key < extent.before for key in many] == [False] * 2 + [True] * 10
    assert extent.at == 3.0
    assert rows_by_table([settled(encode_row({"upc": "1"}, BOOK)), settled()], "j")["book"].ranges == []


def test_characters_that_a_database_cannot_hold_are_left_out() -> None:
    item = {"upc": "a\0b", "t\0": ["x\0y", {"k": "\0"}], "kept": "\\u0000"}
    (entry,) = rows_by_table([settled(encode_row(item, BOOK))], "j")["book"].entries
    assert entry.fields == {"upc": "ab", "t": ["xy", {"k": ""}], "kept": "\\u0000"}
    assert entry.key == "ab"


def test_a_key_fits_into_an_index() -> None:
    long = ["ü" * 5_000, "ü" * 5_001]
    found = keys(*[settled(encode_row({"upc": key}, BOOK)) for key in long])
    assert len(set(found)) == 2
    assert max(len(key.encode()) for key in found) < 1_000


def test_large_loads_come_in_parts() -> None:
    small = rows_by_table([settled(*[encode_row({"n": n}, PLAIN) for n in range(4_500)])], "j")["book"]
    assert [len(part) for part in small.parts()] == [2_000, 2_000, 500]
    large = rows_by_table([settled(*[encode_row({"t": "x" * 5_000_000}, PLAIN)] * 5)], "j")["book"]
    assert [len(part) for part in large.parts()] == [2, 2, 1]


def test_postgresql_has_its_own_columns_for_where_a_row_is_from() -> None:
    meta = MetaWriter(("url", "fetched_at")).page("http://a.test/", 3.0, "j", "book")
    (entry,) = rows_by_table([settled(encode_row({"upc": "1"}, BOOK, meta=meta))], "j")["book"].entries
    assert entry.item == '{"upc":"1"}'  # otherwise it would be another item each time it is seen
