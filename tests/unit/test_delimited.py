"""CSV and TSV: the same number of cells in every row, new columns for new fields, and exactly what was committed."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.text import delimited_files
from shoal.sink.text.compression import Compression, Gzip, Plain, Zstandard
from shoal.sink.text.delimited_files import DelimitedFile
from shoal.sink.text.formats.delimited import MORE, Delimited
from written import rows_of, unpacked

Fields = dict[str, object]
COMPRESSIONS: dict[str, type[Compression]] = {"": Plain, "gz": Gzip, "zst": Zstandard}


@pytest.fixture(params=COMPRESSIONS)
def compression(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(path: Path, compression: str = "", first: Sequence[str] = (), **options: Any) -> DelimitedFile:
    return DelimitedFile(path, Delimited(**options), COMPRESSIONS[compression](), given={"": first})


def read(path: Path) -> list[Fields]:
    """The rows without empty cells, by the reader of the standard library."""
    text = unpacked(path.read_bytes()).decode()
    if not text:
        return []
    names, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert len(set(names)) == len(names)
    assert {len(line) for line in lines} <= {len(names)}
    rows = []
    for line in lines:
        row: Fields = {name: cell for name, cell in zip(names, line, strict=True) if cell}
        rows.append(row | as_cells(json.loads(str(row.pop(MORE, "{}")))))
    return rows


def cell(value: object) -> str:
    """What a value is as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def as_cells(item: Fields) -> Fields:
    return {name: text for name, value in item.items() if (text := cell(value))}


def test_values_are_text_or_json(tmp_path: Path) -> None:
    item = {
        "text": 'a "b", c\r\nd',
        "none": None,
        "yes": True,
        "n": -3,
        "price": 1.5,
        "list": [1, "x"],
        "of": {"a": "b"},
    }
    journal = make(tmp_path / "o.csv")
    journal.append(0, rows_of([item]))
    assert (tmp_path / "o.csv").read_bytes() == (
        b'text,none,yes,n,price,list,of\r\n"a ""b"", c\r\nd",,true,-3,1.5,"[1,""x""]","{""a"":""b""}"\r\n'
    )
    journal.close()


def test_the_first_columns_can_be_given(tmp_path: Path) -> None:
    journal = make(tmp_path / "o.csv", first=["b", "c"], delimiter="\t", bom=True)
    journal.finish(0)
    assert (tmp_path / "o.csv").read_bytes() == b"\xef\xbb\xbfb\tc\r\n"
    committed = journal.append(0, rows_of([{"a": 1, "b": 2}]))
    assert (tmp_path / "o.csv").read_bytes() == b"\xef\xbb\xbfb\tc\ta\r\n2\t\t1\r\n"
    committed = journal.append(committed, rows_of([{"d": 3}]))
    journal.finish(committed)
    assert (tmp_path / "o.csv").read_bytes() == b"\xef\xbb\xbfb\tc\ta\td\r\n2\t\t1\t\r\n\t\t\t3\r\n"
    journal.close()


def test_the_columns_of_a_kind_of_item_come_with_its_first_row(tmp_path: Path) -> None:
    journal = DelimitedFile(
        tmp_path / "o.csv", Delimited(), given={"book": ["a", "b"], "review": ["b", "c", "d"]}
    )
    journal.finish(0)
    assert (tmp_path / "o.csv").read_bytes() == b"a,b,c,d\r\n"
    committed = journal.append(0, [Row(b'{"b":1}\n', table="book")])
    assert (tmp_path / "o.csv").read_bytes() == b"a,b\r\n,1\r\n"
    committed = journal.append(committed, [Row(b'{"d":2}\n', table="review")])
    journal.finish(committed)
    assert (tmp_path / "o.csv").read_bytes() == b"a,b,c,d\r\n,1,,\r\n,,,2\r\n"
    journal.close()


def test_a_new_field_makes_a_column_once_it_is_committed(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "o.csv"
    one, two = make(path, compression), make(path, compression)
    first = one.append(0, rows_of([{"a": 'x"\r\n"'}, {"a": "\r\n"}]))
    path.chmod(0o640)
    second = one.append(first, rows_of([{"a": "y", "b": "z"}]))
    assert second > first
    assert read(path) == [{"a": 'x"\r\n"'}, {"a": "\r\n"}]  # not yet
    third = two.append(second, rows_of([{"b": "zz"}]))
    want: list[Fields] = [{"a": 'x"\r\n"'}, {"a": "\r\n"}, {"a": "y", "b": "z"}, {"b": "zz"}]
    assert read(path) == want
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(one.read(third)) == want
    fourth = one.append(third, rows_of([{"a": "1"}]))  # which has another file open
    one.finish(fourth)
    assert read(path) == [*want, {"a": "1"}]
    kept = tmp_path / ".o.csv.1-columns"
    assert set(tmp_path.iterdir()) == {path, kept}
    os.utime(kept, (0, 0))
    one.finish(fourth)
    assert set(tmp_path.iterdir()) == {path}
    one.close()
    two.close()


def test_the_end_of_a_process_that_knows_little_changes_nothing(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "o.csv"
    one, two = make(path, compression), make(path, compression)
    positions = [0]
    for item in ({"a": "1"}, {"b": "2"}, {"b": "3"}):
        positions.append(one.append(positions[-1], rows_of([item])))
        for position in positions:
            two.finish(position)
    assert read(path) == [{"a": "1"}, {"b": "2"}, {"b": "3"}]
    one.close()
    two.close()


def test_the_store_may_go_back_to_before_a_column(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "o.csv"
    journal = make(path, compression)
    first = journal.append(0, rows_of([{"a": "1"}]))
    second = journal.append(first, rows_of([{"b": "2"}]))
    third = journal.append(second, rows_of([{"c": "3"}]))
    journal.finish(third)
    assert read(path) == [{"a": "1"}, {"b": "2"}, {"c": "3"}]
    other = journal.append(first, rows_of([{"d": "4"}]))
    journal.append(other, rows_of([{"d": "5"}]))
    assert read(path) == [{"a": "1"}, {"d": "4"}, {"d": "5"}]
    journal.close()


NAMES = st.sampled_from(["a", "b", "c", "d", "e", MORE, "=f", "'=f", ""])
ITEMS = st.dictionaries(
    NAMES, st.text(max_size=4) | st.integers() | st.none() | st.lists(st.text(max_size=2), max_size=2)
)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(sorted(COMPRESSIONS)),
    st.integers(0, 3),
    st.lists(
        st.tuples(
            st.lists(ITEMS, max_size=3), st.sampled_from(["commit", "lose", "again"]), st.binary(max_size=9)
        )
    ),
)
def test_only_what_is_committed_counts(
    tmp_path_factory: pytest.TempPathFactory,
    compression: str,
    free: int,
    batches: list[tuple[list[Fields], str, bytes]],
) -> None:
    """Two processes in turn. What is not committed is lost, with other bytes at the end of the files, or done again by
    the other process with the same position; and the file may be copied rarely or often."""
    path = tmp_path_factory.mktemp("j") / "o.csv"
    journals = make(path, compression), make(path, compression)
    committed, want = 0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited_files, "_FREE", free * 100)
        for turn, (items, outcome, left) in enumerate(batches):
            position = journals[turn % 2].append(committed, rows_of(items))
            if outcome == "again":
                position = journals[1 - turn % 2].append(committed, rows_of(items))
            if outcome == "lose":
                for file in path.parent.iterdir():
                    with file.open("ab") as damaged:
                        damaged.write(left)
                continue
            assert position >= committed
            committed = position
            want += [as_cells(item) for item in items]
            journals[0].check(committed)
        journals[1].append(committed, [])
        assert read(path) == want
        assert [as_cells(row) for row in journals[0].read(committed)] == want
        journals[0].finish(committed)
        assert read(path) == want
    for journal in journals:
        journal.close()


@settings(deadline=None)
@given(st.data())
def test_a_copy_that_was_cut_anywhere_is_made_again(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    compression = data.draw(st.sampled_from(sorted(COMPRESSIONS)))
    path = tmp_path_factory.mktemp("j") / "o.csv"
    wider = path.with_name(".o.csv.2-columns")
    journal = make(path, compression)
    committed = journal.append(0, rows_of([{"a": "1"}, {"a": 'x"\r\n'}]))
    journal.append(committed, rows_of([{"b": "2"}]))
    whole = wider.read_bytes()
    wider.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    again = make(path, compression)
    committed = again.append(committed, rows_of([{"c": "3"}]))
    again.append(committed, [])
    assert read(path) == [{"a": "1"}, {"a": 'x"\r\n'}, {"c": "3"}]
    journal.close()
    again.close()


@given(st.lists(st.lists(st.text('ab",\r\n'), min_size=2, max_size=3)), st.integers(1, 5), st.integers(1, 3))
def test_lines_are_widened_however_they_are_cut(rows: list[list[str]], size: int, by: int) -> None:
    rows = [row[:2] for row in rows]
    format = Delimited()
    data = format.encode([{"x": x, "y": y} for x, y in rows], ["x", "y"])
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    wider = b"".join(format.widened(chunks, by)).decode()
    assert list(csv.reader(io.StringIO(wider, newline=""), strict=True)) == [row + [""] * by for row in rows]


def test_endless_new_fields_copy_the_file_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row brings a field that no row had."""
    copied = 0
    widen = DelimitedFile._widen

    def counted(self: DelimitedFile, length: int, *rest: Any) -> int:
        nonlocal copied
        copied += length
        return widen(self, length, *rest)

    monkeypatch.setattr(DelimitedFile, "_widen", counted)
    monkeypatch.setattr(delimited_files, "_FREE", 20_000)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr("shoal.sink.text.committed_file.sync", lambda _: None)
    journal, committed = make(tmp_path / "o.csv"), 0
    for n in range(1_000):
        committed = journal.append(committed, rows_of([{"id": n, f"field {n}": "x" * 50}]))
    journal.finish(committed)
    rows = read(tmp_path / "o.csv")
    assert rows == [{"id": str(n), f"field {n}": "x" * 50} for n in range(1_000)]
    assert copied < 6 * (tmp_path / "o.csv").stat().st_size + 20_000 * 7
    journal.close()


def test_there_are_500_columns_at_most(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "o.csv"
    journal = make(path)
    item: Fields = {f"f{n}": n for n in range(2_000)}
    committed = journal.append(0, rows_of([item]))
    committed = journal.append(committed, rows_of([{"n" * 300: 1, "late": 2}]))
    journal.finish(committed)
    names = path.read_bytes().partition(b"\r\n")[0].split(b",")
    assert len(names) == 501
    assert read(path) == [as_cells(item), {"n" * 300: "1", "late": "2"}]
    assert caplog.text.count("have no column of their own") == 1
    assert "'f500'" in caplog.text
    journal.close()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+49 1", "'+49 1"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("-1.20", "-1.20"),
        (-5, "-5"),
        (-1.5e-9, "-1.5e-9"),
        ("a=b", "a=b"),
        (["=1"], '["=1"]'),
        ("'=1", "'=1"),
    ],
)
def test_formulas_are_made_text_on_request(value: object, written: str) -> None:
    [line] = csv.reader([Delimited(escape_formulas=True).encode([{"x": value}], ["x"]).decode()])
    assert line == [written]
    [line] = csv.reader([Delimited().encode([{"x": value}], ["x"]).decode()])
    assert line == [cell(value)]


def test_names_of_columns_are_no_formulas_either(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    journal = make(path, escape_formulas=True)
    committed = 0
    for _ in range(2):
        committed = journal.append(committed, rows_of([{"=x": 1, "'=x": 2, "y": 3}]))
    assert read(path) == [{"'=x": "1", "''=x": "2", "y": "3"}] * 2
    journal.close()


def test_a_file_that_was_changed_or_removed_is_told(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "o.csv"
    journal = make(path, compression)
    committed = journal.append(0, rows_of([{"a": "1"}]))
    for harm in (
        b"",
        b"\x28\xb5\x2f\xfd" + b"x" * 100,
        b"\x1f\x8b" + b"y" * 100,
        b"a,b\r\n" + b"1,2\r\n" * 50,
        None,
    ):
        if harm is None:
            path.unlink()
        else:
            path.write_bytes(harm)
        for act in (journal.check, lambda at: journal.append(at, []), lambda at: list(journal.read(at))):
            with pytest.raises(SinkError, match=r"o.csv does not hold .*restore it or start again"):
                act(committed)
    journal.close()


def test_a_full_disk_while_a_column_is_added_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    path = tmp_path / "o.csv"
    journal = make(path)
    committed = journal.append(0, rows_of([{"a": "1"}]))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SinkError, match=r"cannot write .*o.csv: No space left on device; nothing is lost"):
        journal.append(committed, rows_of([{"b": "2"}]))
    assert not path.with_name(".o.csv.2-columns").exists()
    monkeypatch.undo()
    committed = journal.append(committed, rows_of([{"b": "2"}]))
    journal.finish(committed)
    assert read(path) == [{"a": "1"}, {"b": "2"}]
    journal.close()


def test_a_folder_that_cannot_be_written_when_a_column_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    journal = make(tmp_path / "o.csv")
    committed = journal.append(0, rows_of([{"a": "1"}]))
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(
        SinkError, match=r"o.csv: Permission denied \(.o.csv.2-columns beside it\); nothing is lost"
    ):
        journal.append(committed, rows_of([{"b": "2"}]))
    journal.close()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "o.csv").symlink_to("real/rows.csv")
    journal = make(tmp_path / "o.csv")
    committed = journal.append(0, rows_of([{"a": "1"}]))
    committed = journal.append(committed, rows_of([{"b": "2"}]))
    journal.finish(committed)
    assert (tmp_path / "o.csv").is_symlink()
    assert read(tmp_path / "real" / "rows.csv") == [{"a": "1"}, {"b": "2"}]
    journal.close()


def test_types_are_read_as_the_schema_says(tmp_path: Path) -> None:
    journal = DelimitedFile(tmp_path / "o.csv", Delimited(), types={"n": int, "tags": list[str], "zip": str})
    item = {"n": 5, "tags": ["a"], "zip": "01234", "other": 7}
    committed = journal.append(0, rows_of([item]))
    assert list(journal.read(committed)) == [item | {"other": "7"}]
    journal.close()
