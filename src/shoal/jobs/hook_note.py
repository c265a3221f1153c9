"""What a store notes about the hooks at the start and the end of a job, so that each runs once for all processes."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from shoal.frontier.compare_and_set import change_note
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Job, Note
from shoal.text import UNREADABLE


class HookNote(Struct, frozen=True):
    made_at: float = 0.0  # of the job: one that is made anew under its name has hooks of its own
    started: bool = False  # its `on_job_start` hooks have run
    ended: float = (
        0.0  # when the job was finished for whose end `on_job_end` has run; it may go on, and finish again
    )


def hook_key(job: str) -> str:
    return f"hooks/{job}"


def hook_lead_key(job: str) -> str:
    """The note of who runs them now."""
    return f"hook-lead/{job}"


async def read_hook_note(notes: Notes, job: Job) -> HookNote:
    return _decoded(await notes.note(hook_key(job.spec.name)), job)


async def write_hook_note(notes: Notes, job: Job, *, ended: float = 0.0) -> None:
    written = msgspec.msgpack.encode(HookNote(job.created_at, True, ended))

    async def change(note: Note | None) -> bytes | None:
        known = _decoded(note, job)
        return None if known.started and known.ended >= ended else written

    await change_note(notes, hook_key(job.spec.name), change)


def _decoded(note: Note | None, job: Job) -> HookNote:
    try:
        known = msgspec.msgpack.decode(note.value, type=HookNote) if note is not None else HookNote()
    except UNREADABLE:
        return HookNote()  # written by another version
    return known if known.made_at == job.created_at else HookNote()
