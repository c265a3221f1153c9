"""`shoal store upgrade`: brings a store of an older version to this one's format."""

from __future__ import annotations

from shoal.cli.options import DEFAULT_STORE, Store


def upgrade(store: Store = DEFAULT_STORE) -> None:
    """Bring a store of an older version to this version's format. Nobody may be using it."""
    from shoal.frontier import is_local, shown
    from shoal.terminal.console import ask, stdout

    ask(store, _format_of, create=not is_local(store))
    stdout().print(f"{shown(store)} has the format of this version")


async def _format_of(_: object) -> None:
    """To open it is all."""
