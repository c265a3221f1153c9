"""Compressed members: one for each record, so that a record can be read without what comes before it."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

_zstd = import_module("compression.zstd") if sys.version_info >= (3, 14) else import_module("backports.zstd")
try:
    _isal: Any = import_module("isal.isal_zlib")  # more than twice as fast as zlib
except ImportError:
    _isal = None

Compression = Literal["gzip", "zstd"]
SUFFIXES: dict[Compression, str] = {"gzip": ".warc.gz", "zstd": ".warc.zst"}

_GZIP = 16 + zlib.MAX_WBITS
_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
# Setting up zlib takes as long as compressing a page. For request and metadata that is not worth it: without it a page
# takes 250 bytes more.
_SMALL = 1024
_MEMORY = 6  # with the default of 8, a page takes longer, and is not smaller
_CHUNK = 1 << 18


class Member(NamedTuple):
    """A record as it lies in a file."""

    offset: int
    length: int  # compressed
    data: bytes  # not compressed


def compress(data: bytes, compression: Compression = "gzip") -> bytes:
    """The data as one member, at the fastest level: a crawl writes much and reads little of it."""
    if compression == "zstd":
        packed: bytes = _zstd.compress(data, 1)
        return packed
    if len(data) < _SMALL:
        return _stored(data)
    if _isal is not None:
        member: bytes = _isal.compress(data, 1, _GZIP)
        return member
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP, _MEMORY)
    return packer.compress(data) + packer.flush()


def _stored(data: bytes) -> bytes:
    """A gzip member that is not compressed."""
    size = len(data)
    head = _HEADER + struct.pack("<BHH", 1, size, size ^ 0xFFFF)  # one block, the last
    return b"".join([head, data, struct.pack("<II", zlib.crc32(data), size)])


def decompress(data: bytes, compression: Compression = "gzip") -> bytes:
    """The data of the members. Raises ValueError if the last one is not whole."""
    pieces = []
    while data:
        one = _decompressor(compression)()
        try:
            pieces.append(one.decompress(data))
        except (zlib.error, _zstd.ZstdError) as error:
            raise ValueError(f"not {compression}: {error}") from None
        if not one.eof:
            raise ValueError("the last record is not whole")
        data = one.unused_data
    return b"".join(pieces)


def compression_of(name: str) -> Compression | None:
    """By the file's name; None: not a WARC file that is read here."""
    return next((kind for kind, suffix in SUFFIXES.items() if name.endswith(suffix)), None)


def members(path: Path, start: int = 0, end: int | None = None) -> Iterator[Member]:
    """The members between two offsets. Ends before one that is not whole, as a crash or a writer may leave it. Raises
    ValueError for what is not compressed data."""
    kind = compression_of(path.name)
    if kind is None:
        raise ValueError(f"{path.name} is not a .warc.gz or .warc.zst file")
    make = _decompressor(kind)
    with path.open("rb") as file:
        file.seek(start)
        left = (end if end is not None else path.stat().st_size) - start
        offset, rest = start, b""
        while rest or left > 0:
            one, pieces, used = make(), [], 0
            while not one.eof:
                if not rest:
                    rest = file.read(min(_CHUNK, left))
                    left -= len(rest)
                    if not rest:
                        return
                used += len(rest)
                try:
                    pieces.append(one.decompress(rest))
                except (zlib.error, _zstd.ZstdError) as error:
                    raise ValueError(f"{path}: no record at {offset}: {error}") from None
                rest = b""
            rest = one.unused_data
            used -= len(rest)
            yield Member(offset, used, b"".join(pieces))
            offset += used


def _decompressor(compression: Compression) -> Callable[[], Any]:
    if compression == "zstd":
        made: Callable[[], Any] = _zstd.ZstdDecompressor
        return made
    return lambda: zlib.decompressobj(_GZIP)
