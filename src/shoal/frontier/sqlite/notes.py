"""Small values that processes agree on, kept in `meta`."""

from __future__ import annotations

import msgspec

from shoal.frontier.sqlite.connection import Session
from shoal.frontier.values import Note

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Note).decode


def find_note(session: Session, key: str) -> Note | None:
    blob = session.value("SELECT value FROM meta WHERE key = ?", (_place(key),))
    return None if blob is None else _decode(blob)


def set_note(session: Session, key: str, value: bytes, version: int) -> bool:
    known = find_note(session, key)
    if version != (known.version if known else 0):
        return False
    blob = _encode(Note(value, version + 1))
    session.db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (_place(key), blob))
    return True


def drop_note(session: Session, key: str) -> None:
    session.db.execute("DELETE FROM meta WHERE key = ?", (_place(key),))


def _place(key: str) -> str:
    return f"note:{key}"
