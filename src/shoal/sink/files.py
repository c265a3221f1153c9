"""Downloaded files on a disk: whole or not there, each content once.

    files/ab/abcdef…/name.pdf            a file, in a folder named after its content (SHA-256)
    files/.shoal/JOB/ke/KEY.part         a download that is not complete; KEY stands for the request
    files/.shoal/JOB/ke/KEY.json         what is known of it: enough to go on after a kill
    files/.shoal/JOB/ke/KEY.done         the file that the request led to: it is not fetched again by this job

A part belongs to the process that has it locked; a lock ends with its process. A complete part is moved into a folder
of its own, and that folder to its place: if the place is taken, the same bytes are stored already.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.clock import http_date
from shoal.errors import SinkError, SpiderError
from shoal.html.media import media_type
from shoal.sink.durable import sync_folder
from shoal.sink.file_names import disposition_name, file_name, safe_name
from shoal.sink.objects.object_store import ObjectStore, is_object_store
from shoal.spider.inner import File

_OWN = ".shoal"
_CHUNK = 1 << 20
# Errors of a path that a handler chose, and not of the disk.
_BAD_PATH = {errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP}
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SHOWN = 100  # characters of a path in a message
_OLD = 2 * 86400.0  # seconds
_RANGE = re.compile(r"bytes +(\d+)-(\d+)/(\d+|\*)")
T = TypeVar("T")


class Known(Struct, frozen=True, omit_defaults=True):
    """What is known of a download that is not complete."""

    etag: str = ""
    modified: str = ""
    length: int | None = None  # of the whole file
    name: str = ""  # that the server gave
    type: str = ""
    boot: str = ""  # of the system: after a crash of it, a part may hold what was never written


_encode = msgspec.json.Encoder().encode


def files_folder(setting: str, output: Path | None) -> Path:
    """Where files go, and parts of those that go to an object store. `output`: the file with the rows, if any."""
    if setting and not is_object_store(setting):
        return Path(setting)
    return (output.parent if output is not None else Path()) / "files"


class FileStore:
    """The files of one job, which was made at `made_at`. With `objects`, whole files go there."""

    def __init__(self, root: Path, job: str, made_at: float, objects: ObjectStore | None = None) -> None:
        self.root = root
        self._objects = objects
        self._name = safe_name(job) or "job"
        self._folder = root / _OWN / f"{self._name}-{_digest(f'{job}@{made_at:.3f}')[:12]}"

    def __repr__(self) -> str:
        return f"<FileStore {self.root}>"

    def done(self, key: str) -> File | None:
        """The file of a request that this job has made before, if it is still there."""
        try:
            file = msgspec.json.decode(self._base(key).with_suffix(".done").read_bytes(), type=File)
            there = self._objects is not None or os.stat(file.path).st_size == file.size
            return file if there else None
        except (OSError, msgspec.DecodeError):
            return None

    def part(self, key: str, cap: int) -> PartFile | None:
        """The part of a request; None: another process has it."""
        return self._told(lambda: PartFile.open(self._base(key), cap))

    def _base(self, key: str) -> Path:
        return self._folder / key[:2] / key  # a million in one folder would be slow

    def keep(self, part: PartFile, *, url: str, name: str, to: str) -> File:
        """Moves a complete part to its place. Raises SpiderError if no file can have the path `to`: that is a fault
        of one page, and must not end the crawl."""
        try:
            return self._keep(part, url, name, to)
        except OSError as error:
            if to and error.errno in _BAD_PATH:
                raise _bad_path(to, f"{error.strerror}; give another path") from None
            raise self.error(error) from None

    def _keep(self, part: PartFile, url: str, name: str, to: str) -> File:
        part.sync()
        known = part.known
        name = safe_name(name) or file_name(known.name, url, known.type)
        digest = part.sha256.hexdigest()
        folder = f"{digest[:2]}/{digest[:32]}"
        if self._objects is not None:
            objects = self._objects
            path = objects.put(part.path, to) if to else objects.put_once(part.path, folder, name, part.size)
            part.path.unlink()
        elif to:
            path = str(_move(part.path, self.root / to))
        else:
            path = str(_move_once(part.path, self.root / folder / name, part.size))
        # The same bytes may lie there under another name; a row has the name of its own file, whoever was first.
        file = File(url, path, path.rpartition("/")[2] if to else name, digest, part.size, known.type)
        _write_whole(part.base.with_suffix(".done"), _encode(file))
        part.forget()
        with suppress(OSError):
            os.utime(self._folder)  # it is in use
        return file

    def check(self, to: str) -> None:
        """Raises SpiderError unless it is a path for a file in this folder."""
        if _CONTROL.search(to):
            raise _bad_path(to, "it has control characters; leave them out")
        root, place = self.root.resolve(), (self.root / to).resolve()
        if not place.is_relative_to(root) or place == root:
            raise _bad_path(to, f"it is outside of {self.root}; give a path inside")
        if place.relative_to(root).parts[0] == _OWN:
            raise _bad_path(to, f"{_OWN} is for parts of files; give another path")

    def sweep(self) -> None:
        """The job has ended: nothing of it will be gone on with."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):
            (self.root / _OWN).rmdir()  # unless other jobs are there

    def sweep_others(self) -> None:
        """What is left of earlier jobs of this name. One of the same name in another store may be running, so only what
        has not changed for long."""
        for folder in (self.root / _OWN).glob(f"{glob.escape(self._name)}-{'?' * 12}"):
            with suppress(OSError):
                if folder != self._folder and time.time() - folder.stat().st_mtime > _OLD:
                    shutil.rmtree(folder, ignore_errors=True)

    def _told(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except OSError as error:
            raise self.error(error) from None

    def error(self, error: OSError) -> SinkError:
        return SinkError(
            f"cannot write to {self.root}: {error.strerror or error}; nothing is lost: make room, and run the same"
            " command again"
        )


def _bad_path(to: str, why: str) -> SpiderError:
    shown = to if len(to) <= _SHOWN else f"{to[:_SHOWN]}…"
    return SpiderError(f"page.download(to={shown!r}): {why}")


class PartFile:
    """The body of an answer on its way to a file."""

    def __init__(self, base: Path, file: int, cap: int) -> None:
        self.base = base
        self.path = base.with_suffix(".part")
        self._file = file
        self._most = cap
        self.known = self._read_known()
        self.size = os.fstat(file).st_size
        self.sha256 = hashlib.sha256()
        self.error: OSError | None = None  # why it cannot be written
        self.fetched = 0  # bytes that were received by this process
        self._asked = self._took = False  # the rest was asked for; the answer went here
        if self.size and (self.known.boot != _boot() or not (self.known.etag or self.known.modified)):
            self._begin()
        elif self.size:
            self._hash()

    @classmethod
    def open(cls, base: Path, cap: int) -> PartFile | None:
        base.parent.mkdir(parents=True, exist_ok=True)
        path = base.with_suffix(".part")
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file).st_ino == os.stat(path).st_ino:
                    shutil.rmtree(base.with_suffix(".d"), ignore_errors=True)
                    return cls(base, file, cap)
            except FileNotFoundError:
                pass  # whoever had it has moved it
            except BlockingIOError:
                os.close(file)
                return None
            os.close(file)

    @property
    def is_whole(self) -> bool:
        return self.size > 0 and self.size == self.known.length

    # -- called by transports

    @property
    def cap(self) -> int:
        return max(1, self._most - self.size)

    def headers(self) -> dict[str, str]:
        """Of the next request. Compressed on its way, a body could not be gone on with."""
        headers = {"Accept-Encoding": "identity"}
        version = self.known.etag or self.known.modified
        self._took, self._asked = False, self.size > 0 and bool(version)
        if self._asked:
            headers |= {"Range": f"bytes={self.size}-", "If-Range": version}
        return headers

    def takes(self, status: int, headers: Mapping[str, str]) -> bool:
        if status == 206:
            self._took = self._continues(headers)
        elif 200 <= status < 300:
            self._took = True
            try:
                self._begin()
                self._note(headers)
            except OSError as error:
                self.error = error
                raise
        return self._took

    def _continues(self, headers: Mapping[str, str]) -> bool:
        """Whether the answer is what is missing."""
        found = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
        if not self._asked or found is None or int(found[1]) != self.size or headers.get("Content-Encoding"):
            return False
        etag = headers.get("ETag")
        if etag is not None and self.known.etag and etag != self.known.etag:
            return False
        if found[3] != "*":
            self.known = replace(self.known, length=int(found[3]))
        return True

    def write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.error = error
            raise
        self.sha256.update(data)
        self.size += len(data)
        self.fetched += len(data)

    # -- called by whoever downloads

    def beginning(self, size: int) -> bytes:
        return os.pread(self._file, size, 0)

    def starts_anew(self) -> bool:
        """After an answer: whether the server does not have what is missing, so that all must be asked for again."""
        if not self._asked or self._took:
            return False
        self._begin()
        return True

    def missing(self) -> str:
        """After an answer: what is missing; "": it is complete."""
        if not self._took:
            return "the answer has only a part of the file, which nobody asked for"
        length = self.known.length
        if length is not None and length != self.size:
            return f"the file has {length} bytes, and {self.size} came"
        return ""

    def sync(self) -> None:
        os.fsync(self._file)

    def close(self, *, keep: bool = True) -> None:
        """`keep`: so that a later attempt can go on with it."""
        if not keep or not self.size:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            self.forget()
        os.close(self._file)

    def forget(self) -> None:
        with suppress(OSError):
            self.base.with_suffix(".json").unlink(missing_ok=True)

    def _begin(self) -> None:
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        self.known, self.size, self.sha256 = Known(), 0, hashlib.sha256()

    def _hash(self) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        while data := os.read(self._file, _CHUNK):
            self.sha256.update(data)

    def _note(self, headers: Mapping[str, str]) -> None:
        plain = not headers.get("Content-Encoding")
        etag, length = headers.get("ETag", ""), headers.get("Content-Length", "")
        self.known = Known(
            etag=etag if plain and etag.isascii() and not etag.startswith("W/") else "",
            modified=_last_change(headers) if plain and not etag else "",
            length=int(length) if plain and length.isascii() and length.isdigit() else None,
            name=disposition_name(headers.get("Content-Disposition", "")),
            type=media_type(headers.get("Content-Type", "")).encode("ascii", "replace").decode(),
            boot=_boot(),
        )
        _write_whole(self.base.with_suffix(".json"), _encode(self.known))

    def _read_known(self) -> Known:
        try:
            return msgspec.json.decode(self.base.with_suffix(".json").read_bytes(), type=Known)
        except (OSError, msgspec.DecodeError):
            return Known()


def request_key(method: str, url: str, body: bytes | None, to: str) -> str:
    """Stands for a request and where its file goes."""
    return _digest("\n".join([method, url, to]), body or b"")[:40]


def _digest(text: str, more: bytes = b"") -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") + b"\0" + more).hexdigest()


def _move(part: Path, to: Path) -> Path:
    """To a place that the handler chose. What is there is replaced."""
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, to)
    sync_folder(to.parent)
    return to


def _move_once(part: Path, to: Path, size: int) -> Path:
    """To the folder of its content, unless the content is there."""
    folder = part.with_suffix(".d")
    folder.mkdir(exist_ok=True)
    os.replace(part, folder / to.name)
    sync_folder(folder)
    to.parent.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, to.parent)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        there = [path for path in to.parent.iterdir() if path.stat().st_size == size]
        if not there:  # somebody has changed what is there
            os.replace(folder / to.name, to)
            there = [to]
        shutil.rmtree(folder, ignore_errors=True)
        to = min(there)
    sync_folder(to.parent.parent)
    return to


def _write_whole(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.new")
    part.write_bytes(data)
    os.replace(part, path)


def _last_change(headers: Mapping[str, str]) -> str:
    """Last-Modified, if it tells versions apart (RFC 9110, 8.8.2.2): not of a file that changed a moment ago."""
    modified = headers.get("Last-Modified", "")
    sent, changed = http_date(headers.get("Date", "")), http_date(modified)
    return modified if sent is not None and changed is not None and sent - changed >= 1 else ""


def _boot() -> str:
    """Changes when the system is started."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
