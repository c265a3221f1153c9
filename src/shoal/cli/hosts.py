"""`shoal hosts`: how the hosts of a crawl are doing, and deciding about them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, SHOWN, AsJson, Store, option, refuse_options, seconds, switch
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.hosts.sight import HostSight

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
    from shoal.cli import hostviews
    from shoal.cli.terminal import ask, print_json
    from shoal.inquiry import look_at_hosts

    if limit < 1:
        raise UsageError(f"--limit {limit}: at least 1")
    most = None if everything else limit
    shown, total = ask(store, lambda frontier: _first(look_at_hosts(frontier, job), sort, most))
    if as_json:
        print_json([hostviews.as_dict(host) for host in shown])
    else:
        hostviews.print_table(shown, total)


async def _first(
    hosts: AsyncIterator[HostSight], sort: Sort, limit: int | None
) -> tuple[list[HostSight], int]:
    """The first ones by `sort`, and how many there are. Very many hosts are never held at once."""
    first: list[HostSight] = []
    total = 0
    async for host in hosts:
        total += 1
        first.append(host)
        if limit is not None and len(first) >= 1_000 + limit:
            first = sorted(first, key=_order(sort))[:limit]
    return sorted(first, key=_order(sort))[:limit], total


def _order(sort: Sort) -> Callable[[HostSight], tuple[float | str, ...]]:
    from shoal.hosts.sight import CONDITIONS

    def busy(host: HostSight) -> tuple[float | str, ...]:
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
    from shoal.cli import hostviews
    from shoal.cli.terminal import ask, print_json
    from shoal.inquiry import look_at_host

    name = _name(host)
    sight, queues = ask(store, lambda frontier: look_at_host(frontier, name))
    if as_json:
        print_json({**hostviews.as_dict(sight), "queues": queues})
    else:
        hostviews.print_one(sight, queues)


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
    from shoal.cli.terminal import ask
    from shoal.hosts.orders import block, order

    name, length = _name(host), seconds(span, "--for")

    async def carry_out(frontier: Frontier) -> HostSight:
        until = None if length is None else await frontier.now() + length
        return await order(frontier, name, block(until, reason))

    _tell(ask(store, carry_out))


@app.command()
def unblock(host: Host, store: Store = DEFAULT_STORE) -> None:
    """Let a host be asked again: lifts a block, closes its breaker and forgets its failures."""
    from shoal.cli.terminal import ask, say
    from shoal.frontier.protocol import DeadFilter
    from shoal.hosts.orders import order, unblock

    name = _name(host)
    buried = DeadFilter(host=name, kind="host_down", limit=BURIED_COUNTED)

    async def carry_out(frontier: Frontier) -> tuple[HostSight, int]:
        return await order(frontier, name, unblock), len(await frontier.dead(buried))

    sight, lost = ask(store, carry_out)
    _tell(sight)
    if lost:
        many = f"{lost:,}{'+' if lost == BURIED_COUNTED else ''}"
        say(f"{many} of its pages were buried unfetched; shoal dead replay --host {name} --kind host_down")


@app.command(name="set")
def set_(
    host: Host,
    rate: Annotated[
        str | None, option("--rate", value="R", text="Requests per second; 0 lifts the limit.")
    ] = None,
    per_host: Annotated[str | None, option("--per-host", value="N", text="Requests at once.")] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Set a host's limits by hand, instead of those of the settings. The word `default` takes one back."""
    from shoal.cli.terminal import ask
    from shoal.hosts.orders import order, set_limits

    limits: dict[str, float | None] = {}
    if rate is not None:
        limits["rate"] = _number("--rate", rate, float, 0)
    if per_host is not None:
        limits["per_host"] = _number("--per-host", per_host, int, 1)
    if not limits:
        raise UsageError("say what to set: --rate R or --per-host N; `default` for either takes it back")
    name = _name(host)
    _tell(ask(store, lambda frontier: order(frontier, name, set_limits(**limits))))


def _name(word: str) -> str:
    """The host that is meant by its name or by one of its URLs."""
    from shoal.admit.identity import host_key
    from shoal.cli.targets import as_url

    return host_key(as_url(word))


def _number(name: str, text: str, kind: Callable[[str], float], least: int) -> float | None:
    """None: `default`."""
    if text == DEFAULT:
        return None
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        what = "a whole number" if kind is int else "a number"
        raise UsageError(f"{name} {text!r}: {what}, at least {least}, or `default`")
    return number


def _tell(host: HostSight) -> None:
    from shoal.cli import hostviews
    from shoal.cli.terminal import say

    say(hostviews.in_one_line(host))
