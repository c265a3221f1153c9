"""What `shoal extract` and its processes say to each other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shoal.archive.reader import Choice, Spot, Survey
from shoal.model import Row
from shoal.settings import Settings
from shoal.spider.loading import SpiderSource

EXAMPLES = 3  # failures of a kind that are shown


class ExtractPlan(Struct, frozen=True, tag=True):
    """The first message to a process."""

    source: SpiderSource
    settings: Settings
    files: tuple[str, ...]
    handler: str = ""  # of pages that name none


class Look(Struct, frozen=True, tag=True):
    file: int
    choice: Choice


class Work(Struct, frozen=True, tag=True):
    number: int
    spots: Sequence[Spot]


class Located(Struct, frozen=True, tag=True):
    """The answer to `Locate`."""

    spot: Spot | None


class End(Struct, frozen=True, tag=True):
    pass


class Ready(Struct, frozen=True, tag=True):
    pass


class Looked(Struct, frozen=True, tag=True):
    file: int
    survey: Survey


class Trouble(Struct, frozen=True):
    """A page that gave no rows, or an item that was rejected."""

    kind: str  # "handler", "junk", "handler_timeout", "rejected" …
    url: str
    handler: str
    detail: str
    traceback: str = ""


class Worked(Struct, frozen=True, tag=True):
    number: int
    pages: int  # that were handled
    rows: Sequence[Row]
    counts: dict[str, int] = {}
    troubles: dict[str, int] = {}  # by kind
    examples: Sequence[Trouble] = ()  # the first ones of each kind


class Locate(Struct, frozen=True, tag=True):
    """Where is the answer to this request?"""

    request: bytes


class Failed(Struct, frozen=True, tag=True):
    """The process cannot go on, such as when its spider cannot be loaded."""

    error: str
    exit_code: int


ToChild = ExtractPlan | Look | Work | Located | End
FromChild = Ready | Looked | Worked | Locate | Failed

_ENCODER = msgspec.msgpack.Encoder()
_TO_CHILD: msgspec.msgpack.Decoder[ToChild] = msgspec.msgpack.Decoder(ToChild)
_FROM_CHILD: msgspec.msgpack.Decoder[FromChild] = msgspec.msgpack.Decoder(FromChild)


def encoded(message: ToChild | FromChild) -> bytes:
    return _ENCODER.encode(message)


def to_child(data: bytes) -> ToChild:
    return _TO_CHILD.decode(data)


def from_child(data: bytes) -> FromChild:
    return _FROM_CHILD.decode(data)
