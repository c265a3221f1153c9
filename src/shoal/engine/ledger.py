"""What a run has counted, in memory that outlives its process: if that dies, the next one goes on counting from there.

Two slots are written in turns, each with a number and a checksum: a process that dies while it writes leaves the other.
What was counted in the half second before its death is missing.
"""

from __future__ import annotations

import os
import struct
import zlib

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.tally import TallyReport
from shoal.text import UNREADABLE

_HEAD = struct.Struct("<QII")  # number, length, checksum
_SLOT = 1 << 20  # bytes; a report has a few thousand


class Page(Struct, frozen=True):
    report: TallyReport = TallyReport()
    elapsed: float = 0.0  # seconds of the run
    restarts: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Page).decode


class Ledger:
    """`file`: one that the next process inherits; None: there will be none."""

    def __init__(self, file: int | None) -> None:
        self._file = file
        self._number, known = 0, None
        for slot in range(2):
            number, page = self._read(slot)
            if number > self._number:
                self._number, known = number, page
        self.before = Page()  # what the processes before this one had counted
        if known is not None:
            report = replace(known.report, in_flight=0)
            self.before = replace(known, report=report, restarts=known.restarts + 1)

    def write(self, page: Page) -> None:
        data = _encode(page)
        if self._file is None or len(data) > _SLOT - _HEAD.size:
            return
        self._number += 1
        head = _HEAD.pack(self._number, len(data), _checksum(self._number, data))
        os.pwrite(self._file, head + data, self._number % 2 * _SLOT)

    def _read(self, slot: int) -> tuple[int, Page | None]:
        if self._file is None or len(head := os.pread(self._file, _HEAD.size, slot * _SLOT)) < _HEAD.size:
            return 0, None
        number, length, checksum = _HEAD.unpack(head)
        data = os.pread(self._file, length, slot * _SLOT + _HEAD.size)
        try:
            return (number, _decode(data)) if _checksum(number, data) == checksum else (0, None)
        except UNREADABLE:
            return 0, None


def _checksum(number: int, data: bytes) -> int:
    """With the number: one that was written without its page would make an old page the newest."""
    return zlib.crc32(data, zlib.crc32(number.to_bytes(8, "little")))
