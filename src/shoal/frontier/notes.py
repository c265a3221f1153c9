"""Changes of a note that many processes write: compare-and-set, as often as it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

from shoal.frontier.protocol import Notes
from shoal.frontier.values import Note

TRIES = 20  # for what can wait until the next time


async def change_note(
    notes: Notes,
    key: str,
    change: Callable[[Note | None], Awaitable[bytes | None]],
    *,
    tries: int | None = None,
) -> Note | None:
    """Reads, changes, writes, and again from the start if another was quicker: `change` is asked anew then. It answers
    with the new value, or with None to leave the note alone. Answers with the note as it is now, version 0 if there is
    none; or with None if others were quicker every time."""
    for _ in count() if tries is None else range(tries):
        note = await notes.note(key)
        value, version = await change(note), note.version if note is not None else 0
        if value is None:
            return note or Note(b"", 0)
        if await notes.set_note(key, value, version):
            return Note(value, version + 1)
    return None
