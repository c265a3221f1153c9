"""A SQLite database as result file: a table for each kind of item, every row exactly once.

Rows are numbered in the order of their commits, over all tables: `_row`, the primary key. The position that the
frontier keeps is the number of the last row. The rows with higher numbers are those that a crash left, or that a store
which went back does not know: `append` deletes them in the transaction that adds the new ones.

The database is in WAL mode while it is written: readers do not wait for the crawl, nor the crawl for them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import apsw

from shoal.errors import OutputTaken, SinkError
from shoal.model import Row
from shoal.sink.databases.item_tables import database_path
from shoal.sink.databases.sqlite_tables import SqliteTables
from shoal.sink.ownership import Owner, held

_PATIENCE = 20.0  # seconds to wait for another program that has locked the database
_FORGET_EVERY = 3600.0  # seconds
_AGAIN = "nothing is lost, then run again"


class SqliteFile:
    """Opened by the first `append`; several processes may share it."""

    def __init__(
        self,
        path: Path,
        key: str = "",
        columns: Mapping[str, Mapping[str, object]] | None = None,
        *,
        patience: float = _PATIENCE,
        history_keep: float | None = None,
    ) -> None:
        """`history_keep`: seconds after which old versions of rows are forgotten; None: never."""
        self.path = path
        self.key = key or os.path.abspath(path)
        self.owner: Owner | None = None  # the job that claimed it
        self._name = database_path(path)
        self._columns = columns or {}
        self._patience = patience
        self._db: apsw.Connection | None = None
        self._tables: SqliteTables | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the file that is open
        self._lock: int | None = None
        self._history_keep = history_keep
        self._forgotten_at = 0.0  # when old versions were last forgotten, by the times of rows

    def __repr__(self) -> str:
        return f"<SqliteFile {self.path}>"

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        """Deletes the rows after number `committed`, adds these, and makes both durable. Returns the number of the last
        row."""
        # Until something is committed, another job that finds the file empty may take it.
        ours = held(self.path, self.owner) if self.owner is not None and not committed else nullcontext()
        with ours, self._complaining():
            self._make_file()
            self._check_file(committed)
            db, tables = self._open()
            try:
                db.execute("BEGIN IMMEDIATE")
                end = self._put(db, tables, committed, rows)
                db.execute("COMMIT")
            except BaseException:
                tables.forget()  # what it knows of the database may be undone now
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        return end

    write = append  # a commit is durable

    def sync(self) -> None:
        pass

    def _put(self, db: apsw.Connection, tables: SqliteTables, committed: int, rows: Sequence[Row]) -> int:
        position = tables.load()
        if position is None:
            self._check_empty(db, committed)
            tables.make()
            position = 0
        self._check_position(position, committed)
        if position > committed:
            tables.cut(committed)
        end = tables.insert(committed, rows)
        if end != position:
            tables.move_to(end)
        self._forget_history(tables, committed, rows)
        return end

    def _forget_history(self, tables: SqliteTables, committed: int, rows: Sequence[Row]) -> None:
        """Now and then."""
        now = max((row.at for row in rows), default=0.0)
        if self._history_keep is not None and now - self._forgotten_at >= _FORGET_EVERY:
            tables.forget_history(now - self._history_keep, committed)
            self._forgotten_at = now

    def fileno(self) -> int:
        """A file to lock. Not the database: to close it would end SQLite's locks on it."""
        with self._complaining():
            if self._lock is None:
                beside = self.path.with_name(f".{self.path.name}.lock")
                self._lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            return self._lock

    def check(self, committed: int) -> None:
        """Checks that the database can be written and is complete. Changes nothing, so others may be writing. While
        nothing is committed, the file may be one that is going to be replaced."""
        with self._complaining():
            self._make_file()
            self._check_file(committed)
            if not os.access(self.path, os.W_OK):
                raise apsw.ReadOnlyError("no permission to write")
            if committed:
                with closing(self._connect_to_read()) as db:
                    self._check_position(SqliteTables(db, self._columns).load() or 0, committed)

    def finish(self, committed: int) -> None:
        """Moves the rows from the log (`-wal`) into the file, and removes the log. A program that reads the database at
        this moment does it when it closes it. Deletes nothing: another process may have committed more rows since."""
        self._close_database()
        if not self.path.exists():
            return
        with self._complaining(), closing(self._connect()) as db, suppress(apsw.BusyError):
            db.set_busy_timeout(0)
            db.pragma("wal_checkpoint(TRUNCATE)")
            db.pragma("journal_mode", "DELETE")

    def close(self) -> None:
        with self._complaining():
            self._close_database()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self, committed: int) -> Iterator[dict[str, object]]:
        """The committed rows of all tables, in their order."""
        for _, row in self.items(committed):
            yield row

    def items(self, committed: int) -> Iterator[tuple[str, dict[str, object]]]:
        """… each with its kind."""
        with self._complaining(), closing(self._connect_to_read()) as db:
            db.execute("BEGIN")
            tables = SqliteTables(db, self._columns)
            self._check_position(tables.load() or 0, committed)
            yield from tables.read(committed)

    # -- the file

    def _open(self) -> tuple[apsw.Connection, SqliteTables]:
        if self._db is None or self._tables is None:
            state = os.stat(self.path)
            self._db = self._connect()
            self._file = state.st_dev, state.st_ino
            self._db.pragma("journal_mode", "WAL")
            self._db.pragma("synchronous", "FULL")
            self._tables = SqliteTables(self._db, self._columns)
        return self._db, self._tables

    def _connect(self, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
        db = apsw.Connection(self._name, flags=flags)
        db.set_busy_timeout(int(self._patience * 1000))
        return db

    def _connect_to_read(self) -> apsw.Connection:
        """Changes nothing, but that it undoes what a process was about to change when it died: the file cannot be read
        before. `finish` leaves such a change, if it is killed between its steps."""
        db = self._connect(apsw.SQLITE_OPEN_READONLY)
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except apsw.ReadOnlyError:  # only a connection that may write undoes it
            db.close()
            return self._connect()
        except BaseException:
            db.close()
            raise
        return db

    def _make_file(self) -> None:
        if self._db is not None:
            return
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _close_database(self) -> None:
        db, self._db, self._tables, self._file = self._db, None, None, None
        if db is not None:
            db.close()

    # -- checks

    def _check_file(self, committed: int) -> None:
        try:
            state = os.stat(self.path)
        except FileNotFoundError:
            raise self._incomplete(committed) from None
        if not stat.S_ISREG(state.st_mode):
            raise SinkError(
                f"cannot write {self.path}: not a regular file; results need one that can be resumed"
            )
        if self._file not in (None, (state.st_dev, state.st_ino)):
            raise self._incomplete(committed)

    def _check_position(self, position: int, committed: int) -> None:
        if position < committed:
            raise self._incomplete(committed)

    def _check_empty(self, db: apsw.Connection, committed: int) -> None:
        """Raises an error if the database, which has no table of ours, has other tables."""
        if committed:
            raise self._incomplete(committed)
        found = db.execute("SELECT name FROM sqlite_schema LIMIT 1").fetchall()
        if found:
            raise OutputTaken(
                f"{self.path} is a database of another program (it has {found[0][0]!r}): choose another file with -o"
            )

    def _incomplete(self, committed: int) -> SinkError:
        return SinkError(
            f"{self.path} has fewer rows than this job has written ({committed}): it was changed or removed; restore "
            "it or start again with --fresh"
        )

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"cannot write {self.path}: {error.strerror or error}; nothing is lost, make room or choose "
                "another file system and run again"
            ) from error
        except apsw.Error as error:
            raise SinkError(self._say(error)) from error

    def _say(self, error: apsw.Error) -> str:
        match error:
            case apsw.FullError():
                return f"cannot write {self.path}: no space left; make room, {_AGAIN}"
            case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError() | apsw.AuthError():
                return f"cannot write {self.path}: make it and its folder writable; {_AGAIN}"
            case apsw.BusyError() | apsw.LockedError():
                waited = f"{self._patience:g} seconds"
                return f"{self.path} has been locked by another program for {waited}: end that, {_AGAIN}"
            case apsw.NotADBError():
                return f"{self.path} is not a SQLite database: choose another file with -o, or move it away"
            case apsw.CorruptError():
                return f"{self.path} is damaged ({error}): restore a copy, or start again with --fresh"
            case apsw.IOError():
                return f"cannot write {self.path}: {error}; check the disk, {_AGAIN}"
            case apsw.SQLError() | apsw.ConstraintError() | apsw.MismatchError():
                return f"cannot write {self.path}: {error}; was a table changed? Undo that; {_AGAIN}"
        return f"cannot write {self.path}: {error}; {_AGAIN}"
