"""Where `shoal extract` writes: to files that get their names when they are complete, because a rerun is cheap."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from shoal.errors import OutputTaken, SinkError, UsageError
from shoal.model import Row
from shoal.sink.jsonl import JsonLines, describe_existing


class ExtractedFile:
    """One output file. What is not complete is in a folder beside it, which the next run removes."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self._path = path
        if path.is_dir():
            raise UsageError(f"{path} is a directory: name a file")
        if not path.parent.is_dir():
            raise UsageError(f"{path}: there is no directory {path.parent}")
        if not fresh and (existing := describe_existing(path)):
            raise OutputTaken(f"{existing}; --fresh replaces it when the new rows are complete")
        self._folder = path.with_name(f".{path.name}.extract")
        self._lock = self._claim()
        self._journal = JsonLines(self._folder / path.name)
        self._position = 0

    def _claim(self) -> int:
        try:
            self._folder.mkdir(exist_ok=True)
            lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                raise OutputTaken(f"another shoal extract writes {self._path}: wait for its end") from None
            for old in self._folder.iterdir():
                old.unlink()
        except OSError as error:
            raise SinkError(f"cannot write {self._path}: {error.strerror or error}") from error
        return lock

    def write(self, rows: Sequence[Row]) -> None:
        self._position = self._journal.write(self._position, rows)

    def finish(self) -> None:
        """The file gets its name."""
        self._journal.write(self._position, ())
        self._journal.sync()
        self._journal.close()
        os.replace(self._folder / self._path.name, self._path)
        self._end()

    def abandon(self) -> None:
        self._journal.close()
        self._end()

    def _end(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


class Outputs:
    """All outputs of a run."""

    def __init__(self, files: Sequence[ExtractedFile]) -> None:
        self._files = files

    def write(self, rows: Sequence[Row]) -> None:
        for file in self._files:
            file.write(rows)

    def finish(self) -> None:
        for file in self._files:
            file.finish()

    def abandon(self) -> None:
        for file in self._files:
            file.abandon()
