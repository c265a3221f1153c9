"""Results as people see them, and as tables of other packages."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from typing import Any

import pandas
import polars
import pyarrow
import pytest

from shoal.engine.tally import TallyReport
from shoal.errors import ShoalError, UsageError
from shoal.frontier.values import Counters, Job, JobSpec
from shoal.inspect.job import View
from shoal.jobs.note import write_note
from shoal.runtime.results import Results
from shoal.settings import Settings


def results(found: Sequence[Any], *, output: bytes = b"", **counters: int) -> Results:
    spec = JobSpec("shop", settings=write_note(output, Settings()))
    job = Job(spec, "finished", Counters(**{"items": len(found), "done": 2, **counters}), created_at=1.0)
    return Results(list(found), View(job, TallyReport()))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def test_a_table_and_how_it_ended() -> None:
    shown = repr(
        results([{"title": "Tides", "price": 3.5}, {"title": "Ebb", "sizes": [1, 2]}], dead=1, rejected=3)
    )
    assert shown.splitlines() == [
        "title  price  sizes",
        "Tides  3.5",
        "Ebb           [1,2]",
        "shop finished: 2 items from 2 pages, 1 dead page, 3 rejected items",
    ]


def test_a_long_table_is_cut_and_says_so() -> None:
    shown = repr(results([{"n": n, "text": "x" * 500} for n in range(25)])).splitlines()
    assert len(shown) == 1 + 10 + 2
    assert max(map(len, shown)) <= 60
    assert shown[-2:] == ["… and 15 more items", "shop finished: 25 items from 2 pages"]
    many = repr(results([{f"field{n}": n for n in range(300)}])).splitlines()
    assert max(map(len, many)) <= 60


def test_without_items() -> None:
    assert repr(results([])) == "<shop finished: 0 items from 2 pages>"
    assert repr(results([], output=b"/tmp/shop.jsonl", items=7)) == (
        "<shop finished: 0 items from 2 pages; 7 rows in /tmp/shop.jsonl>"
    )


def test_nothing_in_an_item_is_markup_or_a_command_to_the_terminal() -> None:
    hostile = results([{"<b>": "<script>alert(1)</script>", "x": "\x1b[2J\nline"}])
    assert "\x1b" not in repr(hostile)
    assert len(repr(hostile).splitlines()) == 3
    html = hostile._repr_html_()
    assert "<th>&lt;b&gt;</th>" in html
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in html
    assert "<script" not in html


def test_index_and_slice() -> None:
    some = results([{"n": n} for n in range(5)])
    assert (some[0], some[-1]) == ({"n": 0}, {"n": 4})
    assert isinstance(some[1:3], Results)
    assert list(some[1:3]) == [{"n": 1}, {"n": 2}]
    with pytest.raises(IndexError):
        some[5]
    with pytest.raises(
        TypeError, match=r"indexed by number, not by 'n': results\[0\]\['n'\] is a field of an item"
    ):
        some["n"]  # type: ignore[call-overload]


# -- tables

ITEMS = [{"sku": "a", "price": 2**60 + 1, "tags": ["x"]}, {"sku": "b", "new": True}, "odd"]


def test_pandas() -> None:
    frame = results(ITEMS).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["sku", "price", "tags", "new", "value"]
    assert frame["price"][0] == 2**60 + 1, "no number goes through a float because another row has none"
    assert frame["price"].isna().tolist() == [False, True, True]
    assert results([]).to_pandas().empty
    mixed = results([{"a": 2**70, "b": 1, "c": 1.5}, {"a": 1, "b": "x"}]).to_pandas()
    assert mixed["a"].tolist() == [2**70, 1]
    assert mixed["b"].tolist() == [1, "x"]
    assert mixed["c"][0] == 1.5


def test_polars() -> None:
    frame = results(ITEMS).to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame["price"].to_list() == [2**60 + 1, None, None]
    assert frame["tags"].to_list() == [["x"], None, None]
    assert results([]).to_polars().is_empty()


def test_arrow() -> None:
    table = results(ITEMS).to_arrow()
    assert isinstance(table, pyarrow.Table)
    assert table.column_names == ["sku", "price", "tags", "new", "value"]
    assert table["price"].to_pylist() == [2**60 + 1, None, None]
    assert results([]).to_arrow().num_rows == 0


@pytest.mark.parametrize("to", ["to_polars", "to_arrow"])
def test_values_of_several_types_are_a_column_of_json(to: str) -> None:
    table = getattr(results([{"a": 1}, {"a": "x"}, {"a": None}, {"a": [2**70]}]), to)()
    values = table["a"].to_list() if to == "to_polars" else table["a"].to_pylist()
    assert values == ["1", '"x"', None, f"[{2**70}]"]


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ShoalError, match=r"to_polars\(\) needs polars: pip install polars"):
        results(ITEMS).to_polars()


def test_rows_that_went_elsewhere_are_no_empty_table() -> None:
    with pytest.raises(
        UsageError, match=r"the rows of job shop are not in memory, they went to /tmp/shop.jsonl"
    ):
        results([], output=b"/tmp/shop.jsonl", items=7).to_pandas()


def test_dates_stay_text() -> None:
    """As in every result: items are what their JSON says."""
    day = datetime.date(2031, 5, 30).isoformat()
    assert results([{"day": day}]).to_polars()["day"].to_list() == [day]
