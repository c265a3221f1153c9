"""The archive as a cache: pages that it has are not fetched again.

Only what is sure to be the same is answered with: a GET without a body, headers, cookies, session or proxy of its own,
by the same transport (plain or in a browser), whose answer was a page for a handler or a redirect. If the newest answer
to a URL is something else, such as an error, the page is fetched.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import apsw
from msgspec import Struct
from msgspec.structs import replace

from shoal.archive.http_record import read_response
from shoal.archive.index import Index, Place
from shoal.archive.reader import note_of
from shoal.archive.records import Metadata, is_plain, variant_of
from shoal.archive.warc_source import WarcError
from shoal.archive.warc_stream import Broken, Record, WarcFile
from shoal.errors import ShoalError
from shoal.model import Failure, Response, Task
from shoal.settings import BROWSER

_ALL = 1 << 40  # bytes
_PARTS = 3  # records of an answer: response, request, metadata
# Failures of a page that are the fault of its handler: the answer was good.
_OF_THE_HANDLER = frozenset({"", "handler", "handler_timeout", "junk", "hook"})


class CachedAnswer(Struct, frozen=True):
    response: Response
    record: str  # its id in the archive
    at: float  # when it was asked for
    handler: str = ""  # that it was fetched for; "": not known


class ArchiveCache:
    """Made for one thread. Not `exact`: the URL and the body are enough, whatever else the request was like, as for a
    person who looks at the page."""

    def __init__(
        self,
        folder: Path,
        cap: int,
        *,
        exact: bool = True,
        max_age: float = 0.0,
        refresh: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._cap = cap
        self._exact = exact
        self._max_age = max_age or math.inf  # seconds
        self._refresh = refresh  # patterns of URLs whose older answers do not count
        self._now = now
        self._opened = now()
        self._index: Index | None = None
        self._files: dict[str, WarcFile] = {}
        self.broken = 0  # records that could not be read

    def __repr__(self) -> str:
        return f"<ArchiveCache {self._folder}>"

    def open(self) -> int:
        """Reads what the index does not know yet, which may take a while. Returns the number of answers."""
        self._index = Index(self._folder)
        try:
            self._index.fill_all()
        except (ValueError, OSError):
            pass  # a file of another tool, which is not for this cache; or one that is removed just now
        return self._index.count()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}
        if self._index is not None:
            self._index.close()
            self._index = None

    def find(self, task: Task) -> CachedAnswer | None:
        """The newest answer, if it may stand for the one that a request would bring now."""
        if self._index is None or any(map(_has_failed, task.history)):
            return None
        if self._exact and not is_plain(task):
            return None
        try:
            variant, rendered = variant_of(task.method, task.body), task.lane == BROWSER
            # To be sure, it must be the newest of all.
            place = self._index.find(task.url, variant, rendered=None if self._exact else rendered)
            if place is None or place.entry.rendered != rendered:
                return None
            if self._is_old(place):
                return None
            return self._read(place)
        except (WarcError, OSError, apsw.Error, ShoalError):
            self.broken += 1
            return None

    def _is_old(self, place: Place) -> bool:
        """Whether its page is to be fetched again. What this process has fetched is new."""
        at, url = place.entry.at, place.entry.url
        if self._now() - at > self._max_age:
            return True
        return at < self._opened and any(fnmatchcase(url, pattern) for pattern in self._refresh)

    def _read(self, place: Place) -> CachedAnswer | None:
        entry = place.entry
        response = note = None
        for record in self._records(place):
            if record.type in ("response", "revisit"):
                response = record
            elif (note := note_of(record.block)) is not None:
                break
        if response is None or note is None or not self._may_answer(note, entry.status):
            return None
        answer = read_response(note.url or entry.url, response.block, own=True, cap=self._cap)
        if entry.kind == "revisit":
            answer = replace(answer, body=self._body(entry.digest))
        if self._exact and answer.status in range(300, 400) and "Set-Cookie" in answer.headers:
            return None  # its cookies are not in the archive, and the next page may need them
        return CachedAnswer(replace(answer, elapsed=note.elapsed), entry.id, note.fetched_at, note.handler)

    def _may_answer(self, note: Metadata, status: int) -> bool:
        if self._exact and (not note.plain or note.session):
            return False
        if note.verdict == "moved" or (note.inner and not note.failure):
            return 200 <= status < 400 and status != 304
        return (note.page or not self._exact) and note.failure in _OF_THE_HANDLER

    def _body(self, digest: str) -> bytes:
        index = self._index
        assert index is not None
        place = index.body_of(digest)
        if place is None:
            raise WarcError("its body is not in the archive")
        [record, *_] = self._records(place)
        return read_response(record.url, record.block, own=True, cap=self._cap).body

    def _records(self, place: Place) -> list[Record]:
        """The record at that place, and those that belong to it."""
        file = self._files.get(place.file)
        if file is None:
            file = self._files[place.file] = WarcFile(self._folder / place.file)
        found: list[Record] = []
        for record in file.records(lambda _: _ALL, place.offset):
            if isinstance(record, Broken):
                raise WarcError(record.reason)
            mine = record.id if not found else record.headers.get("warc-concurrent-to", "")
            if entry_id(mine) != place.entry.id:
                break
            found.append(record)
            if len(found) == _PARTS:
                break
        if not found:
            raise WarcError("another record is at its place")
        return found


def entry_id(urn: str) -> str:
    return urn.strip("<>").removeprefix("urn:uuid:")


def _has_failed(past: Failure) -> bool:
    return (
        past.attempt > 0 and past.kind != "empty_shell"
    )  # such a page goes to the browser, and has not failed
