"""An archive in an object store: WARC files that are written on this machine, and uploaded when they are full.

The files of a job grow in a hidden folder, exactly once, as those of any archive do. A file that the next one follows
is complete: a thread uploads it. The last one is uploaded when the job has ended. `JOB-TIME.json` lists the files that
count; it is written after them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from shoal.archive import cdxj
from shoal.archive.index import Index
from shoal.errors import ShoalError, SinkError
from shoal.events import event
from shoal.sink.durable import sync_folder
from shoal.sink.objects.in_objects import InObjects
from shoal.sink.objects.object_parts import remove
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.outputs import plain_name
from shoal.sink.ownership import FileClaim
from shoal.sink.spool_folder import locked
from shoal.sink.warc_files import ArchiveJournal, place_of

_CHUNK = 8 << 20  # bytes of a file that are read at once
_PAUSES = (1.0, 5.0, 30.0)  # seconds before an upload that failed is tried again


class Uploads(Struct, frozen=True):
    """The files of a job in the object store."""

    job: str = ""
    files: dict[str, int] = field(default_factory=dict)  # name -> bytes
    finished_at: float | None = None


class ObjectArchive(ArchiveJournal, InObjects):
    option = "--archive"

    def __init__(self, store: ObjectStore, job: str, **options: Any) -> None:
        super().__init__(spool_folder(store.url, job), job, **options)
        self.store = store
        with self._complaining():
            self.folder.mkdir(exist_ok=True)
        self._full = 0  # so many files are complete
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failures = 0
        self._retry_at = 0.0

    def __repr__(self) -> str:
        return f"<ObjectArchive {self.store.url}>"

    def claim(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        """Shows that the job may write there. Other jobs have files of other names."""
        self.owner = asked.owner
        self.store.put(self.store.get(self._list_name) or _packed(Uploads(self._job)), self._list_name)

    def write(self, committed: int, rows: Any) -> int:
        self._full = place_of(committed)[0]
        return super().write(committed, rows)

    def _cut(self, number: int, offset: int) -> None:
        files = self._uploads()
        kept = {name: size for name, size in files.items() if (_number(name), size) <= (number, offset)}
        if len(kept) < len(files):  # the store went back: what was uploaded will be another file
            self._note_uploads(kept)
        super()._cut(number, offset)

    def _is_away(self, number: int) -> bool:
        return self.name_of(number) in self._uploads() and self._size(number) is None

    def tend(self) -> int:
        """Uploads files that are complete. Returns the bytes that wait, if that is more than the last of them."""
        waiting = self._waiting(self._full)
        is_running = self._thread is not None and self._thread.is_alive()
        if waiting and not is_running and time.monotonic() >= self._retry_at:
            self._thread = threading.Thread(target=self._upload_in_thread, name="shoal-archive", daemon=True)
            self._thread.start()
        return sum(size for _, size in waiting[:-1])

    def finish(self, committed: int) -> None:
        """Uploads all that is committed, and lists it."""
        super().finish(committed)
        number, offset = place_of(committed)
        with self._complaining(), self._uploading(wait=True):
            self._upload(number)
            files = self._uploads()
            if offset and files.get(self.name_of(number)) != offset:
                files = self._put(number, offset)
            self._check_stored(files)
            index = self.folder / cdxj.NAME
            if index.exists():
                self.store.put(index, f"{self._stem}.cdxj")
            self.store.put(_packed(Uploads(self._job, files, time.time())), self._list_name)

    def _check_stored(self, files: dict[str, int]) -> None:
        """Removes files of ours that do not count. An upload that was given up may have come late: then the file is
        not the one that was uploaded last."""
        listed = self.store.sizes()
        others = [key for key in listed if key.startswith(f"{self._stem}-") and key not in files]
        remove(self.store, others)
        for name, size in files.items():
            if listed.get(name) == size:
                continue
            if self._size(_number(name)) is None:
                raise SinkError(
                    f"{self.store.url}/{name} was changed or removed: restore it, or start again with --fresh"
                )
            self.store.put(_first(self.folder / name, size), name)

    def close(self) -> None:
        """Waits until the thread has uploaded the file that it is at."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._stopping.clear()
        super().close()

    # -- uploading

    @property
    def _stem(self) -> str:
        """What the names of all its files begin with."""
        return self.name_of(0).partition("-00000.")[0]

    @property
    def _list_name(self) -> str:
        return f"{self._stem}.json"

    def _waiting(self, full: int) -> list[tuple[int, int]]:
        """Complete files that are not uploaded, with their sizes."""
        files = self._uploads()
        sizes = {one: self._size(one) for one in range(full)}  # None: uploaded, and removed here
        return [
            (one, size)
            for one, size in sizes.items()
            if size is not None and files.get(self.name_of(one)) != size
        ]

    def _upload_in_thread(self) -> None:
        try:
            with self._complaining(), self._uploading(wait=False) as free:
                if free:  # else another process is at it
                    self._upload(self._full)
            self._failures = 0
        except ShoalError as error:
            if not self._failures:
                event("sink_waits", sink=self.store.url, reason=str(error))
            self._retry_at = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
            self._failures += 1

    def _upload(self, full: int) -> None:
        """Uploads the files before that number. The last of them stays on the disk: the store may go back."""
        for one, size in self._waiting(full):
            if self._stopping.is_set():
                return
            files = self._put(one, size)
            self.store.put(_packed(Uploads(self._job, files)), self._list_name)
        index = Index(self.folder)
        try:
            for one in range(full - 1):
                path = self.folder / self.name_of(one)
                if path.exists():
                    index.fill(path.name)  # afterwards it cannot be read any more
                    path.unlink()
        finally:
            index.close()

    def _put(self, number: int, size: int) -> dict[str, int]:
        """Uploads one file. Returns all that are uploaded."""
        name = self.name_of(number)
        self.store.put(_first(self.folder / name, size), name)
        files = {**self._uploads(), name: size}
        self._note_uploads(files)
        return files

    @contextmanager
    def _uploading(self, *, wait: bool) -> Iterator[bool]:
        with locked(self.folder / f".{self._name}.upload.lock", float("inf") if wait else 0.0) as free:
            yield free

    # -- what is uploaded

    def _uploads(self) -> dict[str, int]:
        """Names and sizes. It is read each time: another process may upload."""
        try:
            return msgspec.json.decode(self._note_path.read_bytes(), type=dict[str, int])
        except FileNotFoundError:
            return {}

    def _note_uploads(self, files: dict[str, int]) -> None:
        new = self._note_path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(files))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._note_path)
        sync_folder(self.folder)

    @property
    def _note_path(self) -> Path:
        return self.folder / f".{self._stem}.uploaded"


def spool_folder(url: str, job: str) -> Path:
    """Where the files for this address grow, in the current folder."""
    mark = blake2b(url.encode(), digest_size=2).hexdigest()
    return Path(f".{plain_name(job)}-archive-{mark}")


def _number(name: str) -> int:
    return int(name.partition(".warc")[0].rpartition("-")[2])


def _packed(uploads: Uploads) -> bytes:
    return msgspec.json.format(msgspec.json.encode(uploads), indent=1) + b"\n"


def _first(path: Path, size: int) -> Iterator[bytes]:
    """The first bytes of a file: it may grow."""
    with path.open("rb") as file:
        while size:
            data = file.read(min(size, _CHUNK))
            if not data:
                raise OSError(f"{path} is shorter than it was")
            size -= len(data)
            yield data
