"""What a crawl from code gives back, and how it is shown in a terminal and a notebook."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import set_cell_size

from shoal.errors import ShoalError, UsageError
from shoal.inspect.job import View
from shoal.inspect.rejected import RejectedItem
from shoal.inspect.row_layout import BETWEEN, column_width, cut, fields_of, fit, one_line, value_text
from shoal.jobs.note import note_of
from shoal.model import DeadLetter
from shoal.sink import describe_noted
from shoal.spider.spider import Spider
from shoal.text import humanize

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

T = TypeVar("T")

_SHOWN = 10  # items
_COLUMNS = 12
_LEAST_CELL = 7
_HTML_CELL = 200  # characters


class DeadPage(Struct, frozen=True):
    """A page that was given up."""

    url: str
    handler: str
    kind: str  # of the failure: "http_404", "timeout" …
    reason: str
    attempts: int
    at: float


def dead_page(letter: DeadLetter, spider: Spider) -> DeadPage:
    task = letter.task
    handler = task.handler or spider.handler_named("").name
    reason = task.history[-1].detail if task.history else ""
    return DeadPage(task.url, handler, letter.kind, reason or letter.kind, task.attempt, letter.at)


class Results(Struct, frozen=True, repr_omit_defaults=True):
    """What a crawl from code gives back.

    It is a sequence of its items: `results[0]`, `results[-5:]`, `for item in results`. In a terminal and in a notebook
    it is shown as a table."""

    items: list[Any]  # that were yielded, unless they went to a file
    view: View  # how it ended
    rejected: Sequence[RejectedItem] = ()  # the newest items that were rejected
    dead: Sequence[DeadPage] = ()  # the newest pages that were given up

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> Results: ...

    def __getitem__(self, place: int | slice) -> Any:
        """An item; or for a slice the same results with these items only."""
        if isinstance(place, slice):
            return replace(self, items=self.items[place])
        try:
            return self.items[place]
        except TypeError:
            raise TypeError(
                f"results are indexed by number, not by {place!r}: results[0][{place!r}] is a field of an item"
            ) from None

    def __repr__(self) -> str:
        if not self.items:
            return f"<{self._summary()}>"
        table = _lines(self.items[:_SHOWN], shutil.get_terminal_size().columns)
        return "\n".join([*table, *self._more(), self._summary()])

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        said = [*self._more(), self._summary()]
        table = _html(self.items[:_SHOWN]) if self.items else ""
        return table + "".join(f"<p>{escape(line)}</p>" for line in said)

    def _more(self) -> list[str]:
        rest = len(self.items) - _SHOWN
        return [f"… and {humanize.plural(rest, 'more item')}"] if rest > 0 else []

    def _summary(self) -> str:
        """`shop finished: 12 items from 4 pages, 1 dead page, 2 rejected items; rows in shop.jsonl`"""
        job, c = self.view.job, self.view.job.counters
        items, pages = humanize.plural(len(self.items), "item"), humanize.plural(c.done, "page")
        said = f"{job.spec.name} {job.state}: {items} from {pages}"
        if c.dead:
            said += f", {humanize.plural(c.dead, 'dead page')}"
        if c.rejected:
            said += f", {humanize.plural(c.rejected, 'rejected item')}"
        if where := self._elsewhere():
            said += f"; {humanize.plural(c.items, 'row')} in {where}"
        return humanize.printable(said)

    def _elsewhere(self) -> str:
        """Where the rows went, if they are not here."""
        output = note_of(self.view.job.spec).output
        return describe_noted(output) if output else ""

    # -- tables of other packages

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a column for each field. Columns have the types that can be missing: Int64, string …"""
        module = _imported("pandas")
        series = {name: _series(values, module) for name, values in self._columns().items()}
        frame: pandas.DataFrame = module.DataFrame(series)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A DataFrame with a column for each field. A field with values of several types is a column of JSON."""
        series = _imported("polars").Series
        columns = [_column(values, partial(series, name)) for name, values in self._columns().items()]
        frame: polars.DataFrame = _imported("polars").DataFrame(columns)
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """A Table with a column for each field. A field with values of several types is a column of JSON."""
        array = _imported("pyarrow").array
        columns = {name: _column(values, array) for name, values in self._columns().items()}
        table: pyarrow.Table = _imported("pyarrow").table(columns)
        return table

    def _columns(self) -> dict[str, list[Any]]:
        if not self.items and self.view.job.counters.items:
            raise UsageError(
                f"the rows of job {self.view.job.spec.name} are not in memory, they went to "
                f"{self._elsewhere() or 'an earlier run'}: read them from there, or crawl without output and store"
            )
        rows = [item if isinstance(item, dict) else {"value": item} for item in self.items]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        method = {"pyarrow": "to_arrow"}.get(name, f"to_{name}")
        raise ShoalError(f"{method}() needs {name}: pip install {name}") from None


def _series(values: list[Any], module: Any) -> Any:
    """A column with the type of its values. Whole numbers must not go through floats, which round large ones."""
    if all(value is None or type(value) is int for value in values):
        try:
            return module.array(values, dtype="Int64")
        except OverflowError:
            return module.Series(values, dtype=object)
    return module.Series(values, dtype=object).convert_dtypes()


def _column(values: list[Any], make: Callable[[list[Any]], T]) -> T:
    """A column of one type; of JSON, if the values have several or are too large."""
    try:
        return make(values)
    except Exception:
        return make([None if value is None else msgspec.json.encode(value).decode() for value in values])


def _cells(items: Sequence[Any]) -> dict[str, list[str]]:
    """The first columns of a table, each with its texts."""
    fields = [fields_of(item) for item in items]
    names = list(dict.fromkeys(name for one in fields for name in one))
    kept = {
        name: [value_text(one[name]) if name in one else "" for one in fields] for name in names[:_COLUMNS]
    }
    if len(names) > _COLUMNS:
        kept["…"] = [f"{len(names) - _COLUMNS} more"] + [""] * (len(items) - 1)
    return kept


def _lines(items: Sequence[Any], room: int) -> list[str]:
    cells = _cells(items)
    while len(cells) > 1 and len(cells) * (_LEAST_CELL + BETWEEN) > room:
        cells.popitem()
    widths = fit([column_width(name, texts) for name, texts in cells.items()], room)
    rows = zip(*([one_line(name), *texts] for name, texts in cells.items()), strict=True)
    return [_line(row, widths) for row in rows]


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    cells = [set_cell_size(cut(text, width), width) for text, width in zip(texts, widths, strict=True)]
    return (" " * BETWEEN).join(cells).rstrip()


def _html(items: Sequence[Any]) -> str:
    cells = _cells(items)
    head = "".join(f"<th>{escape(one_line(name))}</th>" for name in cells)
    rows = zip(*cells.values(), strict=True)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cut(text, _HTML_CELL))}</td>" for text in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
