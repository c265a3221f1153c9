"""Content encodings, undone piece by piece: what comes out is never much at once, however little goes in."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp.compression_utils import (
    BrotliDecompressor,
    DecompressionBaseHandler,
    ZLibDecompressor,
    ZSTDDecompressor,
)

from shoal.fetch.failures import UndecodableBodyError

_PART = 256 * 1024


class Decoder:
    """For one body. Encodings that we do not ask for pass as they are."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        if "," in self._encoding:
            raise UndecodableBodyError(f"several content encodings at once: {encoding}")
        self._started = False
        self._inner = self._decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            yield data
            return
        if not self._started and data:
            self._started = True
            if self._encoding == "deflate" and data[0] & 0xF != 8:  # without the header it should have
                self._inner = ZLibDecompressor(encoding="deflate", suppress_deflate_header=True)
        try:
            yield self._inner.decompress_sync(data, max_length=_PART)
            while self._inner.data_available:
                yield self._inner.decompress_sync(b"", max_length=_PART)
        except Exception as error:  # each library has its own
            raise UndecodableBodyError(
                f"the body could not be decompressed: {self._encoding}, {error}"
            ) from None

    def _decompressor(self) -> DecompressionBaseHandler | None:
        match self._encoding:
            case "gzip" | "deflate":
                return ZLibDecompressor(encoding=self._encoding)
            case "br":
                return BrotliDecompressor()
            case "zstd":
                return ZSTDDecompressor()
        return None
