"""What a person may decide about a host, and how it becomes part of the host's record."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.frontier.protocol import FOREVER, Frontier
from shoal.hosts.rules import Fold, change_host
from shoal.hosts.sight import HostSight
from shoal.hosts.state import HostState, Manual
from shoal.inquiry import look_at_host, rules_of_host, unknown_host


async def order(frontier: Frontier, host: str, fold: Fold) -> HostSight:
    """Carries out a decision; it holds for every worker with the next page it asks for."""
    rules = await rules_of_host(frontier, await frontier.host_queues(host))
    changed = await change_host(frontier, host, rules.folded(fold, await frontier.now()))
    if changed is None:
        raise unknown_host(host)
    return (await look_at_host(frontier, host))[0]


def block(until: float | None, reason: str) -> Fold:
    """Without `until`, until it is taken back."""

    def fold(state: HostState) -> HostState:
        end = FOREVER if until is None else until
        return replace(state, manual=replace(state.manual, blocked_until=end, reason=reason))

    return fold


def unblock(state: HostState) -> HostState:
    """Lifts the block, and whatever else keeps the host from being asked: its failures are forgotten, and a robots.txt
    that could not be had is asked for again."""
    manual = replace(state.manual, blocked_until=0.0, reason="")
    silent = state.robots is not None and state.robots.verdict == "disallow"
    return replace(
        state,
        manual=manual,
        policies=b"",
        robots=None if silent else state.robots,
        silent=0,
    )


def set_limits(**limits: float | None) -> Fold:
    """`rate` and `per_host`, those that are given; None takes one back."""

    def fold(state: HostState) -> HostState:
        manual: Manual = replace(state.manual, **limits)
        return replace(state, manual=manual)

    return fold
