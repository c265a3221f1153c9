"""Writes rows into new files of any format. They get their names when they are complete."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import SinkError, UsageError
from shoal.frontier.protocol import Journal
from shoal.model import Row
from shoal.settings import Settings
from shoal.sink import make_journal
from shoal.sink.durable import sync_folder
from shoal.sink.journals import LocalJournal
from shoal.sink.outputs import FORMATS, FileOptions, Place

_MOST_ROWS = 2_000  # that are written at once,
_MOST_BYTES = 4 * 1024 * 1024  # and of their text
_FOLDER = ".shoal-export-"
_LEFT = 60.0  # seconds after which a folder that nobody has locked is one that a killed export left
_encode = msgspec.json.Encoder().encode


class Exporter:
    """Writes rows to places."""

    def __init__(self, places: Sequence[Place], settings: Settings, *, replace: bool = False) -> None:
        self._counts = dict.fromkeys(places, 0)
        self._settings = settings
        self._replace = replace
        self._files: dict[Place, _NewFile] = {}
        for place in places:
            if place.kind in ("database", "objects"):
                raise UsageError(f"-o {place.text}: an export writes files; name one, such as rows.csv")
            if place.kind == "file" and not place.is_template:
                self._open(place)  # a file that is in the way is told at once; and one without rows is made

    def add(self, item: str, row: Any, places: Sequence[Place] | None = None) -> None:
        """Writes a row of this kind to these places, or else to all that take such rows."""
        encoded = Row(_encode(row) + b"\n", table=item)
        for place in places if places is not None else [one for one in self._counts if one.takes(item)]:
            self._open(place.for_item(item) if place.is_template else place).add(encoded)
            self._counts[place] += 1

    def count(self, place: Place) -> int:
        """How many rows the place has got."""
        return self._counts[place]

    def finish(self) -> dict[str, int]:
        """Gives the files their names. Returns how many rows each has."""
        for file in self._files.values():
            file.complete()
        for file in self._files.values():
            file.publish()
        return {_shown(place): file.count for place, file in self._files.items()}

    def discard(self) -> None:
        """Removes what is not complete."""
        for file in self._files.values():
            file.discard()

    def _open(self, place: Place) -> _NewFile:
        if place not in self._files:
            if place.kind == "file" and not self._replace and place.path.exists():
                raise UsageError(
                    f"{place.path} is there already: choose another file with -o, or replace it with --fresh"
                )
            self._files[place] = _NewFile(place, self._settings)
        return self._files[place]


def _shown(place: Place) -> str:
    return "standard output" if place.kind == "stdout" else place.target


class _NewFile:
    """A file in a folder of its own, beside where it will be. What its format keeps beside it is there, too."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.count = 0
        self._place = place
        self._settings = settings
        self._folder: Path | None = None
        self._lock: int | None = None  # says that its export lives
        self._journal: LocalJournal | None = None
        self._printing: Journal | None = None  # to standard output
        self._position = 0
        self._rows: list[Row] = []
        self._size = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self.count += 1
        self._size += len(row.data)
        if len(self._rows) >= _MOST_ROWS or self._size >= _MOST_BYTES:
            self._write()

    def _write(self) -> None:
        rows, self._rows, self._size = self._rows, [], 0
        if self._place.kind == "stdout":
            self._position = self._printer().append(self._position, rows)
        elif rows:
            with self._naming():
                self._position = self._opened().write(self._position, rows)

    def _printer(self) -> Journal:
        if self._printing is not None:
            return self._printing
        made = make_journal(
            msgspec.structs.replace(self._place, item="").text, job="", settings=self._settings
        )
        assert made is not None
        self._printing = made
        return made

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Messages name the file that a person has asked for, and not the one that is written until it is complete."""
        try:
            yield
        except SinkError as error:
            if self._folder is None:
                raise
            path = self._place.path
            raise SinkError(str(error).replace(str(self._folder / path.name), str(path))) from error

    def _opened(self) -> LocalJournal:
        if self._journal is None:
            place = self._place
            try:
                place.path.parent.mkdir(parents=True, exist_ok=True)
                _sweep(place.path.parent)
                self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=place.path.parent))
                self._lock = _locked(self._folder)
            except OSError as error:
                raise SinkError(f"cannot write {place.path}: {error.strerror or error}") from error
            path = self._folder / place.path.name
            options = FileOptions(
                path, str(path), place.format, place.compression, {}, self._settings, str(place.path)
            )
            self._journal = FORMATS[place.format].make(options)
        return self._journal

    def complete(self) -> None:
        self._write()
        if self._place.kind == "file":
            with self._naming():
                journal = self._opened()
                if not self._position:
                    self._position = journal.write(0, ())
                journal.sync()
                journal.finish(self._position)
                journal.close()
            self._journal = None

    def publish(self) -> None:
        if self._folder is not None:
            place = self._place.path
            os.replace(self._folder / place.name, place)
            sync_folder(place.parent)
        self.discard()

    def discard(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _sweep(parent: Path) -> None:
    """Removes what killed exports have left."""
    for folder in parent.glob(f"{_FOLDER}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT and (lock := _locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """None: another process has locked it."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file
