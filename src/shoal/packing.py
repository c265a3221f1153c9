"""Values as MessagePack, whatever text is in them.

Text from elsewhere may hold lone surrogates: bytes of a header that are no UTF-8, or half a character in a script's
JSON. They can be written nowhere, so they become U+FFFD before they would stop a whole crawl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

# What decoding raises for bytes that are no such value. msgspec hands on the error of a text that is no UTF-8.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_encode_sorted = msgspec.msgpack.Encoder(order="deterministic").encode


def pack(value: object) -> bytes:
    return _packed(value, _encode)


def pack_sorted(value: object) -> bytes:
    """The same bytes for equal values, whatever the order of their keys."""
    return _packed(value, _encode_sorted)


def _packed(value: object, encode: Callable[[object], bytes]) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(writable(msgspec.to_builtins(value, builtin_types=(bytes,))))


def writable(value: Any) -> Any:
    """A plain value, in which all text can be encoded."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {writable(key): writable(one) for key, one in value.items()}
        case list() | tuple():
            return [writable(one) for one in value]
    return value
