"""Bytes in a store that are not what they should be: a damaged file, or the words of another program."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from shoal.errors import StoreError
from shoal.text import UNREADABLE

P = ParamSpec("P")
T = TypeVar("T")

# What reading them may raise: too short, no such text, numbers or types that do not fit.
_JUNK = (*UNREADABLE, struct.error, IndexError, TypeError, ValueError, OverflowError)


def damaged(what: str, error: object) -> StoreError:
    return StoreError(
        f"the store holds a {what} that cannot be read ({error}): it is damaged, or another program wrote to it; "
        "restore a copy, or start again with --fresh"
    )


def stored(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function that decodes what the store has: junk becomes a StoreError that names what should be there."""

    def decorate(decode: Callable[P, T]) -> Callable[P, T]:
        @wraps(decode)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return decode(*args, **kwargs)
            except _JUNK as error:
                raise damaged(what, error) from None

        return guarded

    return decorate
