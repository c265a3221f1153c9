"""Tables as the start of a spider: one column holds the URLs, and the rest of a row goes with its page.

    Spider("prices", start=Table("products.csv", url="link"))

Files are read as they are needed, and a crawl that is resumed goes on at its row. The rows of a query may come in
another order each time, so a query is read from its beginning, and URLs that are known are dropped.
"""

from __future__ import annotations

import asyncio
import codecs
import csv
import gzip
import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from shoal.admit.sending import listed_url
from shoal.errors import SpiderError
from shoal.limits import START_LINE
from shoal.model.request import Request, name_of_handler
from shoal.text import error_line, without_secrets

if TYPE_CHECKING:
    from shoal.spider.spider import StartPlace

_BATCH = 500  # rows that are read at once, in a thread
_USUAL = ("url", "link", "href", "loc", "uri")
_SQLITE = "sqlite:"
_POSTGRES = ("postgresql://", "postgres://")
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON = (".jsonl", ".ndjson")
_KINDS = "a .csv, .tsv, .jsonl or .parquet file, or sqlite:///FILE or postgresql://… with a query"

_NOT_UTF8 = "not UTF-8 (save the file as UTF-8)"

Row = dict[str, Any]


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return _ending(path) in (*_DELIMITERS, *_JSON, ".parquet")


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


class Table:
    """The URLs in a column of a table, as the start of a spider; see docs/sources.md.

    - `source`: a CSV, TSV, JSON Lines or Parquet file, or the address of a database: `sqlite:///file.db`,
      `postgresql://…`
    - `url`: the column with the URLs; by default the one that is called url, link, href, loc or uri
    - `query`: of a database
    - `columns`: those that handlers get as `page.meta`; by default all but that of the URL
    - `handler`: of the pages, by name; the spider's first one, if none is given
    - `delimiter`: of a CSV file; by default what its first line shows
    """

    def __init__(
        self,
        source: str | Path,
        *,
        url: str = "",
        query: str = "",
        columns: Sequence[str] | None = None,
        handler: Any = "",
        delimiter: str = "",
    ) -> None:
        text = str(source)
        self.is_query = text.startswith((_SQLITE, *_POSTGRES))
        self._address = text
        self.path = Path(text)
        self._url = url
        self._query = query
        self._columns = None if columns is None else tuple(columns)
        self._handler = handler
        self._delimiter = delimiter
        if not self.is_query and not is_table(self.path):
            raise SpiderError(f"Table: {self._shown}: give {_KINDS}")
        if self.is_query != bool(query.strip()):
            problem = "needs query='select …'" if self.is_query else "is a file, and takes no query"
            raise SpiderError(f"Table: {self._shown} {problem}")
        if delimiter and len(delimiter) != 1:
            raise SpiderError(f"Table: delimiter is {delimiter!r}; give one character")

    def __repr__(self) -> str:
        return f"<Table {self._shown}>"

    @property
    def handler(self) -> str:
        """The name of the handler of its pages."""
        return self._handler if isinstance(self._handler, str) else name_of_handler(self._handler)

    @property
    def _shown(self) -> str:
        return without_secrets(self._address)

    async def requests(self, at: StartPlace) -> AsyncGenerator[Request, None]:
        handler = self.handler
        is_server = self._address.startswith(_POSTGRES)
        column, at.line = "", int(_ending(self.path) in _DELIMITERS)  # of the names of the columns
        at.file = None if self.is_query else self.path
        try:
            async with aclosing(self._server_rows() if is_server else _threaded(self._rows())) as rows:
                async for row in rows:
                    at.line += 1
                    column = column or self._column(row)
                    yield self._request(row, column, handler)
        except SpiderError:
            raise
        except OSError as error:
            raise SpiderError(f"cannot read {self._shown}: {error.strerror or error}") from error
        except Exception as error:  # of any of the libraries
            said = without_secrets(error_line(error))
            raise SpiderError(f"cannot read {self._shown}, after row {at.line:,}: {said}") from error
        finally:
            at.file = None

    def _column(self, row: Row) -> str:
        if self._url:
            found = self._url if self._url in row else ""
        else:
            found = next((name for usual in _USUAL for name in row if str(name).strip().lower() == usual), "")
        if not found:
            wanted = f"has no column {self._url!r}" if self._url else "has no column that is called url"
            names = ", ".join(map(str, list(row)[:20]))
            raise SpiderError(f"{self._shown} {wanted}: name one with url=…; there are {names}")
        if self._columns is not None and (missing := [name for name in self._columns if name not in row]):
            raise SpiderError(f"{self._shown} has no column {missing[0]!r}")
        return found

    def _request(self, row: Row, column: str, handler: str) -> Request:
        value = row.get(column)
        names = [name for name in row if name != column] if self._columns is None else self._columns
        meta = {str(name): _plain(row.get(name)) for name in names}
        url = listed_url(value.strip()) if isinstance(value, str) else ""
        if is_marked(url) or any(is_marked(name) or is_marked(_text(meta[name])) for name in meta):
            return Request(unreadable(url), handler)
        return Request(url, handler, meta=meta or None)

    # -- rows

    def _rows(self) -> Iterator[Row]:
        if self.is_query:
            return self._sqlite_rows()
        match _ending(self.path):
            case ".parquet":
                return self._parquet_rows()
            case ending if ending in _JSON:
                return self._json_rows()
        return self._delimited_rows()

    def _open(self) -> TextIO:
        is_packed = self.path.name.lower().endswith(".gz")
        return as_text(gzip.open(self.path) if is_packed else self.path.open("rb"), newline="")

    def _delimited_rows(self) -> Iterator[Row]:
        csv.field_size_limit(START_LINE)
        with self._open() as file:
            first = file.readline(START_LINE)
            if not first.strip():
                raise SpiderError(f"{self._shown} is empty: its first line names the columns")
            if is_marked(first):
                raise SpiderError(f"{self._shown}:1: the names of the columns are {_NOT_UTF8}")
            delimiter = self._delimiter or _delimiter_in(first, _DELIMITERS[_ending(self.path)])
            names = next(csv.reader([first], delimiter=delimiter))
            for row in csv.DictReader(file, names, delimiter=delimiter, restkey=""):
                row.pop("", None)  # cells beyond the last column
                yield row

    def _json_rows(self) -> Iterator[Row]:
        decode = msgspec.json.Decoder().decode
        with self._open() as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line) if is_marked(line) else decode(line)  # that one takes no marks
                except (msgspec.DecodeError, json.JSONDecodeError, RecursionError) as error:
                    raise SpiderError(f"{self._shown}:{number}: not JSON: {error}") from None
                if not isinstance(row, dict):
                    raise SpiderError(f"{self._shown}:{number}: each line is to be an object: {{…}}")
                yield row

    def _parquet_rows(self) -> Iterator[Row]:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise SpiderError(f"{self._shown} needs pyarrow: pip install 'shoal[parquet]'") from None
        with ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from batch.to_pylist()

    def _sqlite_rows(self) -> Iterator[Row]:
        import apsw

        path = self._address.removeprefix(_SQLITE)
        path = path[3:] if path.startswith("///") else path.removeprefix("//")
        if not Path(path).is_file():
            raise SpiderError(f"{self._shown}: there is no such file")
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(10_000)
            cursor = connection.execute(self._query)
            names: list[str] = []
            for values in cursor:
                names = names or [name for name, *_ in cursor.get_description()]
                yield dict(zip(names, values, strict=True))
        finally:
            connection.close(True)

    async def _server_rows(self) -> AsyncGenerator[Row, None]:
        try:
            import asyncpg  # type: ignore[import-untyped]
        except ImportError:
            raise SpiderError(f"{self._shown} needs asyncpg: pip install 'shoal[postgres]'") from None
        connection = await asyncpg.connect(self._address)
        try:
            async with connection.transaction(readonly=True):
                async for record in connection.cursor(self._query, prefetch=_BATCH):
                    yield dict(record)
        finally:
            await connection.close()


async def _threaded(rows: Iterator[Row]) -> AsyncGenerator[Row, None]:
    """The rows, read in a thread: a disk or a query may take its time."""
    try:
        while batch := await asyncio.to_thread(lambda: list(islice(rows, _BATCH))):
            for row in batch:
                yield row
    finally:
        with suppress(ValueError):  # a thread still reads; it lets go when it is done
            getattr(rows, "close", lambda: None)()


# -- bytes that are not text
#
# A URL with a sign in place of such a byte would be another one. So every such byte becomes a mark, which no text has,
# and what has marks is refused.


_MARKS = re.compile("[\udc00-\udcff]")  # a byte is its value beyond the first of these
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def as_text(opened: BufferedReader | gzip.GzipFile, newline: str | None = None) -> TextIO:
    """The text of a file: UTF-8, or UTF-16 if it says so by its byte-order mark, as what PowerShell writes. Bytes that
    are neither are marked."""
    try:
        begin = opened.peek(2)[:2]  # a pipe cannot be read twice
    except BaseException:
        opened.close()
        raise
    return TextIOWrapper(opened, "utf-16" if begin in _UTF16 else "utf-8-sig", "shoal-marks", newline)


def _marked(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("shoal-marks", _marked)


def is_marked(text: str) -> bool:
    return not text.isascii() and _MARKS.search(text) is not None


def _text(value: object) -> str:
    """All texts in a value."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else ""


def without_marks(text: str) -> str:
    """The text, with marks as bytes are written in Python."""
    return _MARKS.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def unreadable(line: str) -> str:
    """What is passed on in place of a URL. It is none, so admission refuses it and tells it with its file and line."""
    return f"{_NOT_UTF8}: {without_marks(line)}"


def _delimiter_in(first: str, usual: str) -> str:
    """Excel writes semicolons in half of the world."""
    if usual == "," and "," not in first:
        return next((sign for sign in (";", "\t", "|") if sign in first), usual)
    return usual


def _plain(value: object) -> Any:
    """A value that a queue can store."""
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    try:
        return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return str(value)
