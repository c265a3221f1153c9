"""What a fuzzing process shares with the one that watches it: how far it is, and the input it is at.

It lies in a file that both have mapped, so that it is still there when the process was killed, or died in a library
that is written in C.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_HEAD = struct.Struct("<QQQ")  # inputs done, signs of life, length of the current input
_ROOM = 4 * 1024 * 1024


class Share:
    def __init__(self, path: Path, *, new: bool = False) -> None:
        with path.open("w+b" if new else "r+b") as file:
            if new:
                file.truncate(_HEAD.size + _ROOM)
            self._map = mmap.mmap(file.fileno(), _HEAD.size + _ROOM)

    def begin(self, done: int, data: bytes) -> None:
        """Before an input is tried."""
        _, beats, _ = _HEAD.unpack_from(self._map)
        kept = data[:_ROOM]
        self._map[_HEAD.size : _HEAD.size + len(kept)] = kept
        _HEAD.pack_into(self._map, 0, done, beats + 1, len(kept))

    def finish(self, done: int) -> None:
        _, beats, size = _HEAD.unpack_from(self._map)
        _HEAD.pack_into(self._map, 0, done, beats + 1, size)

    @property
    def done(self) -> int:
        done: int = _HEAD.unpack_from(self._map)[0]
        return done

    @property
    def beats(self) -> int:
        beats: int = _HEAD.unpack_from(self._map)[1]
        return beats

    @property
    def current(self) -> bytes:
        size = _HEAD.unpack_from(self._map)[2]
        return self._map[_HEAD.size : _HEAD.size + size]

    def close(self) -> None:
        self._map.close()
