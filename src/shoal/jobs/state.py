"""The values of `spider.state` in a store: one note a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from shoal.errors import SpiderError
from shoal.frontier.codec import stored
from shoal.frontier.compare_and_set import change_note
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Note
from shoal.spider.state import check_size


class _Stored(Struct, frozen=True):
    made_at: float  # of the job: one that is made anew begins without values
    values: dict[str, Any]


_encode = msgspec.json.Encoder().encode
_decode = stored("state of a job")(msgspec.json.Decoder(_Stored).decode)


def state_key(job: str) -> str:
    return f"state/{job}"


class StoredState:
    """`made_at`: when the job was made, as this process knows it."""

    def __init__(self, notes: Notes, job: str, made_at: Callable[[], float]) -> None:
        self._notes = notes
        self._job = job
        self._made_at = made_at
        self._changing = asyncio.Lock()  # pages of one process take turns, instead of trying again

    async def read(self) -> dict[str, Any]:
        return self._values(await self._notes.note(state_key(self._job)))

    async def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        async def changed(note: Note | None) -> bytes:
            values = self._values(note)
            change(values)
            encoded = _encode(_Stored(self._made_at(), values))
            check_size(encoded)
            return encoded

        async with self._changing:
            await change_note(self._notes, state_key(self._job), changed)

    def _values(self, note: Note | None) -> dict[str, Any]:
        if note is None:
            return {}
        known = _decode(note.value)
        if known.made_at > self._made_at():
            raise SpiderError(
                f"spider.state: job {self._job} was started over; this page belongs to the former one"
            )
        return known.values if known.made_at == self._made_at() else {}
