"""Result files in text formats: complete after every commit, and exactly what was committed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SinkError
from shoal.sink.text.compression import Compression, Gzip, Plain, Zstandard
from shoal.sink.text.formats import Format
from shoal.sink.text.formats.json_array import JsonArray
from shoal.sink.text.formats.jsonl import JsonLinesFormat
from shoal.sink.text.formats.xml import Xml
from shoal.sink.text.text_files import TextFile
from written import rows_of, unpacked

Fields = dict[str, object]
FORMATS: dict[str, type[Format]] = {"jsonl": JsonLinesFormat, "json": JsonArray, "xml": Xml}
COMPRESSIONS: dict[str, type[Compression]] = {"": Plain, "gz": Gzip, "zst": Zstandard}


def read_jsonl(text: bytes) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


def read_json(text: bytes) -> list[object]:
    return list(json.loads(text)) if text else []


def read_xml(text: bytes) -> list[object]:
    """Items of one field, `n`."""
    root = ElementTree.fromstring(text or b"<items/>")
    return [{field.tag: int(field.text or "") for field in item} for item in root]


READERS: dict[str, Callable[[bytes], list[object]]] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "xml": read_xml,
}


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=COMPRESSIONS)
def compression(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(path: Path, format: str, compression: str = "") -> TextFile:
    return TextFile(path, FORMATS[format](), COMPRESSIONS[compression]())


def test_a_file_is_complete_after_every_commit(tmp_path: Path, format: str, compression: str) -> None:
    path, committed, want = tmp_path / "o", 0, []
    journal = make(path, format, compression)
    for numbers in ([1, 2], [3], [], [4, 5, 6]):
        items = [{"n": n} for n in numbers]
        want += items
        committed = journal.append(committed, rows_of(items))
        assert READERS[format](unpacked(path.read_bytes())) == want
    assert [{"n": int(str(row["n"]))} for row in journal.read(committed)] == want
    journal.close()


def test_a_result_without_rows_is_a_complete_file(tmp_path: Path, format: str, compression: str) -> None:
    path = tmp_path / "o"
    journal = make(path, format, compression)
    assert journal.append(0, []) == 0
    assert path.read_bytes() == b""
    journal.finish(0)
    assert READERS[format](unpacked(path.read_bytes())) == []
    assert bool(path.read_bytes()) == (format != "jsonl" or compression != "")
    assert list(journal.read(0)) == []
    committed = journal.append(0, rows_of([{"n": 1}]))  # the job goes on
    assert READERS[format](unpacked(path.read_bytes())) == [{"n": 1}]
    for stale in (0, committed):  # what another process knew when it ended
        journal.finish(stale)
        assert READERS[format](unpacked(path.read_bytes())) == [{"n": 1}]
    journal.close()


@pytest.mark.parametrize("numbers", [[], [4]])
def test_whatever_a_crash_left_beyond_the_position_is_replaced(
    tmp_path: Path, format: str, compression: str, numbers: list[int]
) -> None:
    """For every number of bytes that a killed process can have written."""
    path = tmp_path / "o"
    journal = make(path, format, compression)
    committed = journal.append(0, rows_of([{"n": 1}]))
    start = path.read_bytes()[:committed]
    journal.append(committed, rows_of([{"n": 2}, {"n": 3}]))
    whole = path.read_bytes()
    for length in range(committed, len(whole) + 1):
        for left in (whole[:length], whole[:length] + b"\0" * 30):
            path.write_bytes(left)
            journal.append(committed, rows_of([{"n": n} for n in numbers]))
            data = path.read_bytes()
            assert data.startswith(start)
            assert READERS[format](unpacked(data)) == [{"n": n} for n in [1, *numbers]]
    journal.close()


@settings(deadline=None)  # it syncs to disk
@given(
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from(sorted(COMPRESSIONS)),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.binary(max_size=40))),
)
def test_only_what_is_committed_counts(
    tmp_path_factory: pytest.TempPathFactory,
    format: str,
    compression: str,
    batches: list[tuple[int, bool, bytes]],
) -> None:
    """Two processes in turn; after a batch that was not committed, the file ends with some other bytes."""
    path = tmp_path_factory.mktemp("j") / "o"
    journals = make(path, format, compression), make(path, format, compression)
    committed, want, n = 0, [], 0
    for turn, (count, commits, left) in enumerate(batches):
        items = [{"n": n + i} for i in range(count)]
        n += count
        end = journals[turn % 2].append(committed, rows_of(items))
        if commits:
            committed = end
            want += items
            assert READERS[format](unpacked(path.read_bytes())) == want
        else:
            with path.open("r+b") as file:
                file.seek(min(path.stat().st_size, committed + len(left)))
                file.write(left)
    journals[0].append(committed, [])
    assert READERS[format](unpacked(path.read_bytes())) == want
    assert len(list(journals[1].read(committed))) == len(want)
    for journal in journals:
        journal.close()


def test_a_full_disk_leaves_a_complete_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, compression: str
) -> None:
    whole = os.pwrite
    room = 5

    def full(file: int, data: bytes, at: int) -> int:
        nonlocal room
        if not room:
            room = 1 << 20
            raise OSError(28, os.strerror(28))
        written = whole(file, bytes(data[:room]), at)
        room -= written
        return written

    path = tmp_path / "o"
    journal = make(path, format, compression)
    committed = journal.append(0, rows_of([{"n": 1}]))
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SinkError, match=r"cannot write .*o: No space left on device; nothing is lost"):
        journal.append(committed, rows_of([{"n": 2}]))
    assert READERS[format](unpacked(path.read_bytes())) == [{"n": 1}]
    journal.append(committed, rows_of([{"n": 2}]))
    assert READERS[format](unpacked(path.read_bytes())) == [{"n": 1}, {"n": 2}]
    journal.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=4) | JSON, max_size=4))
def test_json_holds_any_item(items: list[object]) -> None:
    rows = rows_of(items)
    want = [json.loads(row.data) for row in rows]
    array = JsonArray()
    assert json.loads(array.head + array.encode(rows, first=True) + array.tail) == want
    halves = array.encode(rows[:1], first=True) + array.encode(rows[1:], first=not rows[:1])
    assert json.loads(array.head + halves + array.tail) == want


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=4) | JSON, max_size=4))
def test_xml_is_well_formed_whatever_the_items_are(items: list[object]) -> None:
    xml = Xml()
    root = ElementTree.fromstring(xml.head + xml.encode(rows_of(items), first=True) + xml.tail)
    assert [item.tag for item in root] == ["item"] * len(items)
    for item, element in zip(items, root, strict=True):
        if isinstance(item, dict) and all(name.isascii() and name.isalpha() for name in item):
            assert [field.tag for field in element] == list(item)
        if isinstance(item, dict):
            assert len(element) == len(item)


def test_values_in_xml() -> None:
    item = {
        "name": "a < b & c\r\n\0",
        "empty": None,
        "yes": True,
        "price": 1.5,
        "tags": ["x", ["y"]],
        "size": {"w": 1, "two words": 2, "xlink:href": 3, 'a"\n': 4},
    }
    xml = Xml()
    text = xml.encode(rows_of([item]), first=True).decode()
    assert text == (
        "\n<item><name>a &lt; b &amp; c&#13;\n\ufffd</name><empty></empty><yes>true</yes><price>1.5</price>"
        "<tags><value>x</value><value><value>y</value></value></tags>"
        '<size><w>1</w><field name="two words">2</field><field name="xlink:href">3</field>'
        '<field name="a&quot;&#10;">4</field></size></item>'
    )


def test_values_that_are_nested_deeply_are_json_in_xml() -> None:
    deep: object = "x"
    for _ in range(900):
        deep = [deep]
    xml = Xml()
    root = ElementTree.fromstring(xml.head + xml.encode(rows_of([{"deep": deep}]), first=True) + xml.tail)
    inner = root
    while len(inner):
        inner = inner[0]
    assert inner.text is not None
    assert inner.text.startswith("[[[")
