"""How a host's valve follows from what is known about it, and the one way to change a host's record."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from shoal.fetch.robots import Robots, RobotsRecord
from shoal.frontier.protocol import Frontier, HostRecord, Valve
from shoal.hoststate import HostState, encode_state, state_of
from shoal.policy.compose import HostPolicies
from shoal.policy.host import configured
from shoal.policy.protocol import Limits
from shoal.settings import Settings

Fold = Callable[[HostState], HostState]


async def change_host(
    frontier: Frontier, host: str, change: Callable[[HostRecord], HostRecord]
) -> HostRecord | None:
    """Compare-and-set: read, change, write, and again from the start if somebody else was quicker. None: no such
    host."""
    while (record := await frontier.host(host)) is not None:
        changed = change(record)
        if await frontier.update_host(changed):
            return replace(changed, version=record.version + 1)
    return None


def marked(state: HostState, limits: Limits, version: int) -> HostState:
    """The state as it is to be written over a record of that version: noting whether its valve lets tasks through
    to be buried, and since when it does not."""
    given_up = limits.refuse is not None
    if given_up == state.given_up:
        return state
    return replace(state, given_up=given_up, good_from=state.good_from if given_up else version + 1)


class HostRules:
    """The settings of one crawl, as far as they concern hosts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.policies = HostPolicies(settings)

    def robots(self, record: RobotsRecord | None) -> Robots | None:
        return Robots.of(record, self.settings.user_agent) if record is not None else None

    def valve(self, current: Valve, state: HostState, robots: Robots | None, limits: Limits) -> Valve:
        return configured(
            current,
            self.settings,
            crawl_delay=robots.crawl_delay() if robots is not None else None,
            robots_known=state.robots is not None and state.robots.verdict != "disallow",
            limits=limits,
            rate=state.manual.rate,
            per_host=state.manual.per_host,
            blocked_until=state.manual.blocked_until,
        )

    def applied(self, record: HostRecord, state: HostState, robots: Robots | None, now: float) -> HostRecord:
        """The record with a new state, and the valve that follows from it."""
        limits = self.policies.limits(self.policies.decode(state.policies), now)
        state = marked(state, limits, record.version)
        valve = self.valve(record.valve, state, robots, limits)
        return replace(record, state=encode_state(state), valve=valve)

    def folded(self, fold: Fold, now: float) -> Callable[[HostRecord], HostRecord]:
        """`fold` as a change for `change_host`."""

        def change(record: HostRecord) -> HostRecord:
            state = fold(state_of(record))
            return self.applied(record, state, self.robots(state.robots), now)

        return change
