"""HTTP/2 frames: where each ends, and how many a server may send that bring nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.fetch.failures import BrokenAnswerError, FloodError
from shoal.limits import ANSWER_HEADERS, EMPTY_FRAMES, FRAME_BYTES, FRAME_COST, FRAME_SHARE, SETTINGS_FRAME

HEAD = 9  # bytes before the payload of a frame
HEADERS, SETTINGS, GOAWAY, CONTINUATION = 1, 4, 7, 9  # types of frames


class Frames:
    """Cuts what arrives into frames, and counts those that bring nothing.

    A frame costs one, and more if it is long. What is taken of it as a body pays that back, and one more for each 64
    bytes. So any body of usual frames can pass, and what is empty, unasked for or in crumbs is soon too much.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers = 0  # bytes of the block that was begun last
        self._left: float = EMPTY_FRAMES

    def renew(self) -> None:
        """Something may be expected: a request was sent; or given up, with as much as its window on the way."""
        self._left = EMPTY_FRAMES

    def took(self, size: int) -> None:
        """So much of a body was taken."""
        self._left = min(EMPTY_FRAMES, self._left + size / FRAME_COST + size / FRAME_SHARE)

    def cut(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The frames that are complete: type and bytes."""
        self._buffer += data
        start, have = 0, len(self._buffer)
        try:
            while have - start >= HEAD:
                size = int.from_bytes(self._buffer[start : start + 3], "big")
                kind = self._buffer[start + 3]
                end = start + HEAD + size
                if size > FRAME_BYTES:
                    raise BrokenAnswerError(f"a frame of {size} bytes")
                if end > have:
                    return
                self._count(kind, size)
                yield kind, bytes(self._buffer[start:end])
                start = end
        finally:
            del self._buffer[:start]

    def _count(self, kind: int, size: int) -> None:
        if kind in (HEADERS, CONTINUATION):
            self._headers = size + (self._headers if kind == CONTINUATION else 0)
            if self._headers > ANSWER_HEADERS:
                raise BrokenAnswerError(f"headers of more than {ANSWER_HEADERS} bytes")
        if kind == SETTINGS and size > SETTINGS_FRAME:
            raise FloodError(f"a SETTINGS frame of {size} bytes")
        self._left -= 1 + size / FRAME_COST
        if self._left < 0:
            raise FloodError(f"more than {EMPTY_FRAMES:,} HTTP/2 frames that bring nothing")
