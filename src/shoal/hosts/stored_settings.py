"""Settings for hosts that a person has put into a store: for all jobs, and for hosts that no job has met yet.

They are in one note, by host or by "*.example.com". The record of a host has a copy of its settings and the note's
version, so that a worker with an older copy of the note does not undo newer settings. A worker reads the note every few
seconds, and before it meets a host for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from shoal.errors import UsageError
from shoal.frontier.compare_and_set import change_note
from shoal.frontier.protocol import Frontier, Hosts, Notes
from shoal.frontier.values import Note
from shoal.hosts.host_state import BY_HAND, HostState, state_of
from shoal.limits import HOST_TABLES
from shoal.policy.host_table import HostTable
from shoal.settings import HostSettings
from shoal.text import UNREADABLE

KEY = "host-settings"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, dict[str, Any]]).decode

Tables = Mapping[str, HostSettings]


class StoredSettings(Struct, frozen=True):
    """The settings of a store for hosts, and their version. 0: there have never been any."""

    tables: Tables = {}
    version: int = 0

    @property
    def table(self) -> HostTable:
        return HostTable(self.tables)


async def read_stored_settings(frontier: Notes) -> StoredSettings:
    return _read(await frontier.note(KEY))


async def change_stored_settings(
    frontier: Frontier, fold: Callable[[dict[str, HostSettings]], Tables]
) -> StoredSettings:
    """`fold` is called again if another process wrote first."""
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
    return StoredSettings(tables, written.version)


async def _set_before(frontier: Hosts) -> dict[str, HostSettings]:
    """The settings that older versions, which had no such note, have written into the records of hosts."""
    return {
        record.name: manual.settings
        async for record in frontier.hosts()
        if (manual := state_of(record).manual).rate is not None or manual.per_host is not None
    }


def _read(note: Note | None) -> StoredSettings:
    if note is None:
        return StoredSettings()
    try:
        found = _decode(note.value)
    except UNREADABLE:
        found = {}
    return StoredSettings({name: _known(table) for name, table in found.items()}, note.version)


def _known(table: dict[str, Any]) -> HostSettings:
    """The settings that this version knows; a newer one may have written more."""
    given = {}
    for key in BY_HAND:
        try:
            given[key] = getattr(msgspec.convert({key: table.get(key)}, HostSettings), key)
        except msgspec.ValidationError:
            continue
    return HostSettings(**given)


class StoredSettingsCopy:
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
        standing = await read_stored_settings(self._frontier)
        if standing.version != self.version:
            self.version, self.table = standing.version, standing.table

    def applied(self, host: str, state: HostState) -> HostState:
        """The state with the note's settings for the host, unless it has these already, or newer ones."""
        if self.version <= state.manual.version:
            return state
        manual = state.manual.following(self.table.of(host), self.version)
        same = manual.settings == state.manual.settings
        return state if same else msgspec.structs.replace(state, manual=manual)
