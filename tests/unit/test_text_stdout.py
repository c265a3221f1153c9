"""Text formats on standard output."""

from __future__ import annotations

import csv
import gzip
import json
from xml.etree import ElementTree

import pytest

from shoal.errors import SinkError, UsageError
from shoal.settings import Settings
from shoal.sink.outputs import read_output
from shoal.sink.text.text_outputs import open_text_stream
from written import rows_of

ITEMS: list[object] = [{"n": 1}, {"n": 2}]


def printed(
    capfdbinary: pytest.CaptureFixture[bytes], name: str, *batches: list[object], **settings: object
) -> bytes:
    format, _, compression = name.partition(".")
    journal = open_text_stream(format, compression, {}, Settings(**settings))  # type: ignore[arg-type]
    position = 0
    for batch in batches:
        position = journal.append(position, rows_of(batch))
    journal.close()
    journal.close()
    out = capfdbinary.readouterr().out
    assert position <= len(out)
    return out


def test_json_and_xml_have_an_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert json.loads(printed(capfdbinary, "json", ITEMS[:1], [], ITEMS[1:])) == ITEMS
    assert json.loads(printed(capfdbinary, "json")) == []
    assert json.loads(gzip.decompress(printed(capfdbinary, "json.gz", ITEMS[:1], ITEMS[1:]))) == ITEMS
    root = ElementTree.fromstring(printed(capfdbinary, "xml", ITEMS[:1], ITEMS[1:]))
    assert [item.findtext("n") for item in root] == ["1", "2"]
    assert printed(capfdbinary, "jsonl", ITEMS) == b'{"n":1}\n{"n":2}\n'
    assert printed(capfdbinary, "jsonl") == b""


def test_fields_that_come_after_the_names_are_in_the_last_column(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    out = printed(capfdbinary, "csv", [{"a": 1}], [{"a": 2, "b": [3]}])
    assert list(csv.reader(out.decode().splitlines())) == [["a", "_more"], ["1", ""], ["2", '{"b":[3]}']]


def test_columns_that_are_named_are_all(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    columns = {"": ["b", "a"]}
    assert printed(capfdbinary, "tsv", [{"a": 1}], columns=columns) == b"b\ta\r\n\t1\r\n"
    with pytest.raises(SinkError, match="cannot print the field 'c': it has no column"):
        printed(capfdbinary, "csv", [{"a": 1}], [{"c": 2}], columns=columns)


def test_only_text_can_be_printed() -> None:
    with pytest.raises(UsageError, match="-o -:parquet: parquet cannot be printed; name a file"):
        read_output("-:parquet")
