"""HTTP/1.1 messages that pass through the gate: their heads, and where their bodies end.

Bodies are passed on as they come; their framing is read only to find the next message. The browser judges the rest:
h11 would refuse what browsers accept (docs/adr/0034-libraries.md).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

MAX_HEAD = 256 * 1024  # bytes; the limit of Chromium, too
MAX_LINE = 64 * 1024

_PART = 64 * 1024
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?\n", re.DOTALL)
_LENGTH = re.compile(rb"[0-9]{1,18}")
# For one connection only.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"upgrade",
    }
)
# Bodies are passed on as they are, so these go with them, even if Connection names them.
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class MessageError(Exception):
    """Not a valid HTTP message."""


class Head(Struct, frozen=True):
    """The first line of a message, and its fields."""

    start: bytes
    fields: tuple[tuple[bytes, bytes], ...]

    def get(self, name: bytes) -> bytes:
        """All values of a field as one. `name` is in lower case."""
        return b",".join(value for other, value in self.fields if other.lower() == name)

    def keeps_alive(self) -> bool:
        """Whether another message may follow on this connection."""
        options = _words(self.get(b"connection")) | _words(self.get(b"proxy-connection"))
        return b"close" not in options and (b"HTTP/1.0" not in self.start.upper() or b"keep-alive" in options)

    def passed_on(self, start: bytes, extra: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
        """The head for the other side: without hop-by-hop fields, and with `extra`."""
        named = _words(self.get(b"connection")) - _FRAMING
        left_out = _HOP_BY_HOP | named | {name.lower() for name, _ in extra}
        kept = [field for field in self.fields if field[0].lower() not in left_out]
        return b"\r\n".join([start, *(name + b": " + value for name, value in (*kept, *extra)), b"", b""])


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head; None at the end of the connection."""
    start = await _line(reader)
    while start in (b"\r\n", b"\n"):  # some send an empty line after a body
        start = await _line(reader)
    if not start:
        return None
    fields: list[tuple[bytes, bytes]] = []
    size = len(start)
    while (line := await _line(reader)).strip(b"\r\n"):
        size += len(line)
        if size > MAX_HEAD:
            raise MessageError("the head is too long")
        _add_field(fields, line)
    if not line:
        raise MessageError("the head ends early")
    return Head(start.strip(), tuple(fields))


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:
        raise MessageError("a line is too long") from None


def _add_field(fields: list[tuple[bytes, bytes]], line: bytes) -> None:
    if line[:1] in b" \t" and fields:  # a folded line, which is obsolete
        name, value = fields.pop()
        fields.append((name, value + b" " + line.strip()))
        return
    if b"\r" in line.rstrip(b"\r\n") or b"\0" in line:
        raise MessageError("a header with a CR or a NUL in it")
    name, colon, value = line.partition(b":")
    if colon and name.strip():  # browsers ignore lines without a name, and so does plain fetching
        fields.append((name.strip(), value.strip()))


def _words(text: bytes) -> set[bytes]:
    return {word.strip().lower() for word in text.split(b",")}


def status_of(head: Head) -> int:
    version, _, rest = head.start.partition(b" ")
    code = rest.lstrip()[:3]
    if not version.upper().startswith(b"HTTP/1.") or not re.fullmatch(rb"[1-9][0-9]{2}", code):
        raise MessageError("not an HTTP answer")
    return int(code)


class Framing(Struct, frozen=True):
    """Where a body ends: after `length` bytes, after the last chunk, or with the connection."""

    length: int | None = 0
    chunked: bool = False

    @property
    def ends_with_connection(self) -> bool:
        return self.length is None and not self.chunked


NO_BODY = Framing()


def request_framing(head: Head) -> Framing:
    framing, coding = _framing(head), head.get(b"transfer-encoding")
    if coding and coding.lower() != b"chunked":
        raise MessageError("a transfer coding that hides where the body ends")
    if framing.chunked and head.get(b"content-length"):
        raise MessageError("two framings at once")
    if framing.ends_with_connection and head.get(b"content-length"):
        raise MessageError("an invalid Content-Length")
    return NO_BODY if framing.ends_with_connection else framing


def answer_framing(head: Head, method: bytes) -> Framing:
    if method == b"HEAD" or status_of(head) in (204, 304):
        return NO_BODY
    return _framing(head)


def _framing(head: Head) -> Framing:
    coding = head.get(b"transfer-encoding").rpartition(b",")[2].strip().lower()
    if coding:
        return Framing(None, chunked=coding == b"chunked")
    lengths = {text.strip() for text in head.get(b"content-length").split(b",")} - {b""}
    if not lengths:
        return Framing(None)
    length = lengths.pop()
    if lengths:
        raise MessageError("lengths that contradict each other")
    return Framing(int(length) if _LENGTH.fullmatch(length) else None)  # as browsers do


async def body(reader: asyncio.StreamReader, framing: Framing) -> AsyncIterator[bytes]:
    """The bytes of a body as they arrive, including their framing."""
    if framing.chunked:
        async for part in _chunks(reader):
            yield part
    elif framing.length is not None:
        async for part in _exactly(reader, framing.length):
            yield part
    else:
        while part := await reader.read(_PART):
            yield part


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    size = -1
    while size:
        line = await _line(reader)
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise MessageError("a broken chunk")
        size = int(match[1], 16)
        yield line
        if size:
            async for part in _exactly(reader, size):
                yield part
            end = await _line(reader)
            if end.strip():
                raise MessageError("a broken chunk")
            yield end
    while (line := await _line(reader)).strip(b"\r\n"):  # trailers
        yield line
    yield line or b"\r\n"


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        part = await reader.read(min(size, _PART))
        if not part:
            raise MessageError("the body ends early")
        size -= len(part)
        yield part
