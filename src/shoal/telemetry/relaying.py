"""The log of child processes, told by their parent: as if it had been said here, with the number of the worker.

Children log JSON lines whatever the parent's format is: so nothing is lost on the way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from shoal.telemetry.logging import PRINTED, Line, as_text, is_json, log

_CHUNK = 64 * 1024
_LONGEST = 1 << 20  # bytes of a line; what is beyond is dropped

_decode = msgspec.json.Decoder(Line).decode


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Its lines. `readline` would fail at a very long one, and a child may print anything."""
    line = b""
    while chunk := await stream.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield _text(line + part)
            line = b""
        line = (line + rest)[:_LONGEST]
    if line:
        yield _text(line)


def _text(line: bytes) -> str:
    return line[:_LONGEST].decode(errors="replace").rstrip()


def relay(line: str, worker: int) -> None:
    """Says again what a worker said on its stderr. What is no line of its log is told as a warning."""
    try:
        said = _decode(line)
    except msgspec.DecodeError:
        log.warning("worker %s: %s", worker, line)
        return
    # The worker has chosen by its level, which is ours.
    log.handle(_told_as_json(said, worker) if is_json() else _told_as_text(said, worker))


def _told_as_json(said: Line, worker: int) -> logging.LogRecord:
    record = _record("shoal", said, said.message)
    record.event, record.fields = said.event, {**said.fields, "worker": worker}
    return record


def _told_as_text(said: Line, worker: int) -> logging.LogRecord:
    if said.fields.get("logger") == PRINTED:
        return _record(PRINTED, said, said.message)
    message = as_text(said.message, said.fields) if "logger" in said.fields else said.message
    trace = f"\n{said.fields['traceback']}" if "traceback" in said.fields else ""
    return _record("shoal", said, f"worker {worker}: {message}{trace}")


def _record(name: str, said: Line, message: str) -> logging.LogRecord:
    level = logging.getLevelNamesMapping().get(said.level.upper(), logging.WARNING)
    record = logging.LogRecord(name, level, "", 0, message, None, None)
    try:
        record.created = datetime.fromisoformat(said.time).timestamp()
    except ValueError:
        pass  # now, then
    return record
