"""`shoal proxies`: how the proxies of every pool are doing, and trying them out."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Config, Pairs, Store, flags, option, refuse_options
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.fetch.proxy.proxy import Proxy
    from shoal.frontier.protocol import Frontier
    from shoal.inspect.lookup import PoolUse, ProxyView
    from shoal.model import Outcome
    from shoal.settings import Settings

_FIRST = 20  # hosts that are shown with the proxies

app = typer.Typer(
    help="Show the proxies of every pool: requests, success, latency, quarantine. Try them out."
)


@app.callback(invoke_without_command=True)
def proxies(
    context: typer.Context,
    store: Store = DEFAULT_STORE,
    pool: Annotated[str | None, option("--pool", value="NAME", text="Of this pool only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the proxies, as the crawls on this store have met them."""
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    from shoal.inspect.lookup import look_at_proxies, look_at_uses
    from shoal.terminal.console import ask, print_json

    async def look(frontier: Frontier) -> tuple[float, list[ProxyView], list[PoolUse]]:
        return await frontier.now(), await look_at_proxies(frontier), await look_at_uses(frontier)

    now, found, uses = ask(store, look)
    chosen = [one for one in found if pool in (None, one.pool)]
    if as_json:
        print_json(chosen)
        return
    _print(chosen, now)
    _print_uses([use for use in uses if pool in (None, use.pool)], _FIRST)


@app.command(name="hosts")
def show_hosts(
    store: Store = DEFAULT_STORE,
    pool: Annotated[str | None, typer.Argument(metavar="POOL", help="Through this pool only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what went through each pool, by host: requests, success, refusals, median time, cost."""
    from shoal.inspect.lookup import look_at_uses
    from shoal.terminal.console import ask, print_json, stdout

    uses = [use for use in ask(store, look_at_uses) if pool in (None, use.pool)]
    if as_json:
        print_json(uses)
    elif uses:
        _print_uses(uses, len(uses))
    else:
        stdout().print("nothing went through a pool yet; docs/proxies.md tells how to set pools up")


def _print_uses(uses: list[PoolUse], most: int) -> None:
    from shoal.terminal.console import safe, stdout, table
    from shoal.text import command, humanize

    if not uses:
        return
    numbers = ("requests", "success", "refused", "median", "received", "cost")
    listing = table("pool", "host", *numbers, right=numbers)
    for use in uses[:most]:
        listing.add_row(
            safe(use.pool),
            safe(use.host),
            humanize.count(use.requests),
            "-" if use.success is None else f"{use.success:.0%}",
            humanize.count(use.refused),
            humanize.latency(use.median),
            humanize.size(use.bytes),
            f"{use.cost:.4g}" if use.cost else "-",
        )
    stdout().print(listing)
    if len(uses) > most:
        stdout().print(f"{len(uses) - most} more: {command('proxies hosts')}")


def _print(proxies: list[ProxyView], now: float) -> None:
    from shoal.terminal.console import safe, stdout, table
    from shoal.text import humanize

    if not proxies:
        stdout().print("no proxies have been used yet; docs/proxies.md tells how to set pools up")
        return
    numbers = ("requests", "success", "latency", "cost")
    listing = table("pool", "proxy", *numbers, "condition", right=numbers)
    for one in proxies:
        left = "" if one.until is None else f", {humanize.span(max(0.0, one.until - now))} left"
        listing.add_row(
            safe(one.pool),
            safe(one.proxy),
            humanize.count(one.requests),
            "-" if one.success is None else f"{one.success:.0%}",
            humanize.latency(one.latency),
            "-" if one.cost is None else f"{one.cost:g}",
            safe(one.condition + left, "green" if one.condition == "ok" else "yellow"),
        )
    stdout().print(listing)


# -- trying them out


@app.command(name="test")
def try_out(
    url: Annotated[str, option("--url", value="URL", text="What to fetch through each proxy.")],
    pool: Annotated[str | None, typer.Argument(metavar="POOL", help="Of this pool only.")] = None,
    as_json: AsJson = False,
    pairs: Pairs = None,
    config: Config = None,
) -> None:
    """Fetch a page through every proxy of the settings, and tell how it went."""
    from shoal.cli.targets import as_url
    from shoal.config import load
    from shoal.engine.event_loop import run_loop
    from shoal.terminal.console import print_json

    settings = load(config, {}, os.environ, flags(pairs))
    found = _chosen(settings, pool)
    rows = run_loop(_try(found, as_url(url), settings))
    if as_json:
        print_json(rows)
    else:
        _print_trial(rows)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _chosen(settings: Settings, pool: str | None) -> list[Proxy]:
    from shoal.fetch.proxy.pools import load_pools, pool_settings

    pools = load_pools(settings, os.environ)
    if not pools:
        raise UsageError("no proxies are set up; add a table [proxies] to shoal.toml, see docs/proxies.md")
    if pool is not None and pool not in pools:
        raise UsageError(f"no pool {pool!r} in the setting proxies; there is: {', '.join(pools)}")
    return [
        proxy.filled_in(pool_settings(settings, name).country, secrets.token_hex(5))
        for name, proxies in pools.items()
        if pool in (None, name)
        for proxy in proxies
    ]


async def _try(proxies: list[Proxy], url: str, settings: Settings) -> list[dict[str, Any]]:
    import asyncio

    from shoal.admit import sent_url
    from shoal.clock import SystemClock
    from shoal.fetch.guard import Guard
    from shoal.fetch.http import HttpTransport
    from shoal.fetch.transport import FetchRequest

    target = sent_url(url) or url
    transport = HttpTransport(settings, _guard_for(target, Guard(settings.allow_network)), SystemClock())
    try:
        outcomes = await asyncio.gather(
            *(transport.fetch(FetchRequest(target, proxy=proxy)) for proxy in proxies)
        )
    finally:
        await transport.close()
    return [_row(proxy, outcome) for proxy, outcome in zip(proxies, outcomes, strict=True)]


def _guard_for(url: str, guard: Any) -> Any:
    """What a person types may be reached."""
    from yarl import URL

    target = URL(url)
    guard.allow(target.host or "", target.port or 0)
    return guard


def _row(proxy: Proxy, outcome: Outcome) -> dict[str, Any]:
    from shoal.policy.outcomes import kind_of, rule_for

    kind = kind_of(outcome)
    return {
        "pool": proxy.pool,
        "proxy": proxy.address,
        "scheme": proxy.scheme,
        "ok": kind in ("ok", "redirect"),
        "result": kind,
        "seconds": outcome.elapsed,
        "detail": getattr(outcome, "detail", "") or rule_for(kind).meaning,
    }


def _print_trial(rows: list[dict[str, Any]]) -> None:
    from shoal.terminal.console import safe, stdout, table
    from shoal.text import humanize

    listing = table("pool", "proxy", "by", "time", "result", right=("time",))
    for row in rows:
        listing.add_row(
            safe(row["pool"]),
            safe(row["proxy"]),
            row["scheme"],
            humanize.latency(row["seconds"]),
            safe(f"{row['result']}  {row['detail']}", "green" if row["ok"] else "red"),
        )
    stdout().print(listing)
