"""Answers in JSON, refusals as values with a status, and bodies that are read within limits."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")

MOST_BODY = 256 * 1024  # bytes
_PATIENCE = 10.0  # seconds for a body to arrive

_encode = msgspec.json.Encoder().encode


class Refusal(Exception):
    """An error answer: its status, and one line."""

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after

    def reply(self) -> Response:
        later = {} if self.retry_after is None else {"retry-after": str(max(1, round(self.retry_after)))}
        return reply({"error": " ".join(str(self).split())}, self.status, later)


def reply(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import Response

    return Response(encode(value), status, headers, media_type="application/json")


def encode(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a name that is not text, from a command line or a file system
        return json.dumps(msgspec.to_builtins(value)).encode()


async def read_body(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST_BODY:
        raise Refusal(413, f"more than {MOST_BODY:,} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    raise Refusal(413, f"more than {MOST_BODY:,} bytes")
    except TimeoutError:
        raise Refusal(408, "the request took too long to arrive") from None
    return bytes(body)


async def read_json(request: Request, kind: type[T]) -> T:
    if media_type(request) != "application/json":
        raise Refusal(415, "send JSON, with Content-Type: application/json")
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"not as it should be: {error}") from None


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


# -- what stands in the address


def number(request: Request, name: str, default: float, *, least: float = 0, most: float = 1e12) -> float:
    text = request.query_params.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise Refusal(400, f"{name}: a number from {least:g} to {most:g}")
    return value


def whole(request: Request, name: str, default: int, *, least: int = 0, most: int = 1 << 40) -> int:
    return int(number(request, name, default, least=least, most=most))


def word(request: Request, name: str) -> str | None:
    """The query parameter, if it is there and not empty."""
    return request.query_params.get(name) or None
