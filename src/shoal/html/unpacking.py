"""The text of a body, piece by piece: unpacked if it is a gzip file, decoded, and no more than a limit."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator

from shoal.html import charset
from shoal.html.decoding import NOT_DECODED, USER_DEFINED, mark_of

_GZIP = b"\x1f\x8b\x08"
_PIECE = 64 * 1024
_MEMBERS = 10_000  # gzip files in one: some programs begin a new one after 64 KB
_HEAD = 4 * 1024  # bytes by which the encoding is known


class TextPieces:
    """Iterates over the text. `is_cut` says afterwards that it had no end, or went beyond the limit."""

    def __init__(self, body: bytes, content_type: str = "", *, most: int) -> None:
        self._body = body
        self._content_type = content_type
        self._most = most
        self.is_cut = False
        self.problem = ""  # why it is cut

    def __iter__(self) -> Iterator[str]:
        pieces = self._bytes()
        head = next(pieces, b"")
        codec = _codec_of(head[:_HEAD], self._content_type)
        decoder = codecs.getincrementaldecoder(codec)("replace")
        yield decoder.decode(head).removeprefix("\ufeff")
        for piece in pieces:
            yield decoder.decode(piece)
        yield decoder.decode(b"", True)

    def _bytes(self) -> Iterator[bytes]:
        given = self._unpacked() if self._body.startswith(_GZIP) else self._plain()
        size = 0
        for piece in given:
            size += len(piece)
            if size > self._most:
                self._cut(f"more than {self._most:,} bytes")
                yield piece[: len(piece) - (size - self._most)]
                return
            yield piece

    def _plain(self) -> Iterator[bytes]:
        for at in range(0, len(self._body), _PIECE):
            yield self._body[at : at + _PIECE]

    def _unpacked(self) -> Iterator[bytes]:
        """Also of several gzip files, one after the other. What follows them and is none is padding."""
        rest, members = memoryview(self._body), 0
        while rest[:3] == _GZIP:
            members += 1
            if members > _MEMBERS:
                return self._cut(f"more than {_MEMBERS:,} gzip files in one")
            unpacker = zlib.decompressobj(wbits=31)
            while not unpacker.eof:
                waiting = unpacker.unconsumed_tail
                if not waiting:
                    if not rest:
                        return self._cut("the gzip file has no end")
                    waiting, rest = bytes(rest[:_PIECE]), rest[_PIECE:]
                try:
                    piece = unpacker.decompress(waiting, _PIECE)
                except zlib.error:
                    return self._cut("the gzip file is broken")
                if piece:
                    yield piece
            left = len(unpacker.unused_data)
            rest = memoryview(self._body)[len(self._body) - len(rest) - left :]

    def _cut(self, problem: str) -> None:
        self.is_cut, self.problem = True, problem


def _codec_of(head: bytes, content_type: str) -> str:
    """That of XML: what nothing is said about is UTF-8."""
    parameters = content_type.partition(";")[2]
    codec = mark_of(head) or charset.codec_of(head, f"text/xml;{parameters}")
    return "utf-8" if codec in (NOT_DECODED, USER_DEFINED) else codec
