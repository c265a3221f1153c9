"""The shared state of proxy pools, as notes in the store: one for each pool, and one that lists the pools."""

from __future__ import annotations

import msgspec

from shoal.frontier.compare_and_set import TRIES, change_note
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Note
from shoal.policy.proxy_state import PoolState
from shoal.text import UNREADABLE

_INDEX = "proxies"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PoolState).decode
_decode_index = msgspec.msgpack.Decoder(list[str]).decode


class StoredPools:
    """The `PoolStore` of a crawl: every process on the store shares it."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def read(self, pool: str) -> tuple[PoolState, int]:
        note = await self._notes.note(_key(pool))
        return state_of(note), note.version if note is not None else 0

    async def write(self, pool: str, state: PoolState, version: int) -> bool:
        if version == 0:
            await self._list(pool)
        return await self._notes.set_note(_key(pool), _encode(state), version)

    async def read_all(self) -> dict[str, PoolState]:
        """Every pool that the store knows, by name."""
        pools = _listed(await self._notes.note(_INDEX))
        return {pool: (await self.read(pool))[0] for pool in pools}

    async def _list(self, pool: str) -> None:
        async def with_pool(note: Note | None) -> bytes | None:
            known = _listed(note)
            return None if pool in known else _encode(sorted([*known, pool]))

        await change_note(self._notes, _INDEX, with_pool, tries=TRIES)


def state_of(note: Note | None) -> PoolState:
    try:
        return _decode(note.value) if note is not None else PoolState()
    except UNREADABLE:
        return PoolState()  # written by another version


def _key(pool: str) -> str:
    return f"{_INDEX}:{pool}"


def _listed(note: Note | None) -> list[str]:
    return _decode_index(note.value) if note is not None else []
