"""What a host decides to do with a request. Deciding is pure; `http.Connection` carries it out."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from msgspec import Struct

_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Answer(Struct, frozen=True):
    status: int  # NO_ANSWER: stay silent until the client leaves
    body: bytes = b""
    headers: tuple[str, ...] = ()  # besides Content-Type and the one that frames the body
    media_type: str | None = "text/html; charset=utf-8"  # None: it does not say
    delay: float = 0.0  # seconds before the first byte
    stream: Iterator[bytes] | None = None  # instead of `body`, sent as fast as the client reads
    length: int | None = None  # of the stream; None: it never ends, and is sent in chunks
    pause: float = 0.0  # seconds between two blocks of the stream
    closes: bool = False  # the connection ends with it

    def head(self) -> bytes:
        if self.stream is None:
            frame = f"Content-Length: {len(self.body)}"
        elif self.length is None:
            frame = "Transfer-Encoding: chunked"
        else:
            frame = f"Content-Length: {self.length}"
        if any(line.startswith("Transfer-Encoding") for line in self.headers):
            frame = "X-Framing: its own"
        kind = "" if self.media_type is None else f"Content-Type: {self.media_type}\r\n"
        more = "".join([f"{line}\r\n" for line in self.headers])
        return f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n{kind}{frame}\r\n{more}\r\n".encode(
            errors="surrogateescape"
        )
