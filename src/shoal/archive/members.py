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
_STORED = _HEADER + b"\x01"  # one block, the last, not compressed
_FIRST = 8 * 1024  # bytes that are decompressed at first: what follows a member is copied
_MOST = 1024 * 1024  # bytes of a member, decompressed


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
    head = _STORED + struct.pack("<HH", size, size ^ 0xFFFF)
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


def whole_member(
    data: bytes, at: int, most: int, new: Callable[[], Any] | None = None
) -> tuple[bytes, int] | None:
    """The member that begins there, and where it ends. None: it is not whole in `most` bytes, or is none. `new` makes a
    decompressor; without it that is one for gzip."""
    if new is None and data.startswith(_STORED, at):
        return _whole_stored(data, at)
    decoder = _fast_gunzip() if new is None else new()
    packed = data[at : at + _FIRST]
    try:
        unpacked = decoder.decompress(packed, _MOST)
        if not decoder.eof and len(packed) == _FIRST and len(unpacked) < _MOST:
            packed = data[at + _FIRST : at + most]
            at += _FIRST
            unpacked += decoder.decompress(packed, _MOST)
    except Exception:  # each library has its own
        return None
    return (unpacked, at + len(packed) - len(decoder.unused_data)) if decoder.eof else None


def _whole_stored(data: bytes, at: int) -> tuple[bytes, int] | None:
    """What `_stored` made."""
    start = at + len(_STORED) + 4
    end = start + int.from_bytes(data[start - 4 : start - 2], "little")
    stored = data[start:end]
    if data[end : end + 8] != struct.pack("<II", zlib.crc32(stored), len(stored)):
        return None
    return stored, end + 8


def _fast_gunzip() -> Any:
    return (zlib if _isal is None else _isal).decompressobj(_GZIP)


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
