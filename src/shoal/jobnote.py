"""What a job remembers of the run that last opened it: where its rows go, and by which settings it crawls.

So commands that look at a crawl from outside judge by its own settings, whichever file, spider or options they came
from. Values that may be secrets are not written down.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from shoal.frontier.protocol import JobSpec
from shoal.settings import Settings

_SECRET = frozenset({"headers"})  # an Authorization header may be among them
_DEFAULTS = msgspec.to_builtins(Settings())


class JobNote(Struct, frozen=True, omit_defaults=True):
    output: bytes = b""  # the key of the result file's journal; empty: no file
    settings: dict[str, Any] | None = None  # those that differ from the defaults; None: not known


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JobNote).decode


def write_note(output: bytes, settings: Settings) -> bytes:
    given = {
        key: value
        for key, value in msgspec.to_builtins(settings).items()
        if value != _DEFAULTS[key] and key not in _SECRET
    }
    return _encode(JobNote(output, given))


def note_of(spec: JobSpec) -> JobNote:
    try:
        return _decode(spec.settings) if spec.settings else JobNote()
    except msgspec.DecodeError:
        return JobNote()  # another version's words


def settings_of(spec: JobSpec) -> Settings | None:
    """The settings the job last ran by, without the secret ones; None if they are not known."""
    given = note_of(spec).settings
    try:
        return None if given is None else msgspec.convert(given, Settings)
    except msgspec.ValidationError:
        return None
