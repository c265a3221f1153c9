"""Parts of JSON from the network, without making objects of what nobody reads. Pure.

Twenty kilobytes of gzip unpack to millions of "[]", and as Python's objects they take thirty times the memory of the
text. So a document is decoded into structs whose fields are `msgspec.Raw`, pieces of its text, and those are read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

_AT_ONCE = (
    10,
    100,
    1_000,
)  # elements that are looked for at once: the rest of the array is passed over each time
_SCALAR = 128 * 1024  # bytes of a text as it is written. Beyond: nothing that is read here is so long
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")


def is_array(value: Raw | memoryview) -> bool:
    return bytes(memoryview(value)[:1]) == b"["


def elements(value: Raw | memoryview, most: int) -> Iterator[memoryview]:
    """The first elements of an array, as they are written. Nothing, if it is no array.

    The value is part of JSON that was decoded: it is known to be correct. Raises RecursionError where it is deep.
    """
    array = memoryview(value)
    at, left = _after(array, 1), most if is_array(value) else 0
    while left > 0 and at < len(array) - 1:
        for size in _sizes(array, at, left):
            yield array[at : at + size]
            at = _after(array, at + size)
            left -= 1


def scalar(value: Raw | memoryview) -> object:
    """A text, a number or a truth value. None for all else, and for what is missing or too long."""
    text = memoryview(value)
    if not text or len(text) > _SCALAR or text[0] in b"[{":
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # a number that is out of range
        return None


def _sizes(array: memoryview, at: int, most: int) -> list[int]:
    """How long the next elements are. There is at least one."""
    most = min(most, (len(array) - at) // 2)  # "0," is the shortest
    count = next((count for count in _AT_ONCE if count >= most), _AT_ONCE[-1])
    found = _first_elements(count)(b"[" + array[at:])
    return [len(element) for element in msgspec.structs.astuple(found)[:most] if element]


def _after(array: memoryview, at: int) -> int:
    blank = _BETWEEN.match(array, at)
    return blank.end() if blank else at


@cache
def _first_elements(count: int) -> Callable[[bytes], Any]:
    """Decodes an array as a struct with a field for each of its first elements: nothing is made of the others."""
    fields = [(f"_{number}", Raw, Raw()) for number in range(count)]
    return msgspec.json.Decoder(msgspec.defstruct("_Elements", fields, array_like=True)).decode
