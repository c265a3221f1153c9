"""Reads HTTP/1.1 answers as browsers and curl do, with what servers get wrong. Pure: bytes in, a head and a body out.

A server that sends an odd answer may see its end elsewhere than we do; the rest would be taken for the answer to the
next request. So a connection is not used again after anything odd (`odd`). An answer that can be read in two ways, with
two lengths or a NUL in a header, is refused. docs/failure.md has the table of what a server may get wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from shoal.fetch.failures import BrokenAnswerError, BrokenBodyError, FloodError, LostError
from shoal.limits import ANSWER_HEADERS, CHUNK_LINE, HEADER_LINES, INTERIM_ANSWERS

_END = re.compile(rb"\n\r?\n")  # of a head
_STATUS = re.compile(rb"HTTP(?:/(\d)(?:\.(\d))?)?[ \t]+([1-9]\d\d)(?:[ \t]|$)", re.IGNORECASE)
_CLEAN_STATUS = re.compile(rb"HTTP/1\.[01] \d\d\d(?: |$)")
_FOLD = re.compile(rb"\n[ \t]+")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TRAILER = re.compile(_TOKEN.pattern + b":")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_CHUNK_SIZE = re.compile(rb"0*([0-9A-Fa-f]{1,15})[ \t]*(;|$)")
_FAULTLESS = re.compile(rb"HTTP/1\.1 ([2-9]\d\d)(?: [ -~]*)?(?:\r\n%b:[\t -~]*)*" % _TOKEN.pattern)
_SPECIAL = re.compile(rb"\n(content-length|transfer-encoding|location)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CONNECTION = re.compile(rb"\n(?:proxy-)?connection[ \t]*:([^\r\n]*)", re.IGNORECASE)
_FRAMING = frozenset({b"", b"chunked", b"identity"})
SWITCHING = 101  # the one answer below 200 that is final
_WITHOUT_BODY = frozenset({SWITCHING, 204, 304})


class Head(Struct, frozen=True):
    """The head of an answer."""

    status: int
    fields: list[tuple[str, str]]  # names and values, without a fault
    length: int | None  # of the body; None: not known
    chunked: bool
    lasts: bool  # the server keeps the connection open for another request
    odd: bool


class AnswerReader:
    """Reads the answer of one exchange. `is_head`: to a HEAD request, so no body follows."""

    def __init__(self, *, is_head: bool) -> None:
        self.head: Head | None = None  # of the final answer
        self.size = 0  # bytes of the body that have arrived
        self.unread = 0  # … and were not taken yet
        self.ended = False  # the answer is complete
        self.odd = False
        self.error: Exception | None = None  # the answer is good up to here
        self._parts: list[bytes] = []  # of the body
        self._is_head = is_head
        self._begun = bytearray()  # an incomplete head
        self._interim = 0  # answers of status 1xx
        self._rest = b""  # an incomplete line
        self._left = 0  # bytes of the body, or of the chunk
        self._line: Literal["size", "end", "trailer"] = "size"  # the line of a chunk that is next
        self._trailers = 0  # bytes
        self._read: Callable[[bytes], bytes] = self._read_head

    def feed(self, data: bytes) -> None:
        """Takes what has arrived."""
        while data and self.error is None:
            data = self._read(data)

    def feed_eof(self, reason: str = "") -> None:
        """The connection has ended. `reason`: it was not closed in an orderly way."""
        if self.ended or self.error is not None:
            return
        if self.head is None:
            self.error = LostError(reason)
        elif self._read == self._read_all and not reason:
            self.ended = True
        elif self.head.length is not None:
            self.error = BrokenBodyError(f"it ends after {self.size} of {self.head.length} bytes")
        else:
            self.error = BrokenBodyError(reason or "it ends before its last chunk")

    def take(self) -> bytes:
        """What has arrived of the body since the last call."""
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self.unread = 0
        return data

    # -- each takes what has arrived, and returns the rest for the next one

    def _read_head(self, data: bytes) -> bytes:
        begun = self._begun
        if not begun:
            self.odd = self.odd or data[:1].isspace()
            data = data.lstrip(b" \t\r\n")
        searched = max(0, len(begun) - 2)
        if begun:
            begun += data
        head = begun or data  # most come in one piece
        if not b"HTTP".startswith(start := bytes(head[:4]).upper()):
            self.error = BrokenAnswerError(f"it begins with {start!r} where HTTP is due")
        elif found := _END.search(head, searched):
            rest, head = bytes(head[found.end() :]), bytes(head[: found.start()])
            begun.clear()
            try:
                self._begin_body(read_head(head))
            except BrokenAnswerError as error:
                self.error = error
            return rest
        elif not begun:
            begun += data
        return b""

    def _begin_body(self, head: Head) -> None:
        self.odd = self.odd or head.odd
        if head.status < 200 and head.status != SWITCHING:
            self._interim += 1
            if self._interim > INTERIM_ANSWERS:
                self.error = FloodError(f"more than {INTERIM_ANSWERS} interim answers (1xx)")
            return
        self.head = head
        if self._is_head or head.status in _WITHOUT_BODY or head.length == 0:
            self._end()
        elif head.chunked:
            self._read = self._read_chunks
        elif head.length is not None:
            self._left = head.length
            self._read = self._read_counted
        else:
            self._read = self._read_all

    def _end(self) -> None:
        self.ended = True
        self._read = self._read_surplus

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self.size += len(part)
        self.unread += len(part)

    def _read_all(self, data: bytes) -> bytes:
        """The body ends with the connection."""
        self._add(data)
        return b""

    def _read_counted(self, data: bytes) -> bytes:
        piece, rest = (data, b"") if len(data) <= self._left else (data[: self._left], data[self._left :])
        self._add(piece)
        self._left -= len(piece)
        if not self._left:
            self._end()
        return rest

    def _read_surplus(self, data: bytes) -> bytes:
        """Data after the answer: it belongs to no request."""
        self.odd = True
        return b""

    def _read_chunks(self, data: bytes) -> bytes:
        """All chunks that have arrived, as one part: they may be tiny."""
        data = self._rest + data
        at, parts = 0, []
        ended = False
        while at < len(data) and not ended and self.error is None:
            if self._left:
                parts.append(data[at : at + self._left])
                at += len(parts[-1])
                self._left -= len(parts[-1])
                continue
            end = data.find(b"\n", at, at + CHUNK_LINE)
            if end < 0:
                if len(data) - at >= CHUNK_LINE:
                    self.error = FloodError(f"a chunk's line of more than {CHUNK_LINE} bytes")
                break
            ended = self._read_line(data[at : end + 1])
            at = end + 1
        if parts:
            self._add(b"".join(parts))
        if ended:
            self._rest = b""
            self._end()
            return data[at:]
        self._rest = data[at:]
        return b""

    def _read_line(self, line: bytes) -> bool:
        """Whether that was the last line of the chunks."""
        text = line.rstrip(b"\r\n")
        if len(line) - len(text) != 2:
            self.odd = True  # no CRLF
        if self._line == "trailer":
            self._trailers += len(line)
            if self._trailers > ANSWER_HEADERS:
                self.error = BrokenBodyError("no end of what follows the last chunk")
            self.odd = self.odd or bool(text and not _TRAILER.match(text))
            return not text
        if self._line == "end":
            self._line = "size"
            if text:
                self.error = BrokenBodyError(f"{text[:20]!r} where the end of a chunk is due")
        elif found := _CHUNK_SIZE.match(text):
            self._left = int(found[1], 16)
            self._line = "end" if self._left else "trailer"
            self.odd = self.odd or bool(found[2])  # an extension: programs disagree where it ends
        else:
            self.error = BrokenBodyError(f"{text[:20]!r} where the size of a chunk is due")
        return False


# -- heads


def read_head(head: bytes) -> Head:
    """The head of an answer, without the empty line at its end. Raises BrokenAnswerError."""
    if len(head) > ANSWER_HEADERS:
        raise BrokenAnswerError(f"headers of more than {ANSWER_HEADERS} bytes")
    if head.count(b"\n") > HEADER_LINES:
        raise BrokenAnswerError(f"more than {HEADER_LINES} header lines")
    return _faultless(head) or _mended(head)


def _faultless(head: bytes) -> Head | None:
    """The fast path: nearly all heads need no repair."""
    found, special = _FAULTLESS.fullmatch(head.removesuffix(b"\r")), _SPECIAL.findall(head)
    if found is None or len(special) > 1:
        return None
    status = int(found[1])
    length, chunked = None, False
    if not special:
        if status not in _WITHOUT_BODY or not head.endswith(b"\r"):
            return None  # 304 to a page that is visited again has neither
    else:
        name, value = special[0][0].lower(), special[0][1]
        chunked = name == b"transfer-encoding" and value == b"chunked"
        if name == b"content-length" and _LENGTH.fullmatch(value) is not None:
            length = int(value)
        elif not chunked or status in _WITHOUT_BODY:
            return None
        if status in _WITHOUT_BODY:
            return None
    fields = []
    for line in found[0].decode("ascii").split("\r\n")[1:]:
        field, _, value = line.partition(":")
        fields.append((field, value.strip(" \t")))
    return Head(status, fields, length, chunked, _lasts(head, is_old=False), odd=False)


def _mended(head: bytes) -> Head:
    text, odd = _unfold(head)
    first, *lines = text.split(b"\n")
    if (found := _STATUS.match(first)) is None:
        raise BrokenAnswerError(f"no status in {first[:50]!r}")
    is_old, status = (found[1] or b"1", found[2] or b"0") <= (b"1", b"0"), int(found[3])
    clean, lengths, codings = list[tuple[bytes, bytes]](), list[bytes](), list[bytes]()
    odd = odd or not _CLEAN_STATUS.match(first)
    for line in lines:
        name, colon, value = line.partition(b":")
        token = name.rstrip(b" \t")
        odd = odd or token != name
        match token.lower() if colon else b"":
            case b"content-length":
                lengths += value.split(b",")
            case b"transfer-encoding":
                codings += (part.strip(b" \t") for part in value.lower().split(b","))
            case b"location":
                clean.append((b"Location", escape_bytes(value.strip(b" \t"))))
            case lower if _TOKEN.fullmatch(lower):
                clean.append((token, value.strip(b" \t")))
            case _:
                odd = True  # not a valid name: dropped
    length, chunked = _length(lengths), b"chunked" in codings
    if others := [coding for coding in codings if coding not in _FRAMING]:
        clean.append((b"Content-Encoding", b", ".join(others)))  # decoded in the same way
    if status >= 200 and status not in _WITHOUT_BODY:
        if chunked:
            clean.append((b"Transfer-Encoding", b"chunked"))
        elif length is not None:
            clean.append((b"Content-Length", b"%d" % length))
    odd = odd or len(lengths) + len(codings) > 1 or (length is None and bool(lengths))
    odd = odd or bool(others) or (chunked and is_old)
    fields = [(name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in clean]
    lasts = _lasts(b"\n" + b"\n".join(lines), is_old=is_old)
    return Head(status, fields, None if chunked else length, chunked, lasts, odd)


def _lasts(head: bytes, *, is_old: bool) -> bool:
    """Whether the server waits for another request, by what it says and its version."""
    said = b",".join(_CONNECTION.findall(head)).lower()
    words = {word.strip() for word in said.split(b",")} if said else set()
    return b"close" not in words and (not is_old or b"keep-alive" in words)


def _unfold(head: bytes) -> tuple[bytes, bool]:
    """The head with folded lines joined and LF as line end; and whether anything changed."""
    if b"\0" in head:
        raise BrokenAnswerError("a NUL among its headers")
    text = head.replace(b"\r\n", b"\n").removesuffix(b"\r")
    odd = len(head) - len(text) <= text.count(b"\n") or b"\r" in text
    text, folds = _FOLD.subn(b" ", text.replace(b"\r", b" "))
    return text, odd or folds > 0


def _length(values: list[bytes]) -> int | None:
    """The Content-Length; None if there is none that is valid, so the body ends with the connection."""
    said = {int(text) if _LENGTH.fullmatch(text := value.strip(b" \t")) else text for value in values}
    if len(said) > 1:
        raise BrokenAnswerError("lengths that contradict each other")
    length = said.pop() if said else None
    return length if isinstance(length, int) else None


def escape_bytes(url: bytes) -> bytes:
    """A URL in a header, as browsers read it: bytes that are not UTF-8 are percent-encoded."""
    try:
        url.decode()
    except UnicodeDecodeError:
        return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % found[0][0], url)
    return url
