"""A spool: rows wait in a journal of their own until they are shipped, for formats that cannot be appended to.

`append` writes rows to the last segment of a journal (`spool_folder.py`), exactly once by the committed position: the
bytes of all segments. A segment that is long enough is closed, at a position that is committed, and the next one is
begun. A thread hands closed segments to a *shipper*: to one that writes a part of a Parquet file, or an object of an
object store. When the shipper has stored the rows, the segment is not needed any more.

The store may go back some seconds, after a power cut or a failover. So what was shipped is kept for a minute, and the
last such segment for as long as it is the last: if the committed position is inside it, what was shipped is taken back,
and the segment is gone on with.

Of several processes, the one that has the lock ships. Whoever takes something back waits for that lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from shoal.errors import ShoalError, SinkError
from shoal.events import event
from shoal.limits import MB
from shoal.model import Row
from shoal.sink.durable import sync, write_at
from shoal.sink.ownership import Owner, folder_of, held
from shoal.sink.spool_folder import Segment, SpoolFolder, line_of

SEGMENT = 16 * MB  # bytes after which a segment is closed: what a reader of Parquet likes to read at once
KEPT = 60.0  # seconds that a segment is kept at least after its last row
_PATIENCE = 60.0  # seconds that `append` waits for a shipper, if the store went back
_PAUSES = (1.0, 5.0, 30.0)  # seconds before a shipper that failed is tried again


class Part(Struct, frozen=True):
    """The rows of one segment. If it is shipped before the segment is closed (by `finish`), it is shipped again later,
    under the same number and with more rows."""

    number: int  # 1, 2, 3 …
    start: int  # its range of positions
    end: int
    stem: str  # a name that no other part has


class Shipper(Protocol):
    """Takes the rows of a spool to where they belong. Called by one thread of one process at a time."""

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        """Stores the rows. They must be durable when this returns, for their segment is removed then. Replaces what was
        stored for a part of the same number: after a crash a part is shipped again. Raises SinkError if it must be
        tried again later."""
        ...

    def unship(self, part: Part) -> None:
        """Takes a part back, if it was shipped: its rows were never committed, because the store went back."""
        ...

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        """All rows up to this position are shipped. `parts`: those whose segments are still there, in order; each of
        the others ended before the first of these."""
        ...


class Spool:
    """A journal for a `Shipper`. Several processes may share it."""

    def __init__(
        self, path: Path, shipper: Shipper, key: str = "", *, segment: int = SEGMENT, kept: float = KEPT
    ) -> None:
        self.path = path
        self.key = key or os.path.abspath(path)
        self.owner: Owner | None = None  # the job that claimed it
        self.folder = SpoolFolder(folder_of(path))
        self._shipper = shipper
        self._segment = segment
        self._kept = kept
        self._file: int | None = None  # the last segment that was written
        self._stem = ""  # … and its name
        self._is_new = False  # its name is not durable yet
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failures = 0
        self._retry_at = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # -- the journal

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        end = self.write(committed, rows)
        self.sync()
        return end

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        """`append`, but not durable yet."""
        data = b"".join(map(line_of, rows))
        # Until something is committed, another job that finds the file empty may take it.
        ours = held(self.path, self.owner) if self.owner is not None and not committed else nullcontext()
        with ours, self._complaining():
            self.folder.make()
            segments = self.folder.segments()
            if segments and (segments[-1].start > committed or segments[-1].shipped):
                segments = self._go_back(committed)
            last = self._cut(segments, committed)
            if last is None or committed - last.start >= self._segment:
                last = self.folder.create(last.number + 1 if last is not None else 1, committed)
                segments.append(last)
                self._is_new = True
            write_at(self._open(last), data, committed - last.start)
        if any(not segment.shipped for segment in segments[:-1]):
            self._ship_soon()
        return committed + len(data)

    def sync(self) -> None:
        with self._complaining():
            if self._file is not None:
                sync(self._file)
            if self._is_new:
                self.folder.sync()
                self._is_new = False

    def fileno(self) -> int:
        """Something to lock."""
        with self._complaining():
            return self.folder.fileno()

    def check(self, committed: int) -> None:
        """Checks that rows can be written, and that none are missing. Changes nothing that others use."""
        with self._complaining():
            self.folder.make()
            self.folder.fileno()
            segments = self.folder.segments()
            self._last(segments, committed)

    def close(self) -> None:
        """Waits until the thread has shipped the segment that it is at."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._stopping.clear()
        self._close_segment()
        self.folder.close()

    def backlog(self) -> int:
        """Bytes that wait to be shipped, and whose segments are closed."""
        return sum(
            after.start - one.start for one, after in pairwise(self.folder.segments()) if not one.shipped
        )

    def tend(self) -> int:
        """Goes on with what could not be shipped, also if no rows come any more. Returns what waits."""
        waits = self.backlog()
        if waits:
            self._ship_soon()
        return waits

    def rows(self, position: int, committed: int) -> Iterator[Row]:
        """Rows that are still in the spool, from a position on that is the start of a segment."""
        segments = self.folder.segments()
        for place, segment in enumerate(segments):
            end = segments[place + 1].start if segment is not segments[-1] else committed
            if segment.start >= position:
                yield from self.folder.rows(segment, min(end, committed))

    # -- the last segment

    def _cut(self, segments: list[Segment], committed: int) -> Segment | None:
        """The last segment, without what is beyond the committed position."""
        last = self._last(segments, committed)
        if last is not None and self.folder.size(last) > committed - last.start:
            os.ftruncate(self._open(last), committed - last.start)
        return last

    def _last(self, segments: list[Segment], committed: int) -> Segment | None:
        """The segment that the position is in. Raises SinkError if it is not there."""
        inside = [segment for segment in segments if segment.start <= committed]
        if segments and not inside:
            raise SinkError(
                f"the store went back to byte {committed:,} of the rows for {self.path}; they can be taken back to byte"
                f" {segments[0].start:,} only: restore a later copy of the store, or start again with --fresh"
            )
        if not inside and committed == 0:
            return None
        if not inside or self.folder.size(inside[-1]) < committed - inside[-1].start:
            raise SinkError(
                f"{self.folder.path} holds less than what this job has written ({committed:,} bytes): it was changed or"
                " removed; restore it or start again with --fresh"
            )
        return inside[-1]

    def _open(self, segment: Segment) -> int:
        if self._file is None or self._stem != segment.stem:
            self._close_segment()
            self._file = self.folder.open(segment)
            self._stem = segment.stem
        return self._file

    def _close_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    # -- the store went back

    def _go_back(self, committed: int) -> list[Segment]:
        """Removes the segments that begin beyond the committed position, and what was shipped of them. After a crash
        in here the next `append` does the rest: the last segment goes first, and its part before it."""
        with self.folder.shipping(_PATIENCE) as free:
            if not free:
                raise SinkError(
                    f"the store went back, but another process is still writing rows for {self.path}; nothing is lost:"
                    " run the same command again"
                )
            segments = self.folder.segments()
            last = self._last(segments, committed)
            for segment, end in reversed(_with_ends(segments)):
                if segment.start > committed:
                    self._shipper.unship(_part(segment, end))
                    self.folder.remove(segment)
                elif segment == last and segment.shipped:
                    self._shipper.unship(_part(segment, end))
                    self.folder.mark(segment, shipped=False)
            # Otherwise a power cut could bring back what was removed, when other rows have taken its place.
            self.folder.sync()
            return self.folder.segments()

    # -- shipping

    def finish(self, committed: int) -> None:
        """Ships everything. Others may go on to append."""
        with self._complaining():
            self.folder.make()
            with self.folder.shipping(float("inf")):
                self._ship_closed()
                segments = self.folder.segments()
                position = max(committed, segments[-1].start) if segments else 0
                self._last(segments, position)
                parts = [_part(one, end or position) for one, end in _with_ends(segments)]
                if parts and parts[-1].end > parts[-1].start:
                    self._shipper.ship(parts[-1], self.folder.rows(segments[-1], position))
                elif parts:  # it may have had rows when it was shipped the last time
                    self._shipper.unship(parts[-1])
                self._shipper.finish(position, parts)

    def _ship_soon(self) -> None:
        """Ships closed segments in a thread, unless it is at it."""
        is_running = self._thread is not None and self._thread.is_alive()
        if not is_running and time.monotonic() >= self._retry_at:
            self._thread = threading.Thread(target=self._ship_in_thread, name="shoal-spool", daemon=True)
            self._thread.start()

    def _ship_in_thread(self) -> None:
        try:
            with self._complaining(), self.folder.shipping(0) as free:
                if free:  # else another process is at it
                    self._ship_closed()
            self._failures = 0
        except ShoalError as error:
            if not self._failures:
                event("sink_waits", sink=str(self.path), reason=str(error))
            self._retry_at = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
            self._failures += 1

    def _ship_closed(self) -> None:
        """Ships all closed segments; removes those that are not needed any more."""
        while True:
            closed = _with_ends(self.folder.segments())[:-1]
            for segment, _ in closed[:-1]:
                if not segment.shipped or self.folder.age(segment) < self._kept:
                    break
                self.folder.remove(segment)
            waiting = [(segment, end) for segment, end in closed if not segment.shipped]
            if not waiting or self._stopping.is_set():
                return
            segment, end = waiting[0]
            self._shipper.ship(_part(segment, end), self.folder.rows(segment, end))
            self.folder.mark(segment, shipped=True)

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"cannot write {self.path}: {error.strerror or error}; nothing is lost, make room or choose another"
                " file system and run again"
            ) from error


def _with_ends(segments: list[Segment]) -> list[tuple[Segment, int]]:
    """Segments and where they end; 0: the last one, which is not closed."""
    ends = [segment.start for segment in segments[1:]] + [0]
    return list(zip(segments, ends, strict=False))


def _part(segment: Segment, end: int) -> Part:
    return Part(segment.number, segment.start, end, segment.stem)
