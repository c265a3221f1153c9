"""Reads a body and decodes its content encodings in bounded pieces, and measures how fast it arrives.

The names of encodings are hints, as for curl: data called deflate may be gzip, or have no header. Unknown encodings
pass unchanged. A body whose compressed data ends early is a failure, even if Content-Length fits: half a page would
pass for a page. A missing checksum is accepted.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import brotli  # type: ignore[import-untyped]
from multidict import MultiMapping

from shoal.fetch.slots import SMALL, received
from shoal.fetch.transport import FetchRequest
from shoal.limits import CONTENT_ENCODINGS, KB, ZSTD_FRAMES, ZSTD_SHARE

_zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

_PART = 256 * KB
# At the end of each gzip member zlib copies the rest. Members may be many, so the rest is kept short.
_SLICE = 16 * KB
_SMALL = 64 * KB  # compressed, a small body may be longer than before
_TURN = 64  # parts, after which others have their turn: some 10 ms of work


class BodyTooLargeError(Exception):
    """The decoded body passed its cap."""


class TooSlowError(Exception):
    """The answer arrives more slowly than min_rate."""

    def __init__(self, received: int, seconds: float) -> None:
        super().__init__(f"only {received} bytes in the last {seconds:.1f} s; lower min_rate to take it")


class CutBodyError(Exception):
    """The body ends before its compressed data does."""


class UndecodableBodyError(Exception):
    """The body has an encoding that is not decoded."""


async def read_body(
    read: Callable[[], Awaitable[bytes]],
    encoding: str,
    *,
    cap: int,
    truncate: bool,
    write: Callable[[bytes], None] | None = None,
) -> tuple[int, bytes]:
    """The length of the body as sent, and the decoded body. Holds little more than `cap` bytes, even if a small bomb
    unpacks to gigabytes. `read` returns the next piece, and b"" at the end. With `write`, the body goes there, and is
    not returned."""
    decoder = Decoder(encoding, cap)
    parts: list[bytes] = []
    size = count = 0
    while piece := await read():
        for part in decoder.feed(piece):
            count += 1
            if count % _TURN == 0:
                await asyncio.sleep(0)
            if not part:
                continue
            size += len(part)
            if write is None:
                parts.append(part)
                if size > SMALL:
                    await received(size)
            elif size <= cap:
                write(part)
            if size <= cap:
                continue
            if truncate:
                return decoder.taken, b"".join(parts)[:cap]
            setting = "max_body" if write is None else "max_file"
            raise BodyTooLargeError(f"the body is larger than {cap} bytes; raise {setting} to take it")
    if decoder.taken:
        decoder.check_end(nothing=not size)
    return decoder.taken, b"".join(parts)


async def read_answer(
    read: Callable[[], Awaitable[bytes]],
    request: FetchRequest,
    status: int,
    headers: MultiMapping[str],
    max_body: int,
) -> tuple[int, bytes]:
    """`read_body`, of an answer with that head: into memory, or into the sink of the request."""
    encoding = ",".join(headers.getall("Content-Encoding", ()))
    sink = request.sink
    if sink is not None and sink.takes(status, headers):
        return await read_body(read, encoding, cap=sink.cap, truncate=False, write=sink.write)
    return await read_body(read, encoding, cap=request.max_body or max_body, truncate=request.truncate)


class Decoder:
    """Decodes one body. No layer of its encodings may be larger than twice the cap."""

    def __init__(self, encoding: str, cap: int) -> None:
        self.taken = 0  # bytes
        self._most = 2 * cap + _SMALL
        said = encoding.lower().split(",") if encoding else ()
        names = [name for part in said if (name := part.strip()) in _LAYERS]
        if len(names) > CONTENT_ENCODINGS:
            raise UndecodableBodyError(f"{len(names)} content encodings at once")
        self._layers = [_LAYERS[name](name) for name in reversed(names)]

    def feed(self, data: bytes) -> Iterable[bytes]:
        """What it decodes to, in parts. Some are empty: what was done for them takes time, too."""
        self.taken += len(data)
        pieces: Iterable[bytes] = (data,)
        for layer in self._layers:
            pieces = self._through(layer, pieces)
        return pieces

    def check_end(self, *, nothing: bool) -> None:
        """Raises if the compressed data is incomplete. `nothing`: no byte came out."""
        for layer in self._layers:
            if layer.is_whole():
                continue
            if nothing:
                raise UndecodableBodyError(f"the body could not be decompressed: {layer.name}, it has no end")
            raise CutBodyError(f"its {layer.name} data breaks off")

    def _through(self, layer: _Layer, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if not piece:
                yield piece
                continue
            room = self._most - layer.taken
            layer.taken += len(piece)
            try:
                for part in layer.undo(piece[:room]):
                    layer.given += len(part)
                    yield part
            except Exception as error:  # each library has its own
                raise UndecodableBodyError(
                    f"the body could not be decompressed: {layer.name}, {error}"
                ) from None
            # Otherwise gigabytes that decode to nothing would keep us busy without end.
            if len(piece) > room:
                raise BodyTooLargeError(
                    f"the body is larger than {self._most} bytes, compressed; raise max_body to take it"
                )


class _Layer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.taken = self.given = 0  # bytes

    def undo(self, data: bytes) -> Iterator[bytes]:
        raise NotImplementedError

    def is_whole(self) -> bool:
        """Whether the body may end here."""
        raise NotImplementedError


class _Inflate(_Layer):
    """gzip, of any number of members, and deflate. Data after the last member is ignored."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._start = b""  # the first byte, too little to recognise the format
        self._inner: zlib._Decompress | None = None
        self._ended = False

    def is_whole(self) -> bool:
        if self._inner is None:
            return self._ended
        try:
            self._inner.copy().decompress(bytes(8))
        except zlib.error as error:
            return "check" in str(error)  # only the checksum is wrong: the data before it is complete
        return False

    def undo(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _SLICE):
            yield from self._undo(data[at : at + _SLICE])

    def _undo(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner is None:
                data = self._start + data
                self._start = data[:2]
                if len(data) < 2 or (self._ended and not data.startswith(_GZIP)):
                    return
                self._inner = zlib.decompressobj(self._kind(data))
                self._start = b""
            yield (part := self._inner.decompress(data, _PART))
            data = self._inner.unconsumed_tail
            while len(part) == _PART and not data:  # what zlib still buffers
                yield (part := self._inner.decompress(b"", _PART))
            if self._inner.eof:
                data, self._inner, self._ended = self._inner.unused_data, None, True

    def _kind(self, data: bytes) -> int:
        """The format by its first two bytes, as a `wbits` value of zlib."""
        if data.startswith(_GZIP):
            return 16 + zlib.MAX_WBITS
        if data[0] & 0xF == 8 and int.from_bytes(data[:2]) % 31 == 0:
            return zlib.MAX_WBITS
        if self.name == "deflate":
            return -zlib.MAX_WBITS  # without the header that it should have
        raise zlib.error("it is something else")


class _Brotli(_Layer):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._inner = brotli.Decompressor()

    def undo(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.process(data, output_buffer_limit=_PART)
        while not self._inner.can_accept_more_data():
            yield self._inner.process(b"", output_buffer_limit=_PART)

    def is_whole(self) -> bool:
        return bool(self._inner.is_finished())


class _Zstd(_Layer):
    """Any number of frames."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._frames = 0
        self._start_frame()

    def _start_frame(self) -> None:
        """Costs ten times as much as a member of gzip, even if nothing is in it."""
        self._frames += 1
        if self._frames > ZSTD_FRAMES + self.given // ZSTD_SHARE:
            raise ValueError(f"{self._frames:,} frames hold only {self.given:,} bytes")
        self._inner: Any = _zstd.ZstdDecompressor()

    def undo(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _SLICE):
            yield from self._undo(data[at : at + _SLICE])

    def _undo(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner.eof:
                self._start_frame()
            yield self._inner.decompress(data, _PART)
            while not (self._inner.needs_input or self._inner.eof):
                yield self._inner.decompress(b"", _PART)
            data = self._inner.unused_data

    def is_whole(self) -> bool:
        return bool(self._inner.eof)


_GZIP = b"\x1f\x8b"
_LAYERS: dict[str, type[_Layer]] = {
    "gzip": _Inflate,
    "x-gzip": _Inflate,
    "deflate": _Inflate,
    "br": _Brotli,
    "zstd": _Zstd,
}


# -- how fast an answer arrives
#
# The rate is checked when data arrives. Silence has its own limit (`read_timeout`): a server may compute for a while
# before it sends a page. A dripping server sends a little again and again, so it is never silent and never done.


GRACE = 5.0  # seconds over which the rate is measured; the first bytes may always take so long
_DRIPS = 4  # arrivals at least: fewer, with silence between, are a server that computes


class Meter:
    """Measures one connection or exchange. `min_rate` is in bytes a second; 0 lifts the limit.

    The rate is that of the last seconds; otherwise a server that begins with a large piece could drip for ever."""

    def __init__(self, min_rate: float, now: Callable[[], float]) -> None:
        self._min_rate = min_rate
        self._now = now
        self.reset()

    def reset(self) -> None:
        """Starts again for the next answer."""
        self._since: float | None = None
        self._seconds = 0.0
        self._received = self._arrivals = 0

    def is_too_slow(self, received: int) -> bool:
        """Call it whenever bytes have arrived. Whether they came too slowly."""
        self._received += received
        self._arrivals += 1
        now = self._now()
        if self._since is None:
            self._since = now
        self._seconds = now - self._since
        if self._seconds <= GRACE:
            return False
        if self._received >= self._min_rate * self._seconds:
            self._since, self._received, self._arrivals = now, 0, 0
            return False
        return self._arrivals >= _DRIPS

    def error(self) -> TooSlowError:
        return TooSlowError(self._received, self._seconds)
