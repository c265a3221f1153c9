"""The durable queue: one protocol, several homes.

The guardian imports a module of this package before its fork, so this imports little.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from shoal.errors import StoreError, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import ServerLook

DEFAULT_STORE = ".shoal/shoal.db"


def open_frontier(store: str, *, create: bool = True, patient: bool = False) -> Frontier:
    """The home that `store` names: a path or ':memory:' (SQLite), or the address of a server (Valkey, Redis), such as
    redis://host:6379/0. It must be entered (`async with`). Without `create`, nothing is created or upgraded; `patient`
    waits for a server that is not up yet."""
    if not is_local(store):
        from shoal.frontier.redis.address import Address

        address = Address.parse(
            store
        )  # before the driver is loaded, so that a mistyped address fails at once
        try:
            from shoal.frontier.redis.home import RedisFrontier
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{address} needs the package {error.name}: pip install 'shoal[redis]'"
            ) from error
        return RedisFrontier(address, may_upgrade=create, patient=patient)
    if not create:
        from pathlib import Path

        if not Path(store).is_file():
            raise StoreError(
                f"there is no store at {store}: start a crawl here first, or name one with --store"
            )
    from shoal.frontier.sqlite import SqliteFrontier

    return SqliteFrontier(store)


async def look_at_server(store: str) -> ServerLook:
    """What the server that `store` names says of itself. Nothing is written there."""
    from shoal.frontier.redis.address import Address

    address = Address.parse(store)
    try:
        from shoal.frontier.redis.server_look import look_at
    except ModuleNotFoundError as error:
        raise UsageError(f"{address} needs the package {error.name}: pip install 'shoal[redis]'") from error
    return await look_at(address)


def for_other_thread(frontier: Frontier) -> AbstractAsyncContextManager[Frontier]:
    """The same home, for the event loop of another thread."""
    address = getattr(frontier, "address", None)
    if address is None:
        return nullcontext(frontier)  # a file has a thread of its own, which all loops ask
    from shoal.frontier.redis.home import RedisFrontier

    return RedisFrontier(address, may_upgrade=False)


def known_layout() -> int:
    """The layout that this version writes on a server."""
    from shoal.frontier.redis.keys import LAYOUT

    return LAYOUT


def is_local(store: str) -> bool:
    """Whether all processes that use the store are on this machine and see the same files."""
    return "://" not in store


def shown(store: str) -> str:
    """A store as it may be shown: without a user or a password."""
    if is_local(store):
        return store
    from shoal.frontier.redis.address import Address

    return str(Address.parse(store))


def hint_at(store: str) -> str:
    """From now on, commands in hints name this store. Returns the store."""
    import shlex

    from shoal.text import at_store

    at_store.set("" if store == DEFAULT_STORE else f" --store {shlex.quote(shown(store))}")
    return store
