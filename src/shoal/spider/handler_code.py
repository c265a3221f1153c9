"""Whether the code of a handler is what it was."""

from __future__ import annotations

import inspect
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from shoal.model.request import HANDLER_CODE
from shoal.spider.spider import Handler


def code_of(handler: Handler) -> bytes:
    """A digest of the file that the handler is in, and of its place there: functions that it calls may have changed,
    too. Of a TOML spider: of the handler's table. b"": it is in no file."""
    function = inspect.unwrap(handler.function)
    made_from = getattr(function, HANDLER_CODE, None)
    if made_from is not None:
        return _digest(str(made_from).encode())
    with suppress(OSError, TypeError):
        file = inspect.getsourcefile(function)
        if file is not None:
            line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
            return _digest(Path(file).read_bytes() + str(line).encode())
    return b""


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=4).digest()
