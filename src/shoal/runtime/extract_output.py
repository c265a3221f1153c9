"""Where `shoal extract` writes: to files that get their names when they are complete, because a rerun is cheap."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from msgspec.structs import replace

from shoal.errors import OutputTaken, SinkError, UsageError
from shoal.frontier.protocol import Journal
from shoal.model import Row
from shoal.settings import Settings
from shoal.sink import describe, make_journal
from shoal.sink.journals import LocalJournal
from shoal.sink.jsonl import describe_existing
from shoal.sink.objects.object_file import check_free, publish
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.outputs import FORMATS, Columns, Output, Place, by_place, read_output, with_rest
from shoal.sink.ownership import Owner, take_over


class ExtractOutput:
    """All outputs of a run. What is not complete is in hidden folders beside them, which the next run empties."""

    def __init__(
        self, output: Output, job: str, settings: Settings, columns: Columns, *, fresh: bool = False
    ) -> None:
        self._job = job
        self._settings = settings
        self._columns = columns
        self._fresh = fresh
        self._folders: dict[Path, int] = {}  # the hidden ones, and what holds their locks
        self._uploads: dict[Path, Place] = {}  # folders whose files go to an object store
        self._counts: Counter[Path] = Counter()  # rows of files that are uploaded
        self._position = 0
        places = read_output(output)
        for place in with_rest(places, job):
            self._check(place)
        try:
            self._places = [self._hidden(place) for place in places]
            journal = self._make(self._places)
        except OSError as error:
            self._remove()
            raise SinkError(f"cannot write {error.filename}: {error.strerror or error}") from error
        except BaseException:
            self._remove()
            raise
        self._journal = journal

    def _make(self, places: Sequence[Place]) -> Journal:
        texts = [place.text for place in places]
        journal = make_journal(texts, job=self._job, settings=self._settings, columns=self._columns)
        assert journal is not None
        return journal

    def _check(self, place: Place) -> None:
        if place.kind not in ("file", "stdout", "objects"):
            raise UsageError(
                f"-o {describe(place.text)}: shoal extract writes files, object stores and standard output only;"
                " a row in a database is replaced by that of a page which was fetched later, and no page was"
            )
        if place.kind == "stdout" or self._fresh:
            return
        if place.kind == "objects":
            if not place.is_template:  # what {item} stands for is known at the end
                check_free(ObjectStore(place.target, "-o"))
            return
        pattern = "*".join(glob.escape(part) for part in place.target.split("{item}"))
        for path in map(Path, glob.glob(pattern) if place.is_template else [place.target]):
            if existing := describe_existing(path):
                raise OutputTaken(f"{existing}; --fresh replaces it when the new rows are complete")

    def _hidden(self, place: Place) -> Place:
        """The place with a file that has not got its name yet."""
        if place.kind == "stdout":
            return place
        path, label = place.path, place.path.name.replace("{item}", "item")
        if place.kind == "objects":
            if "{item}" in place.target.rpartition("/")[0]:
                raise UsageError(f"-o {place.text}: {{item}} may be in the last part of the address only")
            path = Path(path.name)
            label += "-" + blake2b(place.target.encode(), digest_size=2).hexdigest()
        folder = path.with_name(f".{label}.extract")
        if folder not in self._folders:
            folder.mkdir(exist_ok=True)
            lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                raise OutputTaken(f"another shoal extract writes {path}: wait for its end") from None
            self._folders[folder] = lock
            _empty(folder)
        if place.kind == "objects":
            self._uploads[folder] = place
        return replace(place, kind="file", target=str(folder / path.name))

    def write(self, rows: Sequence[Row]) -> None:
        if self._uploads:
            for place, its_rows in by_place(with_rest(self._places, self._job), rows).items():
                self._counts[place.path] += len(its_rows)
        if isinstance(self._journal, LocalJournal):
            self._position = self._journal.write(self._position, rows)
        else:
            self._position = self._journal.append(self._position, rows)

    def finish(self) -> None:
        """The files get their names."""
        self._end(self._journal, self._position)
        for place in self._places:  # those that got no row replace earlier files, too
            if place.kind == "file" and not place.is_template and not place.path.exists():
                self._end(self._make([replace(place, item="")]), 0)
        owner = Owner(f"extract of {self._job}", time.time())
        try:
            self._upload(owner)
            for folder in self._folders.keys() - self._uploads.keys():
                for path in sorted(folder.iterdir()):
                    if not path.name.startswith("."):
                        os.replace(path, folder.parent / path.name)
                        take_over(folder.parent / path.name, owner)
        except OSError as error:
            raise SinkError(f"cannot name the output {error.filename}: {error.strerror or error}") from error
        self._remove()

    def _upload(self, owner: Owner) -> None:
        files = [
            (ObjectStore(f"{place.target.rpartition('/')[0]}/{path.name}", "-o"), path, place)
            for folder, place in self._uploads.items()
            for path in sorted(folder.iterdir())
            if not path.name.startswith(".")
        ]
        for store, _, _ in files:
            if not self._fresh:
                check_free(store)
        for store, path, place in files:
            suffix = FORMATS[place.format].suffixes[0] + (
                f".{place.compression}" if place.compression else ""
            )
            publish(store, path, self._counts[path], suffix, owner)

    def _end(self, journal: Journal, position: int) -> None:
        if isinstance(journal, LocalJournal):
            position = journal.append(position, ())
            journal.finish(position)
            journal.close()

    def abandon(self) -> None:
        if isinstance(self._journal, LocalJournal):
            self._journal.close()
        self._remove()

    def _remove(self) -> None:
        for folder, lock in self._folders.items():
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
        self._folders = {}


def _empty(folder: Path) -> None:
    for old in folder.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
