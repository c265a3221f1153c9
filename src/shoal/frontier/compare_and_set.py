"""Changes of a value that several processes write: read it, change it, write it, and again if another wrote first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

from msgspec.structs import replace

from shoal.frontier.protocol import Hosts, Notes
from shoal.frontier.values import HostRecord, Note

TRIES = 20  # for a change that can wait until the next time


async def change_note(
    notes: Notes,
    key: str,
    change: Callable[[Note | None], Awaitable[bytes | None]],
    *,
    tries: int | None = None,
) -> Note | None:
    """`change` gets the note and returns its new value, or None to leave it as it is. Returns the note as it is now,
    with version 0 if it was never written; or None if others wrote first every time."""
    for _ in _attempts(tries):
        note = await notes.note(key)
        value, version = await change(note), note.version if note is not None else 0
        if value is None:
            return note or Note(b"", 0)
        if await notes.set_note(key, value, version):
            return Note(value, version + 1)
    return None


async def change_host(
    hosts: Hosts,
    host: str,
    change: Callable[[HostRecord], HostRecord | None],
    *,
    tries: int | None = None,
) -> HostRecord | None:
    """`change` gets the record and returns the new one, or None to leave it as it is. Returns the record as written;
    None if nothing was: there is no such host, it was left as it is, or others wrote first every time."""
    for _ in _attempts(tries):
        record = await hosts.host(host)
        changed = change(record) if record is not None else None
        if changed is None:
            return None
        if await hosts.update_host(changed):
            return replace(changed, version=changed.version + 1)
    return None


def _attempts(tries: int | None) -> count[int] | range:
    return count() if tries is None else range(tries)
