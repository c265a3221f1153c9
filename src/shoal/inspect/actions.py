"""What a person may decide: about a host, where it becomes part of the record, and about dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.frontier.compare_and_set import change_host
from shoal.frontier.protocol import Frontier, Hosts
from shoal.frontier.values import DeadFilter
from shoal.hosts.host_limits import StateChange
from shoal.hosts.host_state import HostState, Manual, state_of
from shoal.hosts.stored_settings import StoredSettings, Tables, change_stored_settings
from shoal.inspect.event_log import tell
from shoal.inspect.host import HostView
from shoal.inspect.lookup import RulesOfHosts, look_at_host, rules_of_host, unknown_host
from shoal.policy.host_table import ANY, patterns_of
from shoal.settings import HostSettings
from shoal.valve import FOREVER


class Order(Struct, frozen=True):
    event: str  # by which it is told
    fold: StateChange


async def order(frontier: Frontier, host: str, wanted: Order) -> HostView:
    """Carries out a decision; it holds for every worker with the next page it asks for."""
    rules = await rules_of_host(frontier, await frontier.host_queues(host))
    changed = await change_host(frontier, host, rules.folded(wanted.fold, await frontier.now()))
    if changed is None:
        raise unknown_host(host)
    await _tell(frontier, wanted.event, host, state_of(changed).manual)
    return (await look_at_host(frontier, host))[0]


async def _tell(frontier: Frontier, event: str, host: str, manual: Manual) -> None:
    if event == "host_blocked":
        until = manual.blocked_until if manual.blocked_until < FOREVER else None
        await tell(frontier, "host_blocked", host=host, reason=manual.reason, until=until)
    else:
        await tell(frontier, "host_unblocked", host=host)


def block(until: float | None, reason: str) -> Order:
    """Without `until`, until it is taken back."""

    def fold(state: HostState) -> HostState:
        end = FOREVER if until is None else until
        return replace(state, manual=replace(state.manual, blocked_until=end, reason=reason))

    return Order("host_blocked", fold)


def _unblock(state: HostState) -> HostState:
    manual = replace(state.manual, blocked_until=0.0, reason="")
    origins = {scheme: known for scheme, known in state.origins.items() if not known.robots_missing}
    return replace(state, manual=manual, policies=b"", origins=origins)


# Lifts the block, and whatever else keeps the host from being asked: its failures are forgotten, and a robots.txt that
# could not be fetched is asked for again.
unblock = Order("host_unblocked", _unblock)


# -- settings


class Set(Struct, frozen=True):
    """What is set now for a host or a pattern, and how many known hosts follow it."""

    pattern: str
    settings: HostSettings
    hosts: int


async def set_for_hosts(frontier: Frontier, pattern: str, given: Mapping[str, object]) -> Set:
    """Sets these keys for a host, or for all that "*.example.com" stands for, be they known or not; None takes one
    back. Known hosts follow at once, for their records are written here."""

    def fold(tables: dict[str, HostSettings]) -> Tables:
        return {**tables, pattern: replace(tables.get(pattern, HostSettings()), **given)}

    standing = await change_stored_settings(frontier, fold)
    hosts = [name async for name in _meant_by(pattern, frontier)]
    await _follow(frontier, hosts, standing)
    settings = standing.tables.get(pattern, HostSettings())
    await tell(
        frontier,
        "host_limits_set",
        host=pattern,
        rate=settings.rate,
        per_host=settings.per_host,
        timeout=settings.timeout,
        pool=settings.pool,
        robots=settings.robots,
        lane=settings.lane,
    )
    return Set(pattern, settings, len(hosts))


async def _meant_by(pattern: str, frontier: Hosts) -> AsyncIterator[str]:
    if not pattern.startswith(ANY):
        if await frontier.host(pattern) is not None:
            yield pattern
        return
    async for record in frontier.hosts():
        if pattern in patterns_of(record.name):
            yield record.name


async def _follow(frontier: Frontier, hosts: Sequence[str], standing: StoredSettings) -> None:
    table, rules = standing.table, RulesOfHosts(frontier)

    def fold_for(host: str) -> StateChange:
        said = table.of(host)
        return lambda state: replace(state, manual=state.manual.following(said, standing.version))

    for host in hosts:
        change = (await rules.of(host)).folded(fold_for(host), await frontier.now())
        await change_host(frontier, host, change)


# -- dead letters

# Where the person sat. Retention: nobody, they are old.
Decider = Literal["shoal dead", "shoal rejected", "dashboard", "retention"]


async def replay_letters(frontier: Frontier, query: DeadFilter, by: Decider) -> int:
    if count := await frontier.replay(query):
        job, host, kind = query.job, query.host, query.kind
        await tell(frontier, "letters_replayed", count=count, job=job, host=host, kind=kind, by=by)
    return count


async def drop_letters(frontier: Frontier, query: DeadFilter, by: Decider) -> int:
    if count := await frontier.drop(query):
        job, host, kind = query.job, query.host, query.kind
        await tell(frontier, "letters_dropped", count=count, job=job, host=host, kind=kind, by=by)
    return count
