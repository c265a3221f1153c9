"""The durable queue: one protocol, several homes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import StoreError, UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier


def open_frontier(store: str, *, create: bool = True) -> Frontier:
    """The home that `store` names: a path (SQLite) or ':memory:'. It still has to be entered (`async with`)."""
    if "://" in store:
        scheme = store.split("://", 1)[0]
        raise UsageError(f"no store of kind {scheme!r}: give the path of a file, such as .shoal/shoal.db")
    if not create and not Path(store).is_file():
        raise StoreError(f"there is no store at {store}: start a crawl here first, or name one with --store")
    from shoal.frontier.sqlite import SqliteFrontier

    return SqliteFrontier(store)
