"""The block of a response record as a Response.

Tools write bodies as they were sent (chunked, compressed) or as they were decoded, and some keep the headers of the one
with the body of the other. So encodings are undone if that works; if not, the body is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from multidict import CIMultiDict

from shoal.archive.warc_source import WarcError
from shoal.fetch.body_reader import BodyTooLargeError, CutBodyError, Decoder, UndecodableBodyError
from shoal.html.media import media_type
from shoal.model import Response

_TYPE = re.compile(rb"^content-type:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"HTTP/[\d.]+ +(\d{3})\b")
_RENAMED = "x-crawler-"  # headers that do not fit a body which was decoded before it was archived
_ENCODINGS = ("content-encoding", "transfer-encoding", "content-length")


def status_of(block: bytes) -> int:
    """0: it is no answer."""
    found = _STATUS.match(block)
    return int(found[1]) if found else 0


def type_of(block: bytes) -> str:
    """The media type of an answer; "": it has none."""
    found = _TYPE.search(split_head(block)[0])
    return media_type(found[1].decode("latin-1")) if found else ""


def split_head(block: bytes) -> tuple[bytes, bytes]:
    """Head and body."""
    head, end, body = block.partition(b"\r\n\r\n")
    if not end and b"\n\n" in head:  # some tools end lines like this
        head, _, body = block.partition(b"\n\n")
    return head, body


def headers_in(head: bytes) -> CIMultiDict[str]:
    lines = head.decode("utf-8", "surrogateescape").splitlines()[1:]
    if any(line[:1] in (" ", "\t") for line in lines):
        lines = _unfolded(lines)
    pairs = (line.partition(":") for line in lines)
    return CIMultiDict([(name.strip(), value.strip()) for name, colon, value in pairs if colon and name])


def _unfolded(lines: Sequence[str]) -> list[str]:
    """The lines, each with those that go on with it."""
    whole: list[str] = []
    for line in lines:
        if line[:1] in (" ", "\t") and whole:
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line)
    return whole


def read_response(
    url: str, block: bytes, *, own: bool, cap: int, body: bytes | None = None, elapsed: float = 0.0
) -> Response:
    """`own`: Shoal wrote it. `body`: of another record that had the same. Raises WarcError."""
    head, its_body = split_head(block)
    status = status_of(head)
    if not status:
        raise WarcError("it is no answer of a web server")
    headers = headers_in(head)
    if own:
        if b"\n" + _RENAMED.encode() in head.lower():
            headers = _as_received(headers)
        return Response(url, status, headers, its_body if body is None else body, elapsed, cached=True)
    if body is None:
        body = decoded(its_body, headers, cap)
    return Response(url, status, headers, body, elapsed, cached=True)


def _as_received(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        low = name.lower()
        if low.startswith(_RENAMED) and low.removeprefix(_RENAMED) in _ENCODINGS:
            name = name[len(_RENAMED) :]
        elif low in _ENCODINGS:
            continue  # of the body in the archive
        kept.add(name, value)
    return kept


def decoded(body: bytes, headers: CIMultiDict[str], cap: int) -> bytes:
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        body = _without_chunks(body)
    encoding = ",".join(headers.getall("Content-Encoding", ()))
    if not encoding:
        return body
    decoder = Decoder(encoding, cap)
    parts: list[bytes] = []
    size = 0
    try:
        for part in decoder.feed(body):
            parts.append(part)
            size += len(part)
            if size > cap:
                raise WarcError(f"its body has more than {cap:,} bytes (setting max_body)")
        decoder.check_end(nothing=not size)
    except UndecodableBodyError:
        return body  # it was decoded before it was archived
    except (BodyTooLargeError, CutBodyError) as error:
        raise WarcError(str(error)) from None
    return b"".join(parts)


def _without_chunks(body: bytes) -> bytes:
    """The body itself, if it is not chunked."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at, at + 64)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        try:
            length = int(size, 16)
        except ValueError:
            return body
        if length == 0:
            return b"".join(parts)
        at = end + 2 + length
        if body[at : at + 2] != b"\r\n":
            return body
        parts.append(body[end + 2 : at])
        at += 2
