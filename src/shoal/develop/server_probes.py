"""Probes of `shoal doctor` that ask others: names, the store, databases, proxies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.develop.findings import Finding, State
from shoal.develop.probe import Place, in_thread
from shoal.errors import ShoalError
from shoal.frontier import is_local, look_at_server, shown
from shoal.frontier.values import ServerLook
from shoal.sink.outputs import read_output
from shoal.text import error_line
from shoal.text.humanize import latency, plural, size

if TYPE_CHECKING:
    from shoal.fetch.proxy.proxy import Proxy
    from shoal.fetch.resolver import Resolver

_SHOWN = 3  # proxies that cannot be reached
_SKEW = 1.0  # seconds by which two clocks may differ
_SLOW = 0.05  # seconds for an answer of the store
_PROXIES, _AT_ONCE, _CONNECT = 200, 100, 2.0  # asked at most; at once; seconds for a connection


async def dns(place: Place) -> list[Finding]:
    from shoal.fetch.resolver import Resolver

    resolver = Resolver(place.settings)
    try:
        return list(await asyncio.gather(*(_look_up(resolver, name) for name in place.names)))
    finally:
        await resolver.close()


async def _look_up(resolver: Resolver, name: str) -> Finding:
    from shoal.fetch.dns_lookup import UnresolvedError

    began = time.monotonic()
    try:
        addresses = await resolver.resolve(name)
    except UnresolvedError as error:
        do = "see /etc/resolv.conf and the setting dns_servers, or whether this machine is online"
        if error.why == "no_such_name":
            do = "see whether it is spelt right, and whether names of the internet are known here (dns_servers)"
        return Finding("dns", "wrong", f"{name} has no address: {error.message or error.why}", do)
    return Finding("dns", "ok", f"{name} is {addresses[0]}, found in {latency(time.monotonic() - began)}")


# -- the store


async def store(place: Place) -> list[Finding]:
    if is_local(place.store):
        return [await in_thread(lambda: _store_file(Path(place.store)))]
    look = await look_at_server(place.store)
    at = shown(place.store)
    used = (
        f"{size(look.used)} of {size(look.limit)}"
        if look.limit
        else f"{size(look.used)} used, without a limit"
    )
    servers = f", {look.servers} servers" if look.servers > 1 else ""
    found = [
        Finding("valkey", "ok", f"{at}: {look.version}{servers}, {used}, answers in {latency(look.seconds)}")
    ]
    return [*found, *_weak_points(look, at)]


def _store_file(path: Path) -> Finding:
    said = size(path.stat().st_size) if path.is_file() else "made by the first crawl"
    return Finding("store", "ok", f"{path}: a file, {said}; one machine needs no Valkey")


def _weak_points(look: ServerLook, at: str) -> list[Finding]:
    found: list[Finding] = []
    if look.syncs != "always":
        said = {
            "never": "keeps nothing on its disk: a restart loses every job",
            "everysec": "writes to its disk once a second: a power cut loses the last one",
        }.get(look.syncs, f"leaves to its system when it writes to its disk (appendfsync {look.syncs})")
        do = "set appendonly yes, and appendfsync always if no page may be fetched twice; see docs/valkey.md"
        found.append(Finding("valkey", "warning", f"{at} {said}", do))
    if not look.limit:
        do = "set maxmemory, so that Shoal slows down before the machine has none left"
        found.append(Finding("valkey", "warning", f"{at} has no limit of memory", do))
    if look.ahead is not None and abs(look.ahead) > _SKEW:
        said = f"its clock is {abs(look.ahead):.1f} s {'ahead of' if look.ahead > 0 else 'behind'} this machine's"
        found.append(Finding("clock", "warning", f"{at}: {said}", "start a time service on both"))
    if look.seconds > _SLOW:
        do = "run workers near it: every batch of pages waits for it"
        found.append(Finding("valkey", "warning", f"{at} takes {latency(look.seconds)} to answer", do))
    return found


# -- databases


async def postgresql(place: Place) -> list[Finding]:
    places = [one for one in read_output(list(place.outputs)) if one.kind == "database"]
    if not places:
        return [
            Finding(
                "postgresql", "skipped", "no output is a database", "shoal doctor -o postgresql://… asks one"
            )
        ]
    return [await _ask_database(one.target) for one in places]


async def _ask_database(target: str) -> Finding:
    try:
        from shoal.sink.postgres.database import Connection, Database
    except ModuleNotFoundError:
        return Finding("postgresql", "wrong", "the driver is not installed", "pip install 'shoal[postgres]'")
    from shoal.sink.postgres.address import read_address

    async def ask(connection: Connection) -> Sequence[object]:
        return await connection.fetchrow(
            "SELECT current_setting('server_version'), pg_is_in_recovery(),"
            " has_schema_privilege(current_schema(), 'CREATE')"
        )

    address = read_address(target)
    database = Database(address)
    try:
        await database.open()
        number, standby, may_create = await database.run(ask)
    except ShoalError as error:
        problem, _, do = str(error).partition("; ")
        return Finding("postgresql", "wrong", problem, do)
    finally:
        await database.close()
    said = f"{address.shown}: PostgreSQL {number}"
    if standby:
        return Finding("postgresql", "wrong", f"{said}, a standby that takes no rows", "name the primary")
    if not may_create:
        do = "GRANT CREATE ON SCHEMA … TO the user, or make the tables yourself"
        return Finding("postgresql", "warning", f"{said}; its user may make no tables", do)
    return Finding("postgresql", "ok", f"{said}; its user may make tables")


# -- proxies


async def proxies(place: Place) -> list[Finding]:
    """Whether something listens at their addresses. Nothing is sent through them."""
    from shoal.fetch.proxy.pools import find_pools

    pools = find_pools(place.settings, (), place.environ)
    if not pools:
        return [Finding("proxies", "skipped", "the settings name none")]
    free = asyncio.Semaphore(_AT_ONCE)
    most = max(1, _PROXIES // len(pools))
    return await asyncio.gather(*(_ask_pool(name, pool, most, free) for name, pool in pools.items()))


async def _ask_pool(name: str, pool: Sequence[Proxy], most: int, free: asyncio.Semaphore) -> Finding:
    asked = pool[:most]
    told = await asyncio.gather(*(_connect(proxy.host, proxy.port, free) for proxy in asked))
    deaf = [f"{proxy.address} ({why})" for proxy, why in zip(asked, told, strict=True) if why]
    total = "" if len(asked) == len(pool) else f", of {len(pool)},"
    said = f"pool {name}: {len(asked) - len(deaf)} of {plural(len(asked), 'proxy', 'proxies')}{total} can be reached"
    if not deaf:
        return Finding("proxies", "ok", said)
    state: State = "wrong" if len(deaf) == len(asked) else "warning"
    do = "shoal proxies test --url URL fetches a page through each"
    more = ", …" if len(deaf) > _SHOWN else ""
    return Finding("proxies", state, f"{said}; not {', '.join(deaf[:_SHOWN])}{more}", do)


async def _connect(host: str, port: int, free: asyncio.Semaphore) -> str:
    """Why there is no connection; "": there is one."""
    async with free:
        try:
            async with asyncio.timeout(_CONNECT):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return error.strerror or error_line(error)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return ""
