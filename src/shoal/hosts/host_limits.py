"""The limits that hold at a host: its valve, from settings, robots.txt, policies and the limits of other jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from shoal.fetch.robots_fetch import RobotsRecord, agent_of
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import HostRecord
from shoal.hosts.host_state import NO_ORDERS, Ask, HostState, Manual, encode_state, state_of
from shoal.jobs.worker_status import status_of
from shoal.policy.compose import HostPolicies, configured
from shoal.policy.concurrency import most_at_once
from shoal.policy.host_table import NOTHING, HostTable, over, settings_at
from shoal.policy.protocol import Limits
from shoal.settings import HostSettings, Settings
from shoal.valve import Valve

StateChange = Callable[[HostState], HostState]

_TERMS = 1_000  # sets of settings that are kept


def marked(state: HostState, limits: Limits, version: int) -> HostState:
    """The state to write over a record of that version. It notes whether the host is given up, so that its valve lets
    all tasks through to be buried; and from which version on it is not."""
    given_up = limits.refuse is not None
    if given_up == state.given_up:
        return state
    return replace(state, given_up=given_up, good_from=state.good_from if given_up else version + 1)


class Terms(Struct, frozen=True):
    """The settings that hold at a host, its own among them, and the policies made from them."""

    settings: Settings
    policies: HostPolicies

    @property
    def interval(self) -> float:
        return 1 / self.settings.rate if self.settings.rate else 0.0


class HostRules:
    """The settings of one job for hosts. Without the job's name, it only reads and sets no limits of its own."""

    def __init__(self, settings: Settings, job: str = "") -> None:
        self.settings = settings
        self.policies = HostPolicies(settings)
        self.table = HostTable(settings.host)
        self._job = job
        self._agent = agent_of(settings.user_agent)
        self._usual = Terms(settings, self.policies)
        self._special: dict[tuple[object, ...], Terms] = {}  # hosts with the same settings share them

    def own(self, host: str, manual: Manual = NO_ORDERS) -> HostSettings:
        """The host's own settings: set by a person in the store, else in the tables of the job."""
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
        """What an origin's robots.txt says to this crawl's user agent; None: it was not read for it."""
        return state.origin(scheme).robots_for(self._agent)

    def robots(self, state: HostState) -> Mapping[str, RobotsRecord]:
        """The rules of all origins whose robots.txt was read, by scheme."""
        records = {scheme: self.robots_record(state, scheme) for scheme in state.origins}
        return {scheme: record for scheme, record in records.items() if record is not None}

    def has_asked(self, host: str, state: HostState) -> bool:
        ask = state.asks.get(self._job)
        if not self._job or ask is None:
            return not self._job
        terms = self.terms(self.table.of(host))
        return (ask.interval, ask.cap) == (terms.interval, most_at_once(terms.settings))

    def asked(self, host: str, state: HostState, now: float, silent: Set[str] = frozenset()) -> HostState:
        """The state with this job's limits, and without those of jobs in `silent`."""
        asks = {job: ask for job, ask in state.asks.items() if job not in silent}
        if not self.has_asked(host, state):
            terms = self.terms(self.table.of(host))
            asks[self._job] = Ask(terms.interval, most_at_once(terms.settings), now)
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

    def folded(self, fold: StateChange, now: float) -> Callable[[HostRecord], HostRecord]:
        """The change of a state as a change of the record, for `change_host`."""

        def change(record: HostRecord) -> HostRecord:
            return self.applied(record, fold(state_of(record)), now)

        return change


# -- limits of other jobs

_LOOK_AGAIN = 5.0  # seconds between two looks at which jobs run
# While its job runs, a limit counts for so long in any case: the job's worker may not have sent a heartbeat yet, or may
# have the last pages of the host in hand.
_FRESH = 60.0


class OtherJobs:
    """The jobs that crawl the same hosts. At a host, the strictest limits of all jobs hold; but not those of a job that
    has ended, that nobody works on, or that has no page left there."""

    def __init__(self, frontier: Frontier, job: str) -> None:
        self._frontier = frontier
        self._job = job
        self._running: set[str] = set()
        self._worked_on: set[str] = set()
        self._known_at: float | None = None
        self._looked: dict[str, float] = {}  # host -> when its queues were last read

    async def silent(self, host: str, state: HostState, now: float) -> set[str]:
        """Jobs that have set limits for the host which do not count any more."""
        others = state.asks.keys() - {self._job}
        if not others:
            return set()
        await self._look(now)
        silent = {job for job in others if job not in self._running}
        old = {job for job in others - silent if now - state.asks[job].at >= _FRESH}
        silent |= old - self._worked_on
        if (old := old - silent) and now - self._looked.get(host, 0.0) >= _FRESH:
            self._forget(now)
            self._looked[host] = now
            silent |= await self._without_work(host, old)
        return silent

    async def _look(self, now: float) -> None:
        if self._known_at is not None and now - self._known_at < _LOOK_AGAIN:
            return
        self._known_at = now
        self._running = {job.spec.name for job in await self._frontier.jobs("running")}
        statuses = [status_of(worker) for worker in await self._frontier.workers()]
        self._worked_on = {job for job in self._running if any(status.serves(job) for status in statuses)}

    async def _without_work(self, host: str, jobs: Iterable[str]) -> set[str]:
        queues = await self._frontier.host_queues(host)
        return set(jobs) - {queue.job for queue in queues if queue.pending or queue.delayed}

    def _forget(self, now: float) -> None:
        while self._looked and now - next(iter(self._looked.values())) >= _FRESH:
            del self._looked[next(iter(self._looked))]
