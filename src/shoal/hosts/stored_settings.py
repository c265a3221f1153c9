"""Settings for hosts that a person has given a store: for every job in it, and for hosts that nobody has met yet.

They are one small note, by host or by "*.example.com". A host's record has a copy of what they say of it, with the
note's version: so whoever looks at the host sees them at once, and a worker whose own copy of the note is older does
not undo what is newer. A worker looks at the note every now and then, and before it meets a host for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from shoal.errors import UsageError
from shoal.frontier.notes import change_note
from shoal.frontier.protocol import Frontier, Hosts, Notes
from shoal.frontier.values import Note
from shoal.hosts.state import BY_HAND, HostState, state_of
from shoal.limits import HOST_TABLES
from shoal.policy.host_table import HostTable
from shoal.settings import HostSettings
from shoal.text import UNREADABLE

KEY = "host-settings"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, dict[str, Any]]).decode

Tables = Mapping[str, HostSettings]


class Standing(Struct, frozen=True):
    """The settings of a store for hosts, and their version; 0: there have never been any."""

    tables: Tables = {}
    version: int = 0

    @property
    def table(self) -> HostTable:
        return HostTable(self.tables)


async def read_standing(frontier: Notes) -> Standing:
    return _read(await frontier.note(KEY))


async def change_standing(frontier: Frontier, fold: Callable[[dict[str, HostSettings]], Tables]) -> Standing:
    """`fold` is asked anew if somebody else was quicker."""
    tables: Tables = {}

    async def encoded(note: Note | None) -> bytes:
        nonlocal tables
        known = _read(note)
        before = dict(known.tables) if known.version else await _set_before(frontier)
        tables = {name: table for name, table in fold(before).items() if table != HostSettings()}
        if len(tables) > HOST_TABLES:
            raise UsageError(
                f"{len(tables):,} hosts and patterns would have settings of their own in this store, and at most "
                f"{HOST_TABLES:,} may: use patterns, or the tables of shoal.toml"
            )
        return _encode(tables)

    written = await change_note(frontier, KEY, encoded)
    assert written is not None
    return Standing(tables, written.version)


async def _set_before(frontier: Hosts) -> dict[str, HostSettings]:
    """What versions without such a note have written into the records of hosts."""
    return {
        record.name: manual.settings
        async for record in frontier.hosts()
        if (manual := state_of(record).manual).rate is not None or manual.per_host is not None
    }


def _read(note: Note | None) -> Standing:
    if note is None:
        return Standing()
    try:
        found = _decode(note.value)
    except UNREADABLE:
        found = {}
    return Standing({name: _known(table) for name, table in found.items()}, note.version)


def _known(table: dict[str, Any]) -> HostSettings:
    """What this version knows of; a newer one may have written more."""
    given = {}
    for key in BY_HAND:
        try:
            given[key] = getattr(msgspec.convert({key: table.get(key)}, HostSettings), key)
        except msgspec.ValidationError:
            continue
    return HostSettings(**given)


class StandingCopy:
    """A worker's copy of the note."""

    def __init__(self, frontier: Notes) -> None:
        self._frontier = frontier
        self._read_at: float | None = None
        self.version = 0
        self.table = HostTable({})

    async def refresh(self, now: float, *, older_than: float) -> None:
        """Reads the note again, if the copy is older than so many seconds."""
        if self._read_at is not None and now - self._read_at < older_than:
            return
        self._read_at = now
        standing = await read_standing(self._frontier)
        if standing.version != self.version:
            self.version, self.table = standing.version, standing.table

    def applied(self, host: str, state: HostState) -> HostState:
        """The state with what the note says of the host, unless the state has that, or newer words."""
        if self.version <= state.manual.version:
            return state
        manual = state.manual.following(self.table.of(host), self.version)
        same = manual.settings == state.manual.settings
        return state if same else msgspec.structs.replace(state, manual=manual)
