"""What parent and child processes say to each other: messages on a socket of their own, each behind its length.

Nothing else can write there. (On standard output, a handler that prints a page's title would speak for its process.)
"""

from __future__ import annotations

import asyncio
import socket
from typing import TypeVar

import msgspec
from msgspec import Struct

from shoal.engine.tally import TallyReport
from shoal.engine.vitals import Vitals
from shoal.text import pack

T = TypeVar("T")

_HEAD = 4  # bytes of the length


class Word(Struct, frozen=True, omit_defaults=True):
    """What a child says: its counters, or why it cannot go on."""

    report: TallyReport | None = None
    feeding_paused: bool = False  # it has as much as it can bear
    error: str = ""
    vitals: Vitals = Vitals()
    trouble: str = ""  # why it no longer moves


def framed(message: object) -> bytes:
    data = pack(message)
    return len(data).to_bytes(_HEAD, "big") + data


async def read_framed(reader: asyncio.StreamReader, kind: type[T]) -> T | None:
    """The next message; None if there will be no more."""
    try:
        length = int.from_bytes(await reader.readexactly(_HEAD), "big")
        return msgspec.msgpack.decode(await reader.readexactly(length), type=kind)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive(line: socket.socket, kind: type[T]) -> T:
    """The first message, before there is an event loop."""
    length = int.from_bytes(_exactly(line, _HEAD), "big")
    return msgspec.msgpack.decode(_exactly(line, length), type=kind)


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = line.recv(count - len(data))
        if not more:
            raise EOFError("the parent is gone")
        data += more
    return data
