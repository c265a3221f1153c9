"""Rows: encoded, keyed, and written exactly once."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.items import ItemRejected
from shoal.sink.jsonl import JsonLines, MemoryJournal, describe_existing, encode_row
from shoal.spider.spider import Handler


@dataclass
class Book:
    upc: str
    at: datetime


class Price(msgspec.Struct):
    upc: str
    amount: Decimal


PLAIN = Handler("book", print)
KEYED = Handler("book", print, key=("upc",))


def test_items_of_every_kind_become_one_line() -> None:
    at = datetime(2024, 1, 2, tzinfo=UTC)
    assert (
        encode_row({"a": {1}, "b": b"\0", "c": "x\ny"}, PLAIN).data == b'{"a":[1],"b":"AA==","c":"x\\ny"}\n'
    )
    assert json.loads(encode_row(Book("u", at), PLAIN).data) == {"upc": "u", "at": "2024-01-02T00:00:00Z"}
    assert json.loads(encode_row(Price("u", Decimal("1.20")), PLAIN).data) == {"upc": "u", "amount": "1.20"}


@pytest.mark.parametrize("value", [object(), "\ud800", [print]])
def test_an_item_that_is_not_json_names_the_field_and_its_type(value: object) -> None:
    with pytest.raises(ItemRejected, match=rf"not JSON: field 'b' is of type {type(value).__name__}"):
        encode_row({"a": 1, "b": value}, PLAIN)


def test_an_item_that_holds_itself_is_an_error() -> None:
    item: dict[str, object] = {}
    item["me"] = item
    with pytest.raises(ItemRejected, match="not JSON: field 'me'"):
        encode_row(item, PLAIN)


def test_equal_keys_give_equal_hashes_whatever_the_item_is() -> None:
    key = encode_row({"upc": "u", "n": 1}, KEYED).key
    assert key == encode_row({"upc": "u", "n": 2}, KEYED).key == encode_row(Price("u", Decimal(1)), KEYED).key
    assert key is not None
    assert 0 <= key < 1 << 63
    assert key != encode_row({"upc": "v"}, KEYED).key
    assert key != encode_row({"upc": "u"}, Handler("other", print, key=("upc",))).key
    assert encode_row({"upc": "u"}, PLAIN).key is None
    pair = Handler("book", print, key=("a", "b"))
    assert encode_row({"a": "xy", "b": "z"}, pair).key != encode_row({"a": "x", "b": "yz"}, pair).key


def test_a_key_is_the_same_in_every_process() -> None:
    assert encode_row({"upc": "u"}, KEYED).key == 3014098736702851891


@pytest.mark.parametrize(
    ("item", "says"), [({}, "missing"), ({"upc": None}, "empty"), ({"upc": ""}, "empty")]
)
def test_a_missing_key_is_an_error(item: dict[str, object], says: str) -> None:
    with pytest.raises(ItemRejected, match=f"its key field 'upc' is {says}"):
        encode_row(item, KEYED)


def test_rows_are_written_at_the_committed_length_and_what_a_crash_left_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = JsonLines(path)
    assert not path.exists()
    committed = sink.append(0, [Row(b"1\n"), Row(b"2\n")])
    sink.append(committed, [Row(b"lost, because never committed\n")])
    sink.close()

    again = JsonLines(path)
    assert again.key == str(path)
    assert again.append(committed, [Row(b"3\n")]) == 6
    assert path.read_bytes() == b"1\n2\n3\n"
    path.write_bytes(b"1\n2\n3\n and more")
    assert again.append(6, []) == 6
    assert path.read_bytes() == b"1\n2\n3\n"
    again.close()
    again.close()


def test_two_writers_in_turn_share_a_file(tmp_path: Path) -> None:
    one, two = JsonLines(tmp_path / "o"), JsonLines(tmp_path / "o")
    length = one.append(0, [Row(b"1\n")])
    length = two.append(length, [Row(b"2\n")])
    length = one.append(length, [Row(b"3\n")])
    assert (tmp_path / "o").read_bytes() == b"1\n2\n3\n"
    one.close()
    two.close()


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b"1"), os.unlink])
@pytest.mark.parametrize("reopen", [False, True])
def test_a_file_that_was_changed_or_removed_is_told(
    tmp_path: Path, harm: Callable[[Path], object], reopen: bool
) -> None:
    path = tmp_path / "o.jsonl"
    sink = JsonLines(path)
    committed = sink.append(0, [Row(b"123\n")])
    if reopen:
        sink.close()
    harm(path)
    with pytest.raises(
        SinkError, match=r"o.jsonl is shorter .*\(4 bytes\).*restore it or start again with --fresh"
    ):
        sink.append(committed, [Row(b"4\n")])
    sink.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_full_or_broken_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    sink = JsonLines(tmp_path / "o")
    sink.append(0, [Row(b"1\n")])
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(SinkError, match=rf"cannot write .*{os.strerror(code)}.*run again") as caught:
        sink.append(2, [Row(b"2\n")])
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert sink.append(2, [Row(b"2\n")]) == 4
    sink.close()


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="No such file or directory"):
        JsonLines(tmp_path / "no" / "o").append(0, [Row(b"1\n")])
    with pytest.raises(SinkError, match="not a regular file"):
        JsonLines(Path(os.devnull)).append(0, [Row(b"1\n")])


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: whole(fd, bytes(data[:3]), at))
    sink = JsonLines(tmp_path / "o")
    assert sink.append(0, [Row(b"12345\n"), Row(b"67\n")]) == 9
    assert (tmp_path / "o").read_bytes() == b"12345\n67\n"
    sink.close()


@settings(deadline=None)  # it syncs to disk
@given(st.lists(st.tuples(st.lists(st.binary(max_size=5), max_size=4), st.booleans())))
def test_memory_and_file_agree_through_crashes(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[bytes], bool]]
) -> None:
    path = tmp_path_factory.mktemp("j") / "o"
    file, memory = JsonLines(path), MemoryJournal()
    committed = 0
    for data, commits in batches:
        rows = [Row(one) for one in data]
        length = file.append(committed, rows)
        assert memory.append(committed, rows) == length
        committed = length if commits else committed
    file.append(committed, [])
    memory.append(committed, [])
    assert b"".join(memory.rows) == path.read_bytes()
    assert path.stat().st_size == committed
    file.close()


def test_a_resumed_job_gives_this_runs_rows() -> None:
    journal = MemoryJournal()
    assert journal.append(5, [Row(b"x"), Row(b"yy")]) == 8
    assert journal.append(6, [Row(b"z")]) == 7
    assert journal.rows == [b"x", b"z"]


def test_describe_existing(tmp_path: Path) -> None:
    path = tmp_path / "o"
    assert describe_existing(path) is None
    path.touch()
    assert describe_existing(path) is None
    path.write_bytes(b"x" * 1234)
    assert describe_existing(path) == f"{path} already holds 1,234 bytes"


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "value",
    [
        NAN,
        INF,
        -INF,
        Decimal("NaN"),
        Decimal("-Infinity"),
        [1, NAN],
        {"a": {"b": (INF,)}},
        {NAN},
        Price("1", Decimal("sNaN")),
    ],
)
def test_a_key_that_is_no_number_is_an_error(value: object) -> None:
    with pytest.raises(ItemRejected, match="its key field 'upc' is or holds a number that is not finite"):
        encode_row({"upc": value}, KEYED)


@pytest.mark.parametrize("value", [None, "", b"", [], {}, (), set()])
def test_a_key_that_is_empty_is_an_error(value: object) -> None:
    with pytest.raises(ItemRejected, match="its key field 'upc' is empty"):
        encode_row({"upc": value}, KEYED)


def test_a_key_is_the_same_whatever_order_it_was_made_in() -> None:
    one, two = {"a": 1, "b": {"y", "x"}}, {"b": {"x", "y"}, "a": 1}
    first, second = encode_row({"upc": one}, KEYED), encode_row({"upc": two}, KEYED)
    assert (first.key, first.ident) == (second.key, second.ident)
    assert first.ident == '{"a":1,"b":["x","y"]}'


def test_a_value_that_is_no_number_is_no_error() -> None:
    assert encode_row({"upc": 1, "price": NAN}, KEYED).data == b'{"upc":1,"price":null}\n'
