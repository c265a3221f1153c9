"""Outputs read by programs that are not Shoal, and compared with what the site published."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import sqlite3
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

Row = dict[str, Any]

csv.field_size_limit(sys.maxsize)


def read(path: Path) -> list[Row]:
    """The rows of a file, by its suffixes."""
    suffixes = path.name.split(".")[1:]
    if suffixes[-1] in ("gz", "zst"):
        data = _decompress(path, suffixes.pop())
    elif suffixes[-1] in _FILES:
        return list(_FILES[suffixes[-1]](path))
    else:
        data = path.read_bytes()
    return list(_TEXTS[suffixes[-1]](data.decode("utf-8")))


def _decompress(path: Path, suffix: str) -> bytes:
    if suffix == "gz":
        return gzip.decompress(path.read_bytes())
    zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    plain: bytes = zstd.decompress(path.read_bytes())
    return plain


def _lines(text: str) -> Iterator[Row]:
    assert not text or text.endswith("\n"), "the last line is torn"
    for line in text.split("\n")[:-1]:
        yield json.loads(line)


def _array(text: str) -> Iterator[Row]:
    yield from json.loads(text)


def _delimited(text: str, delimiter: str = ",") -> Iterator[Row]:
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    for row in table:
        assert None not in (*row, *row.values()), f"a line of another length: {row}"
        yield row


def _tabbed(text: str) -> Iterator[Row]:
    return _delimited(text, "\t")


def _elements(text: str) -> Iterator[Row]:
    for item in ElementTree.fromstring(text):
        yield {field.tag: _value(field) for field in item}


def _value(element: ElementTree.Element) -> object:
    """Elements in an element are a list, if they are called `value`, else an object."""
    children = list(element)
    if not children:
        return element.text or ""
    if all(child.tag == "value" for child in children):
        return [_value(child) for child in children]
    return {child.tag: _value(child) for child in children}


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow.parquet

    yield from pyarrow.parquet.read_table(path).to_pylist()


def _sqlite(path: Path) -> Iterator[Row]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert [*connection.execute("PRAGMA integrity_check").fetchone()] == ["ok"]
    for table in tables:
        if not table.startswith(("_", "sqlite_")):
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield dict(row)
    connection.close()


def _duckdb(path: Path) -> Iterator[Row]:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as connection:
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if not table.startswith("_"):
                found = connection.execute(f'SELECT * FROM "{table}"')
                names = [column[0] for column in found.description or ()]
                yield from (dict(zip(names, row, strict=True)) for row in found.fetchall())


def read_postgres(url: str) -> list[Row]:
    import asyncpg

    async def ask() -> list[Row]:
        connection = await asyncpg.connect(url)
        try:
            tables = await connection.fetch(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename !~ '^_'"
            )
            rows = [await connection.fetch(f'SELECT item FROM "{table[0]}"') for table in tables]
        finally:
            await connection.close()
        return [json.loads(row[0]) for found in rows for row in found]

    return asyncio.run(ask())


def read_archive(folder: Path) -> list[tuple[str, bytes]]:
    """URL and body of each response in the WARC files of a folder."""
    from warcio.archiveiterator import ArchiveIterator

    found = []
    for path in sorted(folder.glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                if record.rec_type == "response":
                    url = record.rec_headers.get_header("WARC-Target-URI")
                    found.append((url, record.content_stream().read()))
    return found


_TEXTS: Mapping[str, Callable[[str], Iterable[Row]]] = {
    "jsonl": _lines,
    "ndjson": _lines,
    "json": _array,
    "csv": _delimited,
    "tsv": _tabbed,
    "xml": _elements,
}
_FILES: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    "parquet": _parquet,
    "sqlite": _sqlite,
    "sqlite3": _sqlite,
    "db": _sqlite,
    "duckdb": _duckdb,
}


# -- the verdict


def compare(found: Iterable[Row], expected: Mapping[str, Row]) -> list[str]:
    """The faults, each a sentence. None: every row once, and as it was published."""
    rows = list(found)
    counted = Counter(row.get("id") for row in rows)
    faults = []
    if missing := expected.keys() - counted.keys():
        faults.append(f"{len(missing)} rows are missing, such as {min(missing)}")
    if doubled := [name for name, count in counted.items() if count > 1]:
        faults.append(f"{len(doubled)} rows are doubled, such as {doubled[0]}")
    if strange := counted.keys() - expected.keys():
        faults.append(f"{len(strange)} rows are none of the site's, such as {next(iter(strange))!r}")
    wrong = [
        difference for row in rows if row.get("id") in expected and (difference := _differ(row, expected))
    ]
    if wrong:
        faults.append(f"{len(wrong)} rows are wrong, such as {wrong[0]}")
    return faults


def _differ(row: Row, expected: Mapping[str, Row]) -> str:
    published = expected[row["id"]]
    for name in published.keys() | row.keys():
        if not name.startswith("_") and not same(published.get(name), row.get(name)):
            return f"{row['id']}: {name} is {row.get(name)!r}, and was {published.get(name)!r}"
    return ""


def same(published: object, found: object) -> bool:
    """Whether a value is what was published, as far as its format can say so: a text may stand for a number, a list or
    an object, as JSON; an empty text for nothing."""
    if published is None or published in ("", [], {}):
        return found is None or found in ("", "[]", "{}", [], {})
    if isinstance(published, str):
        return found == published or (isinstance(found, datetime) and _same_time(published, found))
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return False
    if isinstance(published, dict) and isinstance(found, dict):
        names = published.keys() | found.keys()
        return all(same(published.get(name), found.get(name)) for name in names)
    if isinstance(published, list) and isinstance(found, list):
        return len(published) == len(found) and all(map(same, published, found))
    return published == found


def _same_time(published: str, found: datetime) -> bool:
    return datetime.fromisoformat(published) == (found if found.tzinfo else found.replace(tzinfo=UTC))
