"""The index of an archive: which record is where, in SQLite.

It is derived: whoever deletes it loses nothing, and `fill` makes it again from the WARC files. A process notes the
records that it has written once they are committed. What it could not note, because it was killed, is read from the
files when the job ends, or by `fill`: `covered` says which bytes are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from shoal.archive.members import compression_of
from shoal.archive.records import Entry, Target
from shoal.archive.scan import entries
from shoal.errors import SinkError

NAME = "index.sqlite"
_VERSION = 1
_WAIT = 5000  # milliseconds that another process may hold it
_FIELDS = Entry.__struct_fields__
_COLUMNS = ", ".join(f"record.{name}" for name in _FIELDS)

_SCHEMA = f"""
CREATE TABLE file(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE covered(file INTEGER, start INTEGER, "end" INTEGER, PRIMARY KEY(file, start)) WITHOUT ROWID;
CREATE TABLE record(
  file INTEGER, "offset" INTEGER, {", ".join(_FIELDS)}, PRIMARY KEY(file, "offset")
) WITHOUT ROWID;
CREATE INDEX by_url ON record(url, variant, at);
CREATE INDEX by_digest ON record(digest) WHERE kind = 'response';
PRAGMA user_version = {_VERSION};
"""


class Place(Struct, frozen=True):
    """A record and where it is."""

    file: str
    offset: int
    entry: Entry


class Index:
    """Made for one thread; several processes may have it open."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder = folder
        self.path = folder / NAME
        self._db = self._open(read_only)
        self._files: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Index {self.path}>"

    def close(self) -> None:
        self._db.close()

    # -- reading

    def find(
        self, url: str, variant: str = "", *, until: float | None = None, rendered: bool | None = None
    ) -> Place | None:
        """The newest record of that URL (without fragment), or the newest up to a time. `rendered`: only of those from
        a browser, or not from one."""
        where = "record.url = ?1 AND variant = ?2 AND at <= ?3 AND (?4 IS NULL OR rendered = ?4)"
        values = (url, variant, until if until is not None else 9e18, rendered)
        return next(self._places(f"{where} ORDER BY at DESC LIMIT 1", values), None)

    def all(self, job: str | None = None) -> Iterator[Place]:
        """In the order of the files, by name: of several processes, one may have noted a later file first."""
        yield from self._places("(?1 IS NULL OR job = ?1) ORDER BY name, offset", (job,))

    def in_order_of(self, key: Callable[[str], str], columns: str) -> Iterator[tuple[Any, ...]]:
        """The key of the URL and some columns, of records of plain GET requests, by key and time. SQLite sorts them, on
        disk if need be."""
        self._db.create_scalar_function("key", lambda *url: key(str(url[0])), 1, deterministic=True)
        yield from self._db.execute(
            f"SELECT key(record.url) AS surt, {columns} FROM record JOIN file ON file.id = record.file"
            " WHERE variant = '' ORDER BY surt, at"
        )

    def body_of(self, digest: str) -> Place | None:
        """A response record whose body has that digest."""
        return next(self._places("kind = 'response' AND digest = ? LIMIT 1", (digest,)), None)

    def target(self, digest: str) -> Target | None:
        """What a revisit record may refer to."""
        found = self._db.execute(
            "SELECT id, url, at FROM record WHERE kind = 'response' AND digest = ? LIMIT 1", (digest,)
        ).fetchone()
        return Target(*found) if found is not None else None

    def count(self) -> int:
        found: int = self._db.execute("SELECT count(*) FROM record").get
        return found

    def _places(self, where: str, values: Sequence[Any]) -> Iterator[Place]:
        query = (
            f"SELECT name, offset, {_COLUMNS} FROM record JOIN file ON file.id = record.file WHERE {where}"
        )
        for name, offset, *rest in self._db.execute(query, values):
            named = dict(zip(_FIELDS, rest, strict=True))
            named |= {"page": bool(named["page"]), "rendered": bool(named["rendered"])}
            yield Place(name, offset, Entry(**named))

    # -- writing

    def add(self, name: str, start: int, end: int, found: Iterable[tuple[int, Entry]]) -> None:
        """Notes the records that lie between two offsets of a file; there are no others."""
        with _transaction(self._db):
            file = self._file(name)
            marks = ", ".join("?" * (len(_FIELDS) + 2))
            self._db.executemany(
                f"INSERT OR REPLACE INTO record VALUES ({marks})",
                [(file, offset, *(getattr(entry, field) for field in _FIELDS)) for offset, entry in found],
            )
            self._cover(file, start, end)

    def forget(self, name: str, offset: int) -> None:
        """The file is cut there."""
        with _transaction(self._db):
            file = self._file(name)
            self._db.execute('DELETE FROM record WHERE file = ? AND "offset" >= ?', (file, offset))
            self._db.execute("DELETE FROM covered WHERE file = ? AND start >= ?", (file, offset))
            self._db.execute('UPDATE covered SET "end" = ?2 WHERE file = ?1 AND "end" > ?2', (file, offset))

    def gaps(self, name: str, size: int) -> list[tuple[int, int]]:
        """What is not known of the first `size` bytes of a file."""
        found, at = [], 0
        rows = self._db.execute(
            'SELECT start, "end" FROM covered JOIN file ON id = file WHERE name = ? ORDER BY start', (name,)
        )
        for start, end in rows:
            if start > at:
                found.append((at, min(start, size)))
            at = max(at, end)
        if at < size:
            found.append((at, size))
        return [(start, end) for start, end in found if start < end]

    def fill(self, name: str, size: int | None = None) -> int:
        """Reads what is not known of a file. Returns the number of records."""
        path, found = self.folder / name, 0
        size = path.stat().st_size if size is None else size
        for start, end in self.gaps(name, size):
            for portion in entries(path, start, end):
                self.add(name, portion.start, portion.end, portion.found)
                found += len(portion.found)
        return found

    def fill_all(self) -> int:
        """Reads what is not known of any file, and forgets files that are gone."""
        names = [path.name for path in sorted(self.folder.iterdir()) if compression_of(path.name) is not None]
        for (name,) in self._db.execute("SELECT name FROM file").fetchall():
            if name not in names:
                self._drop(str(name))
        known, found = self._known(), 0
        for name in names:
            size = (self.folder / name).stat().st_size
            if known.get(name) == (size, size):
                continue
            self.forget(name, size)  # it may have been replaced by a shorter one
            found += self.fill(name)
        return found

    def _known(self) -> dict[str, tuple[int, int]]:
        """How many bytes of each file are known, and up to which one. One question for all files: there may be
        thousands."""
        rows = self._db.execute(
            'SELECT name, sum("end" - start), max("end") FROM covered JOIN file ON id = file GROUP BY file'
        )
        return {str(name): (known, end) for name, known, end in rows}

    def _drop(self, name: str) -> None:
        self.forget(name, 0)
        self._files.pop(name, None)
        self._db.execute("DELETE FROM file WHERE name = ?", (name,))

    def _file(self, name: str) -> int:
        if name not in self._files:
            self._db.execute("INSERT OR IGNORE INTO file(name) VALUES (?)", (name,))
            self._files[name] = self._db.execute("SELECT id FROM file WHERE name = ?", (name,)).get
        return self._files[name]

    def _cover(self, file: int, start: int, end: int) -> None:
        """Joins the piece with those beside it."""
        before = self._db.execute(
            'SELECT start FROM covered WHERE file = ? AND "end" = ?', (file, start)
        ).fetchone()
        after = self._db.execute(
            'SELECT "end" FROM covered WHERE file = ? AND start = ?', (file, end)
        ).fetchone()
        if after is not None:
            self._db.execute("DELETE FROM covered WHERE file = ? AND start = ?", (file, end))
        begin, last = before[0] if before is not None else start, after[0] if after is not None else end
        self._db.execute("INSERT OR REPLACE INTO covered VALUES (?, ?, ?)", (file, begin, last))

    # -- opening

    def _open(self, read_only: bool) -> apsw.Connection:
        try:
            if read_only:
                db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
                db.set_busy_timeout(_WAIT)
                return db
            return self._open_for_writing()
        except (apsw.NotADBError, apsw.CorruptError):
            delete(self.folder)
            return self._open_for_writing()
        except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
            raise SinkError(
                f"cannot open {self.path}: {error}; the file and its folder must be writable"
            ) from None
        except apsw.Error as error:
            raise SinkError(
                f"cannot open {self.path}: {error}; delete it: it is made again from the WARC files"
            ) from None

    def _open_for_writing(self) -> apsw.Connection:
        self.folder.mkdir(parents=True, exist_ok=True)
        db = apsw.Connection(str(self.path))
        db.set_busy_timeout(_WAIT)
        db.pragma("journal_mode", "WAL")
        db.pragma("synchronous", 0)  # it can be made again
        with _transaction(db):
            if db.pragma("user_version") != _VERSION:
                for kind in ("record", "covered", "file"):
                    db.execute(f"DROP TABLE IF EXISTS {kind}")
                db.execute(_SCHEMA)
        return db


@contextmanager
def _transaction(db: apsw.Connection) -> Iterator[None]:
    """One that waits for its turn when it begins: later it could not."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def rebuild(folder: Path) -> int:
    """Makes the index anew from the WARC files. Not while a job writes there. Returns the number of records."""
    delete(folder)
    index = Index(folder)
    try:
        return index.fill_all()
    finally:
        index.close()


def delete(folder: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{NAME}{suffix}").unlink(missing_ok=True)
