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
    media_type: str = "text/html; charset=utf-8"
    delay: float = 0.0  # seconds before the first byte
    stream: Iterator[bytes] | None = None  # instead of `body`, sent as fast as the client reads
    length: int | None = None  # of the stream; None: it never ends, and is sent in chunks

    def head(self) -> bytes:
        if self.stream is None:
            frame = f"Content-Length: {len(self.body)}"
        elif self.length is None:
            frame = "Transfer-Encoding: chunked"
        else:
            frame = f"Content-Length: {self.length}"
        more = "".join([f"{line}\r\n" for line in self.headers])
        return (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n"
            f"Content-Type: {self.media_type}\r\n{frame}\r\n{more}\r\n"
        ).encode()
