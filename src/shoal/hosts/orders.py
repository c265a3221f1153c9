"""What a person may decide about a host, and how it becomes part of the host's record."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from shoal.frontier.protocol import FOREVER, Frontier
from shoal.hosts.rules import Fold, change_host
from shoal.hosts.sight import HostSight
from shoal.hosts.state import HostState, Manual, state_of
from shoal.inquiry import look_at_host, rules_of_host, unknown_host
from shoal.observe.events import tell


class Order(Struct, frozen=True):
    event: str  # by which it is told
    fold: Fold


async def order(frontier: Frontier, host: str, wanted: Order) -> HostSight:
    """Carries out a decision; it holds for every worker with the next page it asks for."""
    rules = await rules_of_host(frontier, await frontier.host_queues(host))
    changed = await change_host(frontier, host, rules.folded(wanted.fold, await frontier.now()))
    if changed is None:
        raise unknown_host(host)
    await _tell(frontier, wanted.event, host, state_of(changed).manual)
    return (await look_at_host(frontier, host))[0]


async def _tell(frontier: Frontier, event: str, host: str, manual: Manual) -> None:
    if event == "host_limits_set":
        await tell(frontier, "host_limits_set", host=host, rate=manual.rate, per_host=manual.per_host)
    elif event == "host_blocked":
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
# could not be had is asked for again.
unblock = Order("host_unblocked", _unblock)


def set_limits(**limits: float | None) -> Order:
    """`rate` and `per_host`, those that are given; None takes one back."""

    def fold(state: HostState) -> HostState:
        manual: Manual = replace(state.manual, **limits)
        return replace(state, manual=manual)

    return Order("host_limits_set", fold)
