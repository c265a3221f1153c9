"""The durable queue: one protocol, several homes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import StoreError, UsageError
from shoal.text import at_store

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier

DEFAULT_STORE = ".shoal/shoal.db"


def open_frontier(store: str, *, create: bool = True, patient: bool = False) -> Frontier:
    """The home that `store` names: a path or ':memory:' (SQLite), or the address of a server (Valkey, Redis), such as
    redis://host:6379/0. It still has to be entered (`async with`). Whoever only looks creates and upgrades nothing;
    who is `patient` waits for a server that is not there yet."""
    if not is_local(store):
        from shoal.frontier.redis.address import Address

        address = Address.parse(store)  # before the driver is loaded: a mistyped address is told at once
        try:
            from shoal.frontier.redis.home import RedisFrontier
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{address} needs the package {error.name}: pip install 'shoal[redis]'"
            ) from error
        return RedisFrontier(address, may_upgrade=create, patient=patient)
    if not create and not Path(store).is_file():
        raise StoreError(f"there is no store at {store}: start a crawl here first, or name one with --store")
    from shoal.frontier.sqlite import SqliteFrontier

    return SqliteFrontier(store)


def known_layout() -> int:
    """That of stores on a server, as this version writes them."""
    from shoal.frontier.redis.keys import LAYOUT

    return LAYOUT


def is_local(store: str) -> bool:
    """Whether all who use the store are on this machine, and see the same files."""
    return "://" not in store


def shown(store: str) -> str:
    """A store as it may be shown: without a user or a password."""
    if is_local(store):
        return store
    from shoal.frontier.redis.address import Address

    return str(Address.parse(store))


def hint_at(store: str) -> str:
    """From now on, commands that a person is told to type name this store. Answers it."""
    at_store.set("" if store == DEFAULT_STORE else f" --store {shlex.quote(shown(store))}")
    return store
