"""Tasks as bytes, for every home that writes them so: the fields that few tasks have, and bytes that cannot be read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from shoal.errors import StoreError
from shoal.model import USUAL_FETCH, Failure, FetchOptions, ItemNote, Task
from shoal.model.page_record import PageRecord
from shoal.text import UNREADABLE

P = ParamSpec("P")
T = TypeVar("T")

# A store loses a field that is missing here. A test compares this list with the task's own fields.
RARE = (
    *("max_attempts", "method", "headers", "body", "pool", "meta", "hops", "renewed", "cookies", "trail"),
    *("history", "typed", "options", "item", "record"),
)
_DEFAULTS = {name: getattr(Task(""), name) for name in RARE}


def rare_fields(task: Task) -> dict[str, Any] | None:
    """The rare fields that are not at their defaults; None for a plain link."""
    # Faster than the loop below for plain links, which set none of these.
    if (
        task.meta is not None
        or task.history
        or task.hops
        or task.method != "GET"
        or task.headers is not None
        or task.max_attempts
        or task.body is not None
        or task.pool is not None
        or task.cookies
        or task.trail
        or task.renewed
        or task.typed
        or task.options != USUAL_FETCH
        or task.item is not None
        or task.record is not None
    ):
        return {name: value for name in RARE if (value := getattr(task, name)) != _DEFAULTS[name]}
    return None


def restored(rare: dict[str, Any] | None) -> dict[str, Any]:
    """Decoded rare fields, in the types that a task has."""
    if not rare:
        return {}
    rare["hops"] = tuple(rare.get("hops", ()))
    rare["cookies"] = tuple(rare.get("cookies", ()))
    rare["trail"] = tuple(rare.get("trail", ()))
    rare["options"] = msgspec.convert(rare.get("options", {}), FetchOptions)
    if "item" in rare:
        rare["item"] = msgspec.convert(rare["item"], ItemNote)
    if "record" in rare:
        rare["record"] = msgspec.convert(rare["record"], PageRecord)
    rare["history"] = msgspec.convert(rare.get("history", ()), tuple[Failure, ...])
    return rare


# What decoding may raise: too short, not text, numbers or types that do not fit.
_JUNK = (*UNREADABLE, struct.error, IndexError, TypeError, ValueError, OverflowError)


def damaged(what: str, error: object) -> StoreError:
    return StoreError(
        f"the store holds a {what} that cannot be read ({error}): it is damaged, or another program wrote to it; "
        "restore a copy, or start again with --fresh"
    )


def stored(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function that decodes stored bytes: it raises a StoreError that says what they should have been."""

    def decorate(decode: Callable[P, T]) -> Callable[P, T]:
        @wraps(decode)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return decode(*args, **kwargs)
            except _JUNK as error:
                raise damaged(what, error) from None

        return guarded

    return decorate
