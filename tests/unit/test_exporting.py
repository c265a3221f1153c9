"""Rows into new files: which rows each place takes, and what is said of kinds of which there are none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from shoal.errors import SinkError, UsageError
from shoal.model import Row
from shoal.runtime.export import Export, Reading, takers_of, write_rows
from shoal.settings import Settings
from shoal.sink.exporting import Exporter
from shoal.sink.jsonl import JsonLines
from shoal.sink.outputs import Place, read_output
from shoal.sink.reading import ItemRow

KNOWN = [("book", {"n": 1}), ("shop", {"n": 2}), ("book", {"n": 3})]


class Source(Struct, frozen=True):
    found: Sequence[ItemRow]
    place: Place

    def rows(self) -> Iterator[ItemRow]:
        yield from self.found


def export_of(
    folder: Path, rows: Sequence[ItemRow], *output: str, item: str = "", rest: bool = False, **known: Any
) -> Export:
    places = [
        place
        for one in output
        for place in read_output(one.replace("=", f"={folder}/") if "=" in one else one)
    ]
    source = Source(rows, Place("file", "rows.jsonl", is_rest=rest))
    return Export("shop", (Reading((source,), tuple(takers_of(places, item))),), rows=len(rows), **known)


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_each_place_gets_what_it_takes(tmp_path: Path) -> None:
    export = export_of(
        tmp_path, KNOWN, "book=b.jsonl", f"{tmp_path}/all.jsonl", f"{tmp_path}/{{item}}.jsonl", least=3
    )
    written = write_rows(export, Settings())
    assert numbers(tmp_path / "b.jsonl") == numbers(tmp_path / "book.jsonl") == [1, 3]
    assert numbers(tmp_path / "shop.jsonl") == [2]
    assert numbers(tmp_path / "all.jsonl") == [1, 2, 3]
    assert (written.empty, written.unsaid) == ((), ())


def test_an_item_option_is_for_all_places(tmp_path: Path) -> None:
    export = export_of(tmp_path, KNOWN, f"{tmp_path}/a.jsonl", "shop=b.jsonl", item="shop")
    write_rows(export, Settings())
    assert numbers(tmp_path / "a.jsonl") == numbers(tmp_path / "b.jsonl") == [2]
    with pytest.raises(UsageError, match="nothing would be there with --item shop"):
        export_of(tmp_path, KNOWN, "book=b.jsonl", item="shop")


@pytest.mark.parametrize(
    ("known", "refused"),
    [
        ({}, True),
        ({"handlers": frozenset({"book", "shop", "boks"})}, False),  # it has made no row
        (
            {"handlers": frozenset({"boks", "shop"})},
            True,
        ),  # book is an item=, so boks may be one that makes them
        ({"kinds": frozenset({"boks"})}, False),  # an output is for it
    ],
)
def test_a_kind_without_rows_is_refused_if_nobody_knows_it(
    tmp_path: Path, known: dict[str, Any], refused: bool
) -> None:
    export = export_of(tmp_path, KNOWN, "boks=b.csv", "book=c.csv", **known)
    if not refused:
        written = write_rows(export, Settings())
        assert (written.empty, (tmp_path / "b.csv").exists()) == (("boks",), True)
        return
    said = r"^-o boks=.*b\.csv: job shop has 3 rows, none of them of the kind boks: .* did you mean book\?"
    with pytest.raises(UsageError, match=said):
        write_rows(export, Settings())
    assert not list(tmp_path.iterdir())


def test_a_job_without_rows_makes_files_without_rows(tmp_path: Path) -> None:
    write_rows(export_of(tmp_path, [], "book=b.jsonl"), Settings())
    assert numbers(tmp_path / "b.jsonl") == []


@pytest.mark.parametrize("rest", [False, True])
@pytest.mark.parametrize("output", ["book=b.jsonl", "x={item}.jsonl"])
def test_rows_that_do_not_say_their_kind_are_refused(tmp_path: Path, output: str, rest: bool) -> None:
    output = output.replace("x=", f"{tmp_path}/")
    export = export_of(tmp_path, [("book", {"n": 1}), ("", {"n": 2})], output, rest=rest)
    if rest and "{" in output:  # what other outputs did not take is in a file of its own
        assert write_rows(export, Settings()).unsaid == ("rows.jsonl",)
        assert (numbers(tmp_path / "book.jsonl"), numbers(tmp_path / "rows.jsonl")) == ([1], [2])
        return
    with pytest.raises(UsageError, match=r"^-o .*: the rows in rows\.jsonl do not say which kind of item"):
        write_rows(export, Settings())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("latest", [False, True])
def test_the_key_of_one_kind_is_not_that_of_another(tmp_path: Path, latest: bool) -> None:
    rows = [(kind, {"id": 1, "n": n}) for n, kind in enumerate(("book", "shop", "book"))]
    export = export_of(tmp_path, rows, f"{tmp_path}/{{item}}.jsonl")
    write_rows(export, Settings(), key=["id"], latest=latest)
    assert (numbers(tmp_path / "book.jsonl"), numbers(tmp_path / "shop.jsonl")) == ([2 if latest else 0], [1])


def test_messages_name_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: JsonLines, committed: int, rows: Sequence[Row]) -> int:
        raise SinkError(f"cannot write {self.path}: no space")

    monkeypatch.setattr(JsonLines, "write", full)
    path = tmp_path / "all.jsonl"
    exporter = Exporter(read_output(str(path)), Settings())
    exporter.add("book", {"n": 1})
    with pytest.raises(SinkError, match=rf"^cannot write {path}: no space$"):
        exporter.finish()
    exporter.discard()


def test_fields_without_a_column_are_told_with_the_name_of_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "all.csv"
    exporter = Exporter(read_output(str(path)), Settings())
    exporter.add("book", {f"field {n}": n for n in range(2_000)})
    exporter.finish()
    exporter.discard()
    assert f"{path}: the field" in caplog.text
    assert "shoal-export" not in caplog.text
