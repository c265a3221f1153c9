"""WARC 1.1 records of a page: `response` (or `revisit`), `request` and `metadata`, each a member of its own.

The body is archived as it was decoded, so the headers that tell of another encoding are renamed, as Common Crawl does:
Content-Encoding becomes X-Crawler-Content-Encoding. Cookies and credentials are masked.
"""

from __future__ import annotations

import re
from base64 import b32encode, b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from shoal.archive.members import Compression, compress
from shoal.archive.record_id import new_id
from shoal.html.media import media_type
from shoal.model import ARCHIVE, Response, Row, Task
from shoal.text import SECRET_HEADERS, pack, without_secrets, writable

REVISIT = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
METADATA_TYPE = "application/json"
WORTH = 512  # bytes of a body; a revisit record for a smaller one would save nothing

_MASKED = "***"  # in headers, which should be ASCII
_ENCODED = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_SET_COOKIE = re.compile(r"=[^;]*")
# Headers of a request that are no secret. Any other may hold a key.
_PLAIN = re.compile(
    r"accept(-.*)?|user-agent|referer|content-(type|length|language)|host|origin|range|if-.*|cache-control|pragma|dnt"
    r"|sec-(?!websocket-key).*|upgrade-insecure-requests|x-requested-with|from|priority|te",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"(www-|proxy-)?authenticat.*-info|.*(token|secret|api-?key|passw|session|credential).*", re.IGNORECASE
)
_LINE_ENDS = re.compile(r"[\r\n\0]+")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Target(Struct, frozen=True):
    """A record that holds the same body."""

    id: str
    url: str
    at: float


class Entry(Struct, frozen=True, kw_only=True):
    """What the index knows of a record, besides where it is."""

    id: str  # WARC-Record-ID, without urn:uuid:
    url: str
    variant: str = ""  # see `variant_of`
    digest: str = ""
    at: float = 0.0  # seconds since 1970
    status: int = 0
    type: str = ""  # the media type
    kind: str = "response"  # or "revisit": the body is in a response record with this digest
    page: bool = True  # it was given to a handler
    rendered: bool = False
    handler: str = ""
    job: str = ""
    length: int = 0  # of the response record in its file
    size: int = 0  # … with the records that belong to it, which follow it


class Records(Row, frozen=True, kw_only=True):
    """The records of one page, on their way to the file."""

    entry: Entry


class Metadata(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a handler needs to be run again, as JSON in the metadata record."""

    job: str = ""
    handler: str = ""  # its name, also of the first one
    url: str = ""  # with its fragment, if it has one
    asked: str = ""  # the URL before redirects, if it is another one
    hops: tuple[str, ...] = ()
    depth: int = 0
    parent: int = 0
    task: int = 0  # the id of its task
    meta: dict[str, Any] | None = None
    packed_meta: str = ""  # if JSON cannot hold it: as MessagePack and base64
    method: str = "GET"
    variant: str = ""
    lane: str = ""
    session: str = ""  # its name
    fetched_at: float = 0.0
    elapsed: float = 0.0
    verdict: str = ""  # "done", "moved" or "dead"
    failure: str = ""  # the kind of failure
    page: bool = False  # it was given to a handler
    inner: bool = False  # a handler asked for it itself
    rendered: bool = False
    plain: bool = False  # `is_plain` of its task: a cache may answer with it

    def task_meta(self) -> dict[str, Any] | None:
        if self.packed_meta:
            meta: dict[str, Any] = msgspec.msgpack.decode(b64decode(self.packed_meta))
            return meta
        return self.meta


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and its answer, as it is to be archived."""

    id: str
    task: Task
    response: Response
    metadata: Metadata
    request_headers: Iterable[tuple[str, str]] | None = None  # None: not known, so there is no request record
    address: str = ""  # of the server
    refers_to: Target | None = None  # the body is archived there
    digest: str = ""  # of the body; see `digest_of`


def digest_of(data: bytes) -> str:
    return "sha1:" + b32encode(sha1(data, usedforsecurity=False).digest()).decode()


def variant_of(method: str, body: bytes | None) -> str:
    """What tells requests for the same URL apart: "" for a plain GET."""
    if not body:
        return "" if method == "GET" else method
    return f"{method} {digest_of(body)}"


def is_plain(task: Task) -> bool:
    """Whether nothing but the URL says what is asked for. How it is sent (pool, timeouts, Referer) does not count."""
    options = task.options
    given = (task.body, task.headers, task.cookies, options.session, options.proxy, options.country)
    return task.method == "GET" and not any(given)


def packed_meta(meta: dict[str, Any] | None) -> dict[str, Any]:
    """The fields of `Metadata` that hold a task's meta."""
    if meta is None:
        return {}
    try:
        if msgspec.json.decode(msgspec.json.encode(meta)) == meta:
            return {"meta": meta}
    except (TypeError, ValueError):
        pass
    return {"packed_meta": b64encode(pack(meta)).decode()}


def encode(exchange: Exchange, *, secrets: bool = False, compression: Compression = "gzip") -> Records:
    """`secrets`: cookies and credentials are kept."""
    task, response, metadata = exchange.task, exchange.response, exchange.metadata
    digest = exchange.digest or digest_of(response.body)
    target = exchange.refers_to
    url = response.url.partition("#")[0]
    common = {"WARC-Target-URI": url, "WARC-Date": _date(metadata.fetched_at)}
    head = response_head(response, secrets=secrets)
    kind = "response" if target is None else "revisit"
    block = head + response.body if target is None else head
    fields = {"WARC-Record-ID": _urn(exchange.id), **common, "WARC-Payload-Digest": digest}
    if exchange.address:
        fields["WARC-IP-Address"] = exchange.address
    if target is not None:
        fields["WARC-Profile"] = REVISIT
        fields["WARC-Refers-To"] = _urn(target.id)
        fields["WARC-Refers-To-Target-URI"] = target.url
        fields["WARC-Refers-To-Date"] = _date(target.at)
    first = compress(record(kind, fields, block, "application/http; msgtype=response"), compression)
    parts = [first]
    with_it = {**common, "WARC-Concurrent-To": _urn(exchange.id)}
    if exchange.request_headers is not None:
        sent = request_block(task, url, exchange.request_headers, secrets=secrets)
        fields = {"WARC-Record-ID": _urn(new_id()), **with_it}
        parts.append(
            compress(record("request", fields, sent, "application/http; msgtype=request"), compression)
        )
    fields = {"WARC-Record-ID": _urn(new_id()), **with_it}
    parts.append(compress(record("metadata", fields, _json(metadata), METADATA_TYPE), compression))
    data = b"".join(parts)
    entry = Entry(
        id=exchange.id,
        url=url,
        variant=metadata.variant,
        digest=digest,
        at=metadata.fetched_at,
        status=response.status,
        type=media_type(response.headers.get("Content-Type", "")),
        kind=kind,
        page=metadata.page,
        rendered=metadata.rendered,
        handler=metadata.handler,
        job=metadata.job,
        length=len(first),
        size=len(data),
    )
    return Records(data, table=ARCHIVE, entry=entry)


def record(kind: str, fields: Mapping[str, str], block: bytes, content_type: str) -> bytes:
    lines = ["WARC/1.1", f"WARC-Type: {kind}"]
    lines += [f"{name}: {_one_line(value)}" for name, value in fields.items()]
    lines.append(f"Content-Type: {content_type}\r\nContent-Length: {len(block)}\r\n\r\n")
    return b"".join([_bytes("\r\n".join(lines)), block, b"\r\n\r\n"])


def warcinfo(name: str, job: str, software: str, at: float) -> bytes:
    """The first record of a file."""
    about = (
        f"software: {software}\r\nformat: WARC File Format 1.1\r\n"
        "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
        f"isPartOf: {_one_line(job)}\r\n"
    )
    fields = {"WARC-Record-ID": _urn(new_id()), "WARC-Date": _date(at), "WARC-Filename": name}
    return record("warcinfo", fields, _bytes(about), "application/warc-fields")


def response_head(response: Response, *, secrets: bool = False) -> bytes:
    """Status line and headers, as they fit a body that is decoded. Its length is that of the whole body, also where
    the body is left out."""
    status, length = response.status, str(len(response.body))
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}".rstrip()]
    for name, value in response.headers.items():
        low = name.lower()
        if low in _ENCODED:
            if low == "content-length" and value == length:
                continue
            name = f"X-Crawler-{name}"
        elif not secrets:
            value = _masked_answer(low, value)
        lines.append(f"{name}: {value}")
    lines.append(f"Content-Length: {length}")
    return _head(lines)


def request_block(
    task: Task, url: str, headers: Iterable[tuple[str, str]], *, secrets: bool = False
) -> bytes:
    """The request as it was sent, as far as it is known."""
    host, path = _split(url)
    lines = [f"{task.method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value if secrets or _is_plain(name) else _MASKED}" for name, value in headers]
    body = task.body or b""
    if body and not secrets and b"passw" in body.lower():
        body = _bytes(without_secrets(body.decode("utf-8", "surrogateescape")))
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return _head(lines) + body


def _masked_answer(low: str, value: str) -> str:
    if low in ("set-cookie", "set-cookie2"):
        return _SET_COOKIE.sub(f"={_MASKED}", value, count=1) if "=" in value.partition(";")[0] else _MASKED
    return _MASKED if _is_secret(low) else value


def is_secret_header(low: str) -> bool:
    """Whether a header of an answer holds a cookie or a credential. Its name is in lower case."""
    return low in ("set-cookie", "set-cookie2") or _is_secret(low)


@lru_cache(maxsize=4096)
def _is_secret(low: str) -> bool:
    return low in SECRET_HEADERS or _SECRET.fullmatch(low) is not None


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    return _PLAIN.fullmatch(name) is not None


def _split(url: str) -> tuple[str, str]:
    """Host and what follows it. The URL is one that was sent."""
    rest = url.partition("://")[2]
    end = next((place for place, sign in enumerate(rest) if sign in "/?"), len(rest))
    path = rest[end:]
    return rest[:end], path if path.startswith("/") else f"/{path}"


def _head(lines: Iterable[str]) -> bytes:
    return _bytes("\r\n".join(map(_one_line, lines)) + "\r\n\r\n")


def _one_line(text: str) -> str:
    """A line end in a value would begin a new header."""
    return _LINE_ENDS.sub(" ", text) if not text.isprintable() else text


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character
        return text.encode("utf-8", "replace")


def _json(metadata: Metadata) -> bytes:
    try:
        return msgspec.json.encode(metadata)
    except UnicodeEncodeError:
        return msgspec.json.encode(writable(msgspec.to_builtins(metadata)))


def _urn(id: str) -> str:
    return f"<urn:uuid:{id}>"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
