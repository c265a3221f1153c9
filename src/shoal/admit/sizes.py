"""Checks that a request is small enough to be stored: a queue holds millions of them."""

from __future__ import annotations

from shoal.limits import REQUEST_BODY, REQUEST_HEADERS, REQUEST_META, REQUEST_META_DEPTH, REQUEST_WORD
from shoal.model.request import Request
from shoal.text import pack


class OversizeError(ValueError):
    """A request is too large to be stored; the text says what, and how large it may be."""


def stored_size(request: Request) -> int:
    """About how many bytes a request takes, without its URL, which admission checks. Raises OversizeError."""
    if (
        request.meta is None
        and request.headers is None
        and request.body is None
        and request.pool is None
        and request.session is None
        and request.wait_for is None
        and request.proxy is None
        and request.country is None
        and request.revisit is None
        and len(request.method) + len(request.handler) <= REQUEST_WORD
    ):
        return 0  # a link, as nearly all are
    for name in ("method", "pool", "handler", "session", "wait_for", "proxy", "country", "revisit"):
        size = len(getattr(request, name) or "")
        if size > REQUEST_WORD:
            raise OversizeError(f"its {name} has {size:,} characters; {REQUEST_WORD} are the most")
    total = len(request.body or b"")
    if total > REQUEST_BODY:
        raise OversizeError(f"its body has {total:,} bytes; {REQUEST_BODY:,} are the most")
    for name, most in (("headers", REQUEST_HEADERS), ("meta", REQUEST_META)):
        if value := getattr(request, name):
            total += _packed_size(name, value, most)
    return total


def _packed_size(name: str, value: object, most: int) -> int:
    if _is_deep(value):
        raise OversizeError(f"its {name} has more than {REQUEST_META_DEPTH} containers in one another")
    try:
        size = len(pack(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise OversizeError(f"its {name} cannot be stored: {error}") from None
    if size > most:
        raise OversizeError(f"its {name} has {size:,} bytes; {most:,} are the most")
    return size


def _is_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(REQUEST_META_DEPTH + 1):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list | tuple):
                inner += one
        level = [one for one in inner if isinstance(one, dict | list | tuple)]
        if not level:
            return False
    return True
