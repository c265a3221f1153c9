"""Compression of result files.

What is committed together is a member (gzip) or a frame (Zstandard) of its own. So a file can be cut between two
commits, and what is left is a complete file. Readers of both formats take members one after another.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, BinaryIO, Protocol, cast

# Commits are small and there are many of them: higher levels cost much more time than they save space.
_GZIP_LEVEL = 4
_ZSTD_LEVEL = 3
_GZIP = 31  # what zlib calls a gzip header, with the largest window


class Compression(Protocol):
    errors: tuple[type[Exception], ...]  # of `reader`, if the file is damaged

    def compress(self, data: bytes) -> bytes:
        """One complete member."""
        ...

    def reader(self, file: BinaryIO) -> BinaryIO:
        """What the file holds, member after member."""
        ...


class Plain:
    errors: tuple[type[Exception], ...] = ()

    def compress(self, data: bytes) -> bytes:
        return data

    def reader(self, file: BinaryIO) -> BinaryIO:
        return file


class Gzip:
    errors: tuple[type[Exception], ...] = (zlib.error, gzip.BadGzipFile)

    def compress(self, data: bytes) -> bytes:
        return zlib.compress(data, _GZIP_LEVEL, wbits=_GZIP)

    def reader(self, file: BinaryIO) -> BinaryIO:
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))


class Zstandard:
    def __init__(self) -> None:
        self._zstd: Any = (
            import_module("compression.zstd")
            if sys.version_info >= (3, 14)
            else import_module("backports.zstd")
        )
        self.errors: tuple[type[Exception], ...] = (self._zstd.ZstdError,)
        parameter = self._zstd.CompressionParameter
        options = {parameter.compression_level: _ZSTD_LEVEL, parameter.checksum_flag: 1}
        self._compressor = self._zstd.ZstdCompressor(
            options=options
        )  # to make one costs more than a small frame

    def compress(self, data: bytes) -> bytes:
        frame: bytes = self._compressor.compress(data, self._compressor.FLUSH_FRAME)
        return frame

    def reader(self, file: BinaryIO) -> BinaryIO:
        return cast(BinaryIO, self._zstd.ZstdFile(file, "rb"))


COMPRESSIONS: Mapping[str, type[Compression]] = {".gz": Gzip, ".zst": Zstandard}  # by suffix
