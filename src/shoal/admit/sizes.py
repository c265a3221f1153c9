"""Whether a request is small enough to be stored: a queue holds millions of them."""

from __future__ import annotations

from collections.abc import Sized

from shoal.limits import REQUEST_BODY, REQUEST_HEADERS, REQUEST_META, REQUEST_META_DEPTH, REQUEST_WORD
from shoal.model import Request
from shoal.packing import pack


def oversize(request: Request) -> str | None:
    """What about a request cannot be stored, for a sentence that ends with it; None if all can."""
    if (
        request.meta is None
        and request.headers is None
        and request.body is None
        and request.pool is None
        and len(request.method) + len(request.handler) <= REQUEST_WORD
    ):
        return None  # a link, as nearly all are; its URL is looked at when it is admitted
    for name in ("method", "pool", "handler"):
        value = getattr(request, name)
        if isinstance(value, Sized) and len(value) > REQUEST_WORD:
            return f"its {name} has {len(value):,} characters; {REQUEST_WORD} are the most"
    if request.body is not None and len(request.body) > REQUEST_BODY:
        return f"its body has {len(request.body):,} bytes; {REQUEST_BODY:,} are the most"
    for name, most in (("headers", REQUEST_HEADERS), ("meta", REQUEST_META)):
        value = getattr(request, name)
        if value and (problem := _problem(value, most)):
            return f"its {name} {problem}"
    return None


def _problem(value: object, most: int) -> str | None:
    if _is_deep(value):
        return f"has more than {REQUEST_META_DEPTH} containers in one another"
    try:
        size = len(pack(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"cannot be stored: {error}"
    return f"has {size:,} bytes; {most:,} are the most" if size > most else None


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
