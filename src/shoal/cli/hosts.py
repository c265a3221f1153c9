"""`shoal hosts`: how the hosts of a crawl are doing, and deciding about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, SHOWN, AsJson, Store, option, refuse_options, seconds, switch
from shoal.errors import UsageError
from shoal.text import command

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import HostQueue
    from shoal.inspect.host import HostView
    from shoal.settings import HostSettings

app = typer.Typer(help="Show the hosts: rate, latency, breaker, queue, errors. Block, unblock or set them.")

LIMIT = 20
BURIED_COUNTED = 10_000
DEFAULT = "default"


class Sort(StrEnum):
    TROUBLE = "trouble"
    QUEUE = "queue"
    LATENCY = "latency"
    RATE = "rate"
    HOST = "host"


Host = Annotated[str, typer.Argument(metavar="HOST", help="With its port, unless that is the usual one.")]
HostOrPattern = Annotated[
    str, typer.Argument(metavar="HOST", help="With its port, unless that is the usual one; or *.example.com.")
]


@app.callback(invoke_without_command=True)
def hosts(
    context: typer.Context,
    store: Store = DEFAULT_STORE,
    job: Annotated[str | None, option("--job", value="NAME", text="Of this job only.")] = None,
    sort: Annotated[
        Sort,
        typer.Option(
            "--sort",
            metavar="BY",
            help=f"What comes first: {', '.join(Sort)}.",
            rich_help_panel=SHOWN,
        ),
    ] = Sort.TROUBLE,
    limit: Annotated[int, option("--limit", value="N", text="At most so many.", panel=SHOWN)] = LIMIT,
    everything: Annotated[bool, switch("--all", text="All of them.", panel=SHOWN)] = False,
    as_json: AsJson = False,
) -> None:
    """Show the hosts, the most troubled and the busiest first."""
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    from shoal.inspect.json_form import host_dict
    from shoal.inspect.lookup import look_at_hosts
    from shoal.terminal import tables
    from shoal.terminal.console import ask, print_json

    if limit < 1:
        raise UsageError(f"--limit {limit}: at least 1")
    most = None if everything else limit
    shown, total = ask(store, lambda frontier: _first(look_at_hosts(frontier, job), sort, most))
    if as_json:
        print_json([host_dict(host) for host in shown])
    else:
        tables.print_hosts(shown, total)


async def _first(hosts: AsyncIterator[HostView], sort: Sort, limit: int | None) -> tuple[list[HostView], int]:
    """The first ones by `sort`, and how many there are. Very many hosts are never held at once."""
    first: list[HostView] = []
    total = 0
    async for host in hosts:
        total += 1
        first.append(host)
        if limit is not None and len(first) >= 1_000 + limit:
            first = sorted(first, key=_order(sort))[:limit]
    return sorted(first, key=_order(sort))[:limit], total


def _order(sort: Sort) -> Callable[[HostView], tuple[float | str, ...]]:
    from shoal.inspect.host import CONDITIONS

    def busy(host: HostView) -> tuple[float | str, ...]:
        return -host.pending, -host.valve.in_flight, host.name

    return {
        Sort.TROUBLE: lambda host: (-CONDITIONS.index(host.condition), *busy(host)),
        Sort.QUEUE: busy,
        Sort.LATENCY: lambda host: (-(host.latency or 0.0), *busy(host)),
        Sort.RATE: lambda host: (-host.valve.interval, *busy(host)),
        Sort.HOST: lambda host: (host.name,),
    }[sort]


@app.command()
def show(host: Host, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show one host, and what holds it back."""
    from shoal.inspect.json_form import host_dict, settings_dict
    from shoal.inspect.lookup import look_at_host, settings_to_come
    from shoal.terminal import tables
    from shoal.terminal.console import ask, print_json, stdout

    name = _name(host)

    async def look(frontier: Frontier) -> tuple[HostView, Sequence[HostQueue]] | HostSettings:
        to_come = await settings_to_come(frontier, name)
        return to_come if to_come is not None else await look_at_host(frontier, name)

    found = ask(store, look)
    if not isinstance(found, tuple):
        if as_json:
            print_json({"host": name, "known": False, "settings": settings_dict(found)})
        else:
            stdout().print(tables.not_met(name, found), markup=False)
        return
    view, queues = found
    if as_json:
        print_json({"now": view.now, **host_dict(view), "queues": queues})
    else:
        tables.print_host(view, queues)


@app.command()
def block(
    host: Host,
    span: Annotated[
        str | None, option("--for", value="TIME", text="For so long: 30s, 10m, 2h. Without: until unblocked.")
    ] = None,
    reason: Annotated[str, option("--reason", value="TEXT", text="Why, for whoever asks.")] = "",
    store: Store = DEFAULT_STORE,
) -> None:
    """Send a host no more requests. Its pages wait; those in flight are finished."""
    from shoal.inspect.actions import block, order
    from shoal.terminal.console import ask

    name, length = _name(host), seconds(span, "--for")

    async def carry_out(frontier: Frontier) -> HostView:
        until = None if length is None else await frontier.now() + length
        return await order(frontier, name, block(until, reason))

    _tell(ask(store, carry_out))


@app.command()
def unblock(host: Host, store: Store = DEFAULT_STORE) -> None:
    """Let a host be asked again: lifts a block, ends its cooldown and forgets its failures."""
    from shoal.frontier.values import DeadFilter
    from shoal.inspect.actions import order, unblock
    from shoal.terminal.console import ask, say

    name = _name(host)
    buried = DeadFilter(host=name, kind="host_down", limit=BURIED_COUNTED)

    async def carry_out(frontier: Frontier) -> tuple[HostView, int]:
        return await order(frontier, name, unblock), len(await frontier.dead(buried))

    view, lost = ask(store, carry_out)
    _tell(view)
    if lost:
        many = f"{lost:,}{'+' if lost == BURIED_COUNTED else ''}"
        say(
            f"{many} of its pages were buried unfetched; {command(f'dead replay --host {name} --kind host_down')}"
        )


@app.command(name="set")
def set_(
    host: HostOrPattern,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="rate, per_host, timeout, pool, robots or lane."),
    ] = None,
    rate: Annotated[str | None, option("--rate", value="R", text="The same as rate=R.")] = None,
    per_host: Annotated[str | None, option("--per-host", value="N", text="The same as per_host=N.")] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Set what holds at a host, instead of the settings of all jobs. The word `default` takes one back."""
    given = _pairs(pairs or ())
    options = {"rate": rate, "per_host": per_host}
    given |= {key: text for key, text in options.items() if text is not None}
    if not given:
        raise UsageError("say what to set, as in rate=0.5 per_host=1; `default` as a value takes it back")
    _change(host, given, store)


@app.command()
def unset(
    host: HostOrPattern,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="What to take back. Without: everything.")
    ] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Take back what was set for a host by hand."""
    from shoal.hosts.host_state import BY_HAND

    _change(host, dict.fromkeys(keys or BY_HAND, DEFAULT), store)


@app.command(name="settings")
def settings_(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show what was set by hand in this store, host by host and pattern by pattern."""
    from shoal.hosts.stored_settings import read_stored_settings
    from shoal.inspect.json_form import settings_dict
    from shoal.terminal import tables
    from shoal.terminal.console import ask, print_json

    standing = ask(store, read_stored_settings)
    if as_json:
        print_json({name: settings_dict(table) for name, table in sorted(standing.tables.items())})
    else:
        tables.print_settings(standing.tables)


def _change(word: str, given: dict[str, str], store: str) -> None:
    from shoal.inspect.actions import Set, set_for_hosts
    from shoal.inspect.lookup import look_at_host
    from shoal.terminal import tables
    from shoal.terminal.console import ask, say

    name = _pattern(word)
    wanted = _read(given)

    async def carry_out(frontier: Frontier) -> tuple[Set, HostView | None]:
        await _check_names(frontier, wanted)
        done = await set_for_hosts(frontier, name, wanted)
        is_one = done.hosts == 1 and await frontier.host(name) is not None
        return done, (await look_at_host(frontier, name))[0] if is_one else None

    done, view = ask(store, carry_out)
    say(tables.host_in_one_line(view) if view is not None else tables.set_in_one_line(done))


def _pairs(words: Sequence[str]) -> dict[str, str]:
    given = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{word!r}: write it as KEY=VALUE, for example rate=0.5")
        given[key.strip()] = value.strip()
    return given


def _read(given: dict[str, str]) -> dict[str, object]:
    """None: `default`."""
    from shoal.config import read_host_settings

    if "headers" in given:
        raise UsageError(
            "headers may be secret and are not kept in a store: put them into a table "
            '[host."…"] of the shoal.toml of each worker'
        )
    values = read_host_settings({key: text for key, text in given.items() if text != DEFAULT}, "hosts set")
    read_host_settings({key: "1" for key, text in given.items() if text == DEFAULT}, "hosts set")
    return {key: None if given[key] == DEFAULT else getattr(values, key) for key in given}


async def _check_names(frontier: Frontier, wanted: dict[str, object]) -> None:
    """A pool or a lane that nobody has would keep the host's pages waiting."""
    import os

    from shoal.config import load
    from shoal.hosts.proxy_pools import StoredPools
    from shoal.inspect.lookup import chosen_jobs, settings_for
    from shoal.policy.lanes import no_such_lane

    lane, pool = wanted.get("lane"), wanted.get("pool")
    mine = load(None, {}, os.environ, {}) if lane or pool else None
    if lane and mine is not None:
        lanes = mine.lane_weights
        for job in await chosen_jobs(frontier, None):
            lanes |= settings_for(job).lane_weights
        if lane not in lanes:
            raise UsageError(f"lane={lane}: {no_such_lane(str(lane), lanes)}")
    if pool and mine is not None:
        pools = sorted({*await StoredPools(frontier).read_all(), *mine.proxies, "direct"})
        if pool not in pools:
            raise UsageError(
                f"pool={pool}: no crawl on this store has used such a pool; there are {', '.join(pools)}. "
                "A new one must be in the setting proxies here, too"
            )


def _pattern(word: str) -> str:
    """The host that is meant, or all hosts below a name."""
    from shoal.policy.host_table import host_pattern

    if "*" not in word:
        return _name(word)
    try:
        return host_pattern(word)
    except ValueError as error:
        raise UsageError(f"{word!r} is not a host: {error}") from None


def _name(word: str) -> str:
    """The host that is meant by its name or by one of its URLs."""
    from shoal.admit.identity import host_key
    from shoal.cli.targets import as_url

    return host_key(as_url(word))


def _tell(host: HostView) -> None:
    from shoal.terminal import tables
    from shoal.terminal.console import say

    say(tables.host_in_one_line(host))
