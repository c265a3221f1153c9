"""How a host's valve follows from what is known about it, and the one way to change a host's record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from shoal.fetch.robots_fetch import Robots, RobotsRecord, agent_of
from shoal.frontier.protocol import Hosts
from shoal.frontier.values import HostRecord
from shoal.hosts.state import NO_ORDERS, Ask, HostState, Manual, encode_state, state_of
from shoal.policy.compose import HostPolicies, configured
from shoal.policy.host_table import NOTHING, HostTable, over, settings_at
from shoal.policy.protocol import Limits
from shoal.settings import HostSettings, Settings
from shoal.valve import Valve

Fold = Callable[[HostState], HostState]

_TERMS = 1_000  # sets of settings that are kept


async def change_host(
    frontier: Hosts, host: str, change: Callable[[HostRecord], HostRecord]
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


class Terms(Struct, frozen=True):
    """What holds at a host: the settings with its own among them, and the policies that go by them."""

    settings: Settings
    policies: HostPolicies

    @property
    def interval(self) -> float:
        return 1 / self.settings.rate if self.settings.rate else 0.0


class HostRules:
    """The settings of one crawl, as far as they concern hosts. Without the job's name they are only looked at."""

    def __init__(self, settings: Settings, job: str = "") -> None:
        self.settings = settings
        self.policies = HostPolicies(settings)
        self.table = HostTable(settings.host)
        self._job = job
        self._agent = agent_of(settings.user_agent)
        self._usual = Terms(settings, self.policies)
        self._special: dict[tuple[object, ...], Terms] = {}  # hosts with the same settings share them

    def own(self, host: str, manual: Manual = NO_ORDERS) -> HostSettings:
        """What the host has of its own: by the tables of the job, and before that by hand."""
        return over(manual.settings, self.table.of(host)) if manual is not NO_ORDERS else self.table.of(host)

    def terms(self, own: HostSettings) -> Terms:
        if own is NOTHING:
            return self._usual
        key = own.rate, own.per_host, own.timeout, own.robots
        known = self._special.get(key)
        if known is None:
            if len(self._special) >= _TERMS:
                self._special.clear()
            settings = settings_at(self.settings, own)
            known = Terms(settings, self.policies if settings is self.settings else HostPolicies(settings))
            self._special[key] = known
        return known

    def robots_record(self, state: HostState, scheme: str) -> RobotsRecord | None:
        """What an origin's robots.txt says to this crawl; None: it was not asked for on its behalf."""
        return state.origin(scheme).robots_for(self._agent)

    def robots(self, state: HostState) -> Mapping[str, Robots]:
        """The same for all origins that were asked, by their schemes."""
        records = {scheme: self.robots_record(state, scheme) for scheme in state.origins}
        return {scheme: Robots(record) for scheme, record in records.items() if record is not None}

    def has_asked(self, host: str, state: HostState) -> bool:
        ask = state.asks.get(self._job)
        if not self._job or ask is None:
            return not self._job
        terms = self.terms(self.table.of(host))
        return (ask.interval, ask.cap) == (terms.interval, terms.settings.per_host)

    def asked(self, host: str, state: HostState, now: float, silent: Set[str] = frozenset()) -> HostState:
        """The state with what this job allows, and without the words of jobs that count no more."""
        asks = {job: ask for job, ask in state.asks.items() if job not in silent}
        if not self.has_asked(host, state):
            terms = self.terms(self.table.of(host))
            asks[self._job] = Ask(terms.interval, terms.settings.per_host, now)
        return state if asks == state.asks else replace(state, asks=asks)

    def valve(self, host: str, current: Valve, state: HostState, limits: Limits) -> Valve:
        valve = self._own_valve(host, current, state, limits)
        if limits.refuse:
            return valve
        others = [ask for job, ask in state.asks.items() if job != self._job]
        interval, cap = valve.interval, valve.cap
        if state.manual.rate is None:
            interval = max([interval, *(ask.interval for ask in others)])
        if state.manual.per_host is None:
            cap = min([cap, *(ask.cap for ask in others)])
        return replace(valve, interval=interval, cap=cap)

    def _own_valve(self, host: str, current: Valve, state: HostState, limits: Limits) -> Valve:
        records = [self.robots_record(state, scheme) for scheme in state.origins]
        known = [record for record in records if record is not None]
        return configured(
            current,
            self.terms(self.own(host, state.manual)).settings,
            crawl_delay=max((record.delay for record in known if record.delay is not None), default=None),
            robots_known=any(record.verdict != "disallow" for record in known),
            limits=limits,
            blocked_until=max(state.manual.blocked_until, state.visit_until),
        )

    def applied(self, record: HostRecord, state: HostState, now: float) -> HostRecord:
        """The record with a new state, and the valve that follows from it."""
        policies = self.terms(self.own(record.name, state.manual)).policies
        limits = policies.limits(policies.decode(state.policies), now, state.origins)
        state = marked(self.asked(record.name, state, now), limits, record.version)
        valve = self.valve(record.name, record.valve, state, limits)
        return replace(record, state=encode_state(state), valve=valve)

    def folded(self, fold: Fold, now: float) -> Callable[[HostRecord], HostRecord]:
        """`fold` as a change for `change_host`."""

        def change(record: HostRecord) -> HostRecord:
            return self.applied(record, fold(state_of(record)), now)

        return change
