"""`shoal quality`: what handlers yield that is not as it was, and accepting that it is so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.hosts import Host
from shoal.cli.options import DEFAULT_STORE, AsJson, Store, option, refuse_options

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.inspect.quality import HostQuality
    from shoal.policy.quality_alarms import Alarm

app = typer.Typer(
    help="Show fields that are empty, and numbers that are out of their range, where they were not before."
)


@app.callback(invoke_without_command=True)
def quality(context: typer.Context, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show the alarms of all hosts."""
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    from shoal.terminal.console import print_json
    from shoal.terminal.quality_table import print_alarms

    found = _look(store, None)
    if as_json:
        print_json([host for host in found if host.alarms])
    else:
        print_alarms(found)


@app.command()
def show(host: Host, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show what is watched at a host: every field, as it was and as it is."""
    from shoal.admit.identity import host_key
    from shoal.cli.targets import as_url
    from shoal.terminal.console import print_json
    from shoal.terminal.quality_table import print_fields

    name = host_key(as_url(host))
    found = _look(store, name)
    if as_json:
        print_json(found[0] if found else None)
    else:
        print_fields(name, found[0] if found else None)


@app.command()
def accept(
    host: Host,
    handler: Annotated[str | None, option("--handler", value="NAME", text="Of this handler only.")] = None,
    field: Annotated[
        str | None, option("--field", value="NAME", text="Of this field only; (rows): the rows of a page.")
    ] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Say that what is now is normal: the alarms end, and what was held is written at the next visit."""
    from shoal.admit.identity import host_key
    from shoal.cli.targets import as_url
    from shoal.inspect.quality import accept_quality
    from shoal.policy.quality_alarms import where
    from shoal.terminal.console import ask, say
    from shoal.text import command

    name = host_key(as_url(host))

    async def carry_out(frontier: Frontier) -> list[Alarm]:
        return await accept_quality(frontier, name, handler, field)

    for one in ask(store, carry_out):
        say(f"{name}: {where(one.unit, one.field)} is accepted as it is now")
    say(f"items that were rejected for it can be written: {command(f'rejected replay --host {name}')}")


def _look(store: str, host: str | None) -> list[HostQuality]:
    from shoal.inspect.quality import look_at_quality
    from shoal.terminal.console import ask

    async def look(frontier: Frontier) -> list[HostQuality]:
        return [one async for one in look_at_quality(frontier, host)]

    return ask(store, look)
