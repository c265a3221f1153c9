"""The identity of a result file, and the job that owns it.

On one machine a path identifies a file. Machines of a fleet share a store but not their files: the same path is another
file on each, and in containers a path stays while the machine's name changes. So a file has an id, stored in `.FILE.id`
beside it, which moves with it.

The same note names the job that owns the file. A job cuts its file back to the committed length, so with the file of
another job it would erase rows. Therefore a job claims its file before it writes, and gets it only if the file is empty
or its own. If several claim an empty file, the last one has it: the others are refused when they write their first row,
under the same lock.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct

from shoal.errors import OutputTaken, SinkError

try:
    import fcntl
except ImportError:  # without flock, two jobs that claim a file at the same moment may both get it
    fcntl = None  # type: ignore[assignment]

_LONGEST = 4096  # bytes of a note that are read
_LOGS = ("-wal", "-shm", ".wal")  # after the names of databases: a process that was killed leaves rows there


def folder_of(path: Path) -> Path:
    """Where the spool of a result file is, if it has one (`spool.py`)."""
    return path.with_name(f".{path.name}.parts")


class Owner(Struct, frozen=True):
    """A job. A new job of the same name is another owner."""

    job: str
    created_at: float


class FileClaim(Struct, frozen=True):
    """What a job knows when it opens its file."""

    owner: Owner
    committed: int | None = None  # bytes written to this file, if the store knows it
    replace: bool = False  # --fresh: the file of an earlier job of the same name may be renamed


class _Note(Struct):
    name: str = ""
    owner: Owner | None = None


def identity_of(path: Path) -> str:
    """The file's id; it gets one if it has none. Processes that ask at once get the same."""
    with _noted(path) as note:
        return f"{path.name} {note.name}"


def noted_name(path: Path) -> str:
    """The name in the file's id; "" if it has none."""
    try:
        return _decode(path.with_name(f".{path.name}.id").read_bytes()).name
    except OSError:
        return ""


def owner_of(path: Path) -> Owner | None:
    try:
        return _decode(path.with_name(f".{path.name}.id").read_bytes()).owner
    except OSError:
        return None


def take_over(path: Path, owner: Owner) -> None:
    """The file was replaced: it is not the job's any more that has written it."""
    if owner_of(path) is not None:
        with _noted(path) as note:
            note.owner = owner


def claim(path: Path, asked: FileClaim, *, replace_any: bool = False) -> None:
    """Makes the job the owner of the file, or raises `OutputTaken`. `replace_any`: the user allows to replace the file,
    whatever it holds."""
    with _noted(path) as note:
        if note.owner == asked.owner:
            return
        size = _size(path)
        mine = note.owner is None and asked.committed is not None  # written before files had owners
        namesake = note.owner is not None and note.owner.job == asked.owner.job
        if size and not mine:
            if replace_any:
                _empty(path)
            elif asked.replace and namesake:
                _move(path, _free_name(path))
            else:
                raise _refusal(path, size, note.owner)
        note.owner = asked.owner


@contextmanager
def held(path: Path, owner: Owner) -> Iterator[None]:
    """While the owner writes: nobody can claim the file. Raises `OutputTaken` if another job owns it."""
    with _noted(path) as note:
        if note.owner != owner:
            raise _refusal(path, _size(path), note.owner)
        yield


def _refusal(path: Path, size: int, owner: Owner | None) -> OutputTaken:
    whose = f"belongs to another job, {owner.job!r}" if owner is not None else "is not from this job"
    return OutputTaken(
        f"{path} {whose}, and holds {size:,} bytes: choose another file with -o, or move it away"
    )


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.{n}") for n in count(1))
    return next(name for name in names if not name.exists() and not folder_of(name).exists())


def _size(path: Path) -> int:
    """Bytes of the file, and of the rows in its spool."""
    sizes = 0
    for one in (path, *folder_of(path).glob("*-*")):
        with suppress(FileNotFoundError):
            sizes += one.stat().st_size
    return sizes


def _empty(path: Path) -> None:
    shutil.rmtree(folder_of(path), ignore_errors=True)
    with suppress(FileNotFoundError):
        os.truncate(path, 0)
    for log in _LOGS:
        path.with_name(path.name + log).unlink(missing_ok=True)


def _move(path: Path, to: Path) -> None:
    logs = [(path.with_name(path.name + log), to.with_name(to.name + log)) for log in _LOGS]
    for one, its in ((folder_of(path), folder_of(to)), (path, to), *logs):
        with suppress(FileNotFoundError):
            one.rename(its)


# -- the note beside a file


@contextmanager
def _noted(path: Path) -> Iterator[_Note]:
    """The note under a lock. Changes are written at the end."""
    beside = path.with_name(f".{path.name}.id")
    if path.exists() and not path.is_file():
        raise SinkError(f"cannot write {path}: not a regular file; results need one that can be resumed")
    try:
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            with suppress(OSError):  # a file system without locks
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
            before = os.pread(file, _LONGEST, 0)
            note = _decode(before)
            note.name = note.name or uuid.uuid4().hex
            yield note
            if (after := _encode(note)) != before:
                os.ftruncate(file, 0)
                os.pwrite(file, after, 0)
                os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise SinkError(
            f"cannot write {path}: {error.strerror or error}; {beside.name} beside it must be writable, and its folder"
        ) from error


def _encode(note: _Note) -> bytes:
    owner = msgspec.json.encode(note.owner) + b"\n" if note.owner is not None else b""
    return f"{note.name}\n".encode() + owner


def _decode(text: bytes) -> _Note:
    name, _, rest = text.partition(b"\n")
    try:
        owner = msgspec.json.decode(rest, type=Owner) if rest.strip() else None
        return _Note(name.decode().strip(), owner)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Note()  # damaged by a power cut: the length of the file decides
