"""Several outputs that grow together, through crashes at any point."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Page, Spider
from shoal.errors import OutputTaken, SettingsError, SinkError, UsageError
from shoal.model import Row
from shoal.runtime.job_plan import JobPlan, check_parts, without_effect
from shoal.settings import Settings
from shoal.sink import describe, make_journal, output_key
from shoal.sink.journals import LocalJournal, Several, take
from shoal.sink.jsonl import JsonLines
from shoal.sink.outputs import expand, read_output, split_suffixes, with_archive, with_rest
from shoal.sink.ownership import FileClaim, Owner
from shoal.spider.default import summary_spider


def journal_of(folder: Path, *output: str) -> Several:
    named = [replaced(folder, text) for text in output]
    journal = make_journal(named, job="j")
    assert isinstance(journal, Several)
    journal.owner = Owner("j", 1.0)
    return journal


def replaced(folder: Path, text: str) -> str:
    item, equals, path = text.rpartition("=")
    return f"{item}{equals}{folder / path}"


def rows(*items: tuple[str, int]) -> list[Row]:
    return [Row(msgspec.json.encode(number) + b"\n", table=table) for table, number in items]


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_rows_go_where_their_kind_belongs_and_the_rest_is_not_lost(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "a=a.jsonl", "b=b.jsonl")
    journal.append(0, rows(("a", 1), ("b", 2), ("c", 3), ("a", 4)))
    assert numbers(tmp_path / "a.jsonl") == [1, 4]
    assert numbers(tmp_path / "b.jsonl") == [2]
    assert numbers(tmp_path / "j.jsonl") == [3]
    journal.close()


def test_a_file_for_each_kind(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "{item}.jsonl", "all.jsonl")
    end = journal.append(0, rows(("a", 1), ("b/c", 2)))
    journal.append(end, rows(("a", 3)))
    assert numbers(tmp_path / "a.jsonl") == [1, 3]
    assert numbers(tmp_path / "b-c.jsonl") == [2]
    assert numbers(tmp_path / "all.jsonl") == [1, 2, 3]
    journal.close()


BATCHES = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4), st.sampled_from(["commits", "lost", "dies"])
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)  # it syncs to disk
@given(BATCHES)
def test_what_is_committed_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[str], str]]
) -> None:
    folder = tmp_path_factory.mktemp("j")
    committed, expected, number = 0, list[tuple[str, int]](), 0
    journal = journal_of(folder, "a=a.jsonl", "{item}-each.jsonl", "all.jsonl")
    for tables, fate in batches:
        batch = [(table, number := number + 1) for table in tables]
        end = journal.append(committed, rows(*batch))
        if fate == "commits":
            committed, expected = end, expected + batch
        if fate == "dies":
            journal.close()
            journal = journal_of(folder, "a=a.jsonl", "{item}-each.jsonl", "all.jsonl")
    journal.append(committed, ())
    for name, kinds in [("a", "a"), ("all", "abc"), *((f"{kind}-each", kind) for kind in "abc")]:
        assert numbers(folder / f"{name}.jsonl") == [n for table, n in expected if table in kinds], name
    journal.close()


def test_the_same_files_by_another_name_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = make_journal(["a=a.jsonl", "all.jsonl"], job="j")
    assert isinstance(journal, Several)
    end, log = journal.append(0, rows(("a", 1))), os.path.realpath(journal.path)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    again = make_journal([f"a={tmp_path}/a.jsonl", "../all.jsonl"], job="j")
    assert isinstance(again, Several)
    assert os.path.realpath(again.path) == log
    again.append(end, rows(("a", 2)))
    assert numbers(tmp_path / "a.jsonl") == numbers(tmp_path / "all.jsonl") == [1, 2]


def test_a_log_that_was_lost_is_told(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "a=a.jsonl", "all.jsonl")
    end = journal.append(0, rows(("a", 1)))
    (tmp_path / ".j.commits").write_bytes(b"")
    with pytest.raises(SinkError, match="--fresh"):
        journal_of(tmp_path, "a=a.jsonl", "all.jsonl").append(end, rows(("a", 2)))
    assert numbers(tmp_path / "all.jsonl") == [1]


def test_a_file_of_another_job_is_not_taken_when_its_kind_comes(tmp_path: Path) -> None:
    other = JsonLines(tmp_path / "a.jsonl")
    take(other, FileClaim(Owner("other", 1.0)))
    other.append(0, rows(("a", 1)))
    journal = journal_of(tmp_path, "{item}.jsonl")
    with pytest.raises(OutputTaken, match="belongs to another job"):
        journal.append(0, rows(("a", 2)))
    assert numbers(tmp_path / "a.jsonl") == [1]


def test_a_single_file_needs_no_log(tmp_path: Path) -> None:
    journal = make_journal(tmp_path / "rows.jsonl", job="j")
    assert isinstance(journal, LocalJournal)
    assert isinstance(journal, JsonLines)


# -- names of outputs


@pytest.mark.parametrize(
    ("text", "kind", "target", "item", "format"),
    [
        ("rows.jsonl", "file", "rows.jsonl", "", "jsonl"),
        ("ROWS.JSONL", "file", "ROWS.JSONL", "", "jsonl"),
        ("a/x=1.jsonl", "file", "a/x=1.jsonl", "", "jsonl"),
        ("products=p.jsonl", "file", "p.jsonl", "products", "jsonl"),
        ("rows.dat:jsonl", "file", "rows.dat", "", "jsonl"),
        ("-", "stdout", "-", "", "jsonl"),
        ("-:jsonl", "stdout", "-", "", "jsonl"),
        ("p=postgresql://h/d?history=1", "database", "postgresql://h/d?history=1", "p", "postgresql"),
        ("s3://bucket/a/rows.jsonl", "objects", "s3://bucket/a/rows.jsonl", "", "jsonl"),
    ],
)
def test_what_a_name_means(text: str, kind: str, target: str, item: str, format: str) -> None:
    [place] = read_output(text)
    assert (place.kind, place.target, place.item, place.format) == (kind, target, item, format)
    assert read_output(place.text) == (place,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rows.cvs", "no format has the suffix '.cvs'"),
        ("rows", "it has no suffix"),
        ("ftp://h/rows.jsonl", "no results of kind 'ftp'"),
        ("{jab}.jsonl", "{jab} is not known"),
        ("a\nb.jsonl", "without line breaks"),
    ],
)
def test_what_it_cannot_mean(text: str, says: str) -> None:
    with pytest.raises(UsageError) as told:
        read_output(text)
    assert says in str(told.value)
    assert "\n" not in str(told.value)


def test_templates() -> None:
    assert expand(["{job}-{date}.jsonl", "{item}.jsonl"], "a/b", "2026-11-16") == (
        "a-b-2026-11-16.jsonl",
        "{item}.jsonl",
    )
    with pytest.raises(UsageError, match="the same place"):
        expand(["a.jsonl", "a.jsonl"], "j")
    assert split_suffixes("books.jsonl") == ("books", ".jsonl")


def test_what_a_job_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output: Sequence[str] = ["p=a.jsonl", "postgresql://me:secret@h/d", "-"]
    assert output_key(output).decode() == f"p={tmp_path}/a.jsonl\npostgresql://me@h/d"
    assert describe(output) == "p=a.jsonl, postgresql://h/d, stdout"


def test_another_process_writes_a_line_of_the_same_length(tmp_path: Path) -> None:
    """One wrote and could not commit, because the other had its turn since."""
    mine, theirs = (journal_of(tmp_path, "a=a.jsonl", "b=b.jsonl") for _ in range(2))
    begun = mine.append(0, rows(("a", 1), ("b", 1)))
    lost = mine.append(begun, rows(("a", 2)))
    committed = theirs.append(begun, rows(("b", 3)))
    assert lost == committed
    mine.append(committed, rows(("a", 4), ("b", 5)))
    assert numbers(tmp_path / "a.jsonl") == [1, 4]
    assert numbers(tmp_path / "b.jsonl") == [1, 3, 5]
    mine.close()
    theirs.close()


def test_a_log_that_was_cut_is_told(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "a=a.jsonl", "b=b.jsonl")
    first = journal.append(0, rows(("a", 1)))
    second = journal.append(first, rows(("b", 2)))
    os.truncate(journal.path, first)
    with pytest.raises(SinkError, match="does not say how far"):
        journal.append(second, rows(("b", 3)))
    journal.close()


def test_folders_are_made(tmp_path: Path) -> None:
    journal = make_journal([str(tmp_path / "j" / "{item}" / "rows.jsonl")], job="j")
    assert journal is not None
    journal.append(0, rows(("a", 1)))
    assert numbers(tmp_path / "j" / "a" / "rows.jsonl") == [1]
    assert (tmp_path / "j" / ".j.commits").exists()


@pytest.mark.parametrize(
    "output",
    [
        ["a.jsonl", "a.jsonl"],
        ["a.jsonl", "./a.jsonl"],
        ["a=x.jsonl", "b=x.jsonl"],
        ["x.jsonl", "b=x.jsonl"],
        ["{item}.jsonl", "a={item}.jsonl"],
        ["-", "a=-"],
    ],
)
def test_two_outputs_that_are_one_file_are_refused(output: list[str]) -> None:
    with pytest.raises(UsageError, match="same"):
        expand(output, "j")


def test_outputs_that_are_apart() -> None:
    for output in (["a/x.jsonl", "b/x.jsonl"], ["{item}.jsonl", "all.jsonl"]):
        assert expand(output, "j") == tuple(output)


def test_the_rest_has_a_file_of_its_own() -> None:
    [_, rest] = with_rest(read_output(["a=j.jsonl"]), "j")
    assert rest.path == Path("j-other.jsonl")


def test_a_kind_of_item_with_the_name_of_another_output(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "{item}.jsonl", "all.jsonl")
    end = journal.append(0, rows(("a", 1)))
    journal.append(end, rows(("all", 2), ("a", 3)))
    assert numbers(tmp_path / "all.jsonl") == [1, 2, 3]
    journal.close()


def test_a_kind_of_item_with_the_name_of_an_output_for_another_kind(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "{item}.jsonl", "a=b.jsonl")
    end = journal.append(0, rows(("a", 1)))
    with pytest.raises(SinkError, match=r"are the same file, .*b\.jsonl"):
        journal.append(end, rows(("b", 2)))
    journal.close()


def test_a_file_without_rows_is_complete_too(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "a=a.json", "b=b.json")
    end = journal.append(0, rows(("a", 1)))
    journal.finish(end)
    journal.close()
    assert msgspec.json.decode((tmp_path / "a.json").read_bytes()) == [1]
    assert msgspec.json.decode((tmp_path / "b.json").read_bytes()) == []
    assert not (tmp_path / "j.jsonl").exists()


def test_a_kind_of_item_that_no_handler_makes_is_told() -> None:
    spider = Spider("shop")

    @spider.handler(item="book")
    def books(page: Page) -> None: ...

    kept = with_archive(["book=b.jsonl"], Settings(archive="pages"))
    check_parts(JobPlan(spider, Settings(), "j", output=kept))
    with pytest.raises(UsageError, match=r"-o books=: no handler of spider 'shop' .* there are book"):
        check_parts(JobPlan(spider, Settings(), "j", output=["books=b.jsonl", "all.jsonl"]))


def spider_of_two_kinds(**settings: Any) -> Spider:
    spider = Spider("shop", **settings)

    @spider.handler(item="book")
    def books(page: Page) -> None: ...

    @spider.handler
    def review(page: Page) -> None: ...

    return spider


@pytest.mark.parametrize(
    ("kind", "meant"), [("boook", "book"), ("Book", "book"), ("books", "book"), ("reviews", "review")]
)
def test_columns_of_a_kind_that_is_misspelt_are_told(kind: str, meant: str) -> None:
    plan = JobPlan(spider_of_two_kinds(), Settings(columns={kind: ["a"]}), "j")
    said = rf"^columns\.{kind}: no handler of spider 'shop' .* did you mean {meant}\? there are book, review$"
    with pytest.raises(SettingsError, match=said):
        check_parts(plan)


def test_columns_of_a_kind_of_another_spider_are_told_where_the_spider_names_them_itself() -> None:
    """A settings file is for several spiders. `books` is a name that one of them may have."""
    columns = {"page": ["a"], "books": ["a"], "book": ["a"], "changes": ["at"]}
    plan = JobPlan(spider_of_two_kinds(), Settings(columns=columns), "j")
    check_parts(plan)
    said = list(without_effect(plan))
    assert [line.partition(":")[0] for line in said] == ["columns.page", "columns.books"]
    with pytest.raises(SettingsError, match=r"columns\.page: no handler .* there are book, review"):
        check_parts(JobPlan(spider_of_two_kinds(columns=columns), Settings(columns=columns), "j"))


def test_columns_in_a_settings_file_are_no_matter_of_a_spider_without_code() -> None:
    plan = JobPlan(summary_spider("a.example", ()), Settings(columns={"product": ["a"]}), "j")
    check_parts(plan)
    assert not list(without_effect(plan))
