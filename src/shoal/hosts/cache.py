"""A write-back cache of the records of hosts.

A lease tells the version of its host's record, so a record is read again only after somebody changed it. A write is
compare-and-set: if another worker was quicker, its record is read, and what was observed here is added to it.

`record` takes an observation into the cache. It is written by `flush`, with the next beat, if it moves the host's
valve; else by `write_back`, after a while: most requests teach nothing that others must know right away.

Trouble is added to the states of the host's policies at once. The pages of a host that is well are added together, when
somebody asks for its limits, and before each beat: at hundreds of pages a second, limits after each would be computed
for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import scheme as scheme_of
from shoal.fetch.guard import Pin
from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.clock import FrontierClock
from shoal.frontier.compare_and_set import change_host
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import HostRecord
from shoal.hosts.given_up import GivenUpPages
from shoal.hosts.host_limits import HostRules, OtherJobs, StateChange, Terms, marked
from shoal.hosts.host_state import (
    HostState,
    OriginState,
    changed_breakers,
    encode_state,
    state_of,
    tell_changes,
    tell_escalation,
    tell_quality,
)
from shoal.hosts.stored_settings import StoredSettingsCopy
from shoal.model import Lease
from shoal.policy.compose import States, first_valve
from shoal.policy.escalation import NO_PATTERNS, Look, Patterns
from shoal.policy.host_table import over
from shoal.policy.protocol import Limits, Observation
from shoal.policy.quality import NO_QUALITY, Quality
from shoal.policy.quality_sample import PageSample
from shoal.policy.revisit import Visit
from shoal.settings import HostSettings, Settings
from shoal.valve import Valve

_CACHED = 20_000
_CACHED_BYTES = 64 * 1024 * 1024  # of their records: one long robots.txt takes as much as many short ones
_WRITE_AFTER = 5.0  # seconds that observations wait to be written, unless they change the valve
_CREEP = 0.05  # share of an interval
# Seconds after which the store's settings for hosts are read again: regularly, and before a new host is met.
_STANDING, _STANDING_AT_FIRST = 2.0, 0.5


class HostView(Struct):
    """A host as this process knows it: the record as last read, and the observations since."""

    version: int
    state: HostState
    valve: Valve  # as written
    robots: Mapping[
        str, RobotsRecord
    ]  # by scheme: the rules of the origins that were read for our user agent
    policies: States  # decoded states, with the unwritten observations
    limits: Limits  # for its valve
    calm: bool  # the limits hold for all origins of the host
    unwritten: list[Observation]
    weight: int  # bytes of its record
    terms: Terms  # the settings that hold here
    own: HostSettings  # of these, the settings for this host alone
    standing_version: int  # of the store's settings for hosts that it has
    unmarked: bool = False  # its start mark, pins or origins are not written yet
    samples: list[PageSample] = []  # what pages yielded, not written yet
    visits: list[tuple[Visit, float]] = []  # … and what visits showed, with their times
    unfolded: list[
        Observation
    ] = []  # of the unwritten ones, those that are not in `policies` and `limits` yet


class HostCache:
    def __init__(
        self,
        frontier: Frontier,
        settings: Settings,
        clock: FrontierClock,
        *,
        job: str = "",
    ) -> None:
        self._frontier = frontier
        self._clock = clock
        self.given_up = GivenUpPages(frontier)
        self._job = self._pins_key = job
        self._rules = HostRules(settings, job)
        self._standing = StoredSettingsCopy(frontier)
        self._first_valve = first_valve(settings)
        self._views: dict[str, HostView] = {}
        self._unwritten_since: dict[str, float] = {}  # hosts with unwritten observations, oldest first
        self._unfolded: set[str] = set()  # hosts with such observations
        self._to_flush: set[str] = set()  # hosts whose changes other processes must know now
        self._others = OtherJobs(frontier, job)
        self._cached_bytes = 0

    # -- reading

    async def view(self, lease: Lease) -> HostView:
        host = lease.task.host
        view = self._views.get(host)
        if view is None and lease.host_version == 0:
            # Nobody has written about the host yet, so there is nothing to read.
            await self._standing.refresh(self._clock.monotonic(), older_than=_STANDING_AT_FIRST)
            view = self._put(HostRecord(host, self._first_valve))
            if self._moves_valve(host, view):
                self._to_flush.add(host)
        elif (
            view is None
            or view.version < lease.host_version
            or view.standing_version != self._standing.version
        ):
            view = await self._read(host)
            if not self._rules.has_asked(host, view.state):
                self._to_flush.add(host)  # up to now, only another job's host
        if lease.task.parent == 0 and not view.state.start:
            self._mark(host, view, replace(view.state, start=True))
        if lease.task.typed:
            self.pin(host, Pin())
        return view

    async def current(self, host: str) -> HostView:
        """The host as last read. Reads it if it is not cached."""
        view = self._views.get(host) or await self._read(host)
        self._fold(host, view)
        return view

    def _mark(self, host: str, view: HostView, state: HostState) -> None:
        """Changes the state. It is written in the next round: before other processes get the links of the next page."""
        view.state, view.unmarked = state, True
        self._to_flush.add(host)

    async def open(self, created_at: float) -> None:
        """`created_at`: when the job was made. Pins of an earlier job of the same name do not count."""
        self._pins_key = f"{self._job}@{created_at:.3f}"
        await self._standing.refresh(self._clock.monotonic(), older_than=0.0)

    # -- hosts that were typed

    def pin_of(self, view: HostView) -> Pin | None:
        """The networks of a typed host at this job's first request; None: it was not typed for this job."""
        return view.state.pins.get(self._pins_key)

    def pin(self, host: str, pin: Pin) -> None:
        """Notes that the host was typed, or its networks, unless they are known."""
        view = self._views.get(host)
        known = self.pin_of(view) if view is not None else None
        if view is not None and pin != known and (known is None or known.networks is None):
            self._mark(host, view, view.state.with_pin(self._pins_key, pin))

    async def _read(self, host: str) -> HostView:
        record = await self._frontier.host(host)
        # If the store has gone back, it may not have the host; then the lease is lost, too.
        return self._put(record or HostRecord(host, self._first_valve))

    async def forget(self) -> None:
        """The store may have gone back: records are read again. Blocks of hosts and unwritten observations are kept,
        and written again."""
        self.given_up.forget()
        now = self._clock.now()
        for host, view in list(self._views.items()):
            record = None
            if (
                view.unwritten
                or view.unmarked
                or view.samples
                or view.visits
                or max(view.valve.blocked_until, view.limits.blocked_until or 0) > now
            ):
                record = await self._frontier.host(host)
            if record is None:
                self._evict(host)
            else:
                view.version, view.valve = record.version, record.valve
                self._to_flush.add(host)

    def _evict(self, host: str) -> None:
        if (view := self._views.pop(host, None)) is not None:
            self._cached_bytes -= view.weight
        self._unwritten_since.pop(host, None)
        self._unfolded.discard(host)
        self._to_flush.discard(host)

    def _put(self, record: HostRecord) -> HostView:
        written = state_of(record)
        state = self._standing.applied(record.name, written)
        if state is not written:
            self._to_flush.add(record.name)
        old = self._views.get(record.name)
        unwritten = old.unwritten if old is not None else []
        samples, visits = (old.samples, old.visits) if old is not None else ([], [])
        if old is not None and old.unmarked:
            state = _marked_like(old, state)
        own = self._rules.own(record.name, state.manual)
        terms = self._rules.terms(own)
        policies = terms.policies.observe(terms.policies.decode(state.policies), unwritten)
        view = HostView(
            record.version,
            state.with_errors([seen.kind for seen in unwritten if seen.blames_host]).with_looks(unwritten),
            record.valve,
            self._rules.robots(state),
            policies,
            terms.policies.limits(policies, self._clock.now(), state.origins),
            terms.policies.spares_origins(policies, self._clock.now()),
            unwritten,
            len(record.state),
            terms,
            own,
            self._standing.version,
            old is not None and old.unmarked,
            samples,
            visits,
        )
        view.state = view.state.with_visits(visits)
        if old is not None and samples:
            view.state = view.state.with_samples(samples)
            tell_quality(record.name, (old.state.quality, state.quality), view.state.quality)
        self._cached_bytes += view.weight - (old.weight if old is not None else 0)
        self._views[record.name] = view
        while len(self._views) > _CACHED or self._cached_bytes > _CACHED_BYTES:
            if not self._evict_one(but=record.name):
                break
        if unwritten and self._moves_valve(record.name, view):
            self._to_flush.add(record.name)
        return view

    def _evict_one(self, but: str) -> bool:
        for host in self._views:
            if host != but and host not in self._unwritten_since and host not in self._to_flush:
                self._evict(host)
                return True
        return False

    def limits(self, lease: Lease, view: HostView) -> Limits | None:
        """The limits of the policies for the task's origin now. None: the lease must go back. It came from a host that
        was given up, whose valve lets all tasks through so that they become dead letters. Now the host may be probed,
        by one task only; or the task is for an origin without requests yet."""
        now, host, scheme = self._clock.now(), lease.task.host, scheme_of(lease.task.url)
        self._fold(host, view)
        calm = view.calm and not view.limits.refuse
        own = view.limits if calm else view.terms.policies.limits_at(view.policies, now, scheme)
        if own.refuse:
            return own
        if view.limits.refuse or view.state.given_up:
            self._to_flush.add(host)
            if scheme not in view.state.origins:
                self._mark(host, view, view.state.with_origin(scheme, view.state.origin(scheme)))
            view.limits = view.terms.policies.limits(view.policies, now, view.state.origins)
            return None
        return None if lease.host_version < view.state.good_from else own

    def no_retry(self, host: str) -> str | None:
        """Why the host has no retries left; None: it has some."""
        view = self._views.get(host)
        if view is None:
            return None
        self._fold(host, view)
        return view.limits.no_retry

    def patterns(self, host: str) -> Patterns:
        """The patterns of the host's URLs that may need a browser."""
        view = self._views.get(host)
        return view.state.patterns if view is not None else NO_PATTERNS

    def quality(self, host: str) -> Quality:
        """What is known about the rows of the host's pages."""
        view = self._views.get(host)
        return view.state.quality if view is not None else NO_QUALITY

    def own(self, host: str) -> HostSettings:
        """The settings for this host alone, from the job or the store."""
        view = self._views.get(host)
        if view is not None:
            return view.own
        return over(self._standing.table.of(host), self._rules.table.of(host))

    def interval(self, host: str) -> float:
        """Seconds between two requests to the host, by the settings that hold there."""
        return self._rules.terms(self.own(host)).interval

    # -- recording

    def record(self, host: str, seen: Observation) -> None:
        """Takes in what a request to the host has shown."""
        view = self._views.get(host)
        if view is None:
            return
        view.unwritten.append(seen)
        view.unfolded.append(seen)
        if host not in self._unwritten_since:
            self._unwritten_since[host] = self._clock.monotonic()
        if seen.blames_host:
            view.state = view.state.with_errors([seen.kind])
        if seen.look is not None:
            self._look(host, view, seen, seen.look)
        if view.calm and seen.kind == "ok":
            self._unfolded.add(host)
        else:
            self._fold(host, view)

    def _fold(self, host: str, view: HostView) -> None:
        """Adds what was observed to the states of the policies, and computes the limits that follow."""
        if not view.unfolded:
            return
        seen, view.unfolded = view.unfolded, []
        before, known = view.limits, view.policies
        policies, now = view.terms.policies, self._clock.now()
        view.policies = policies.observe(known, seen)
        view.limits = policies.limits(view.policies, now, view.state.origins)
        view.calm = policies.spares_origins(view.policies, now)
        if _for_valve(view.limits) != _for_valve(before) and self._moves_valve(host, view):
            self._to_flush.add(host)
        tell_changes(host, known, view.policies, now)
        if any(old.phase == "given_up" for _, old, _ in changed_breakers(known, view.policies)):
            self.given_up.answered(host)

    def _fold_all(self) -> None:
        hosts, self._unfolded = self._unfolded, set()
        for host in sorted(hosts):  # the same order every time
            if (view := self._views.get(host)) is not None:
                self._fold(host, view)

    def record_rows(self, host: str, samples: Sequence[PageSample]) -> Sequence[PageSample]:
        """Takes in what a page of the host has yielded. Returns the samples with their time and run."""
        view = self._views.get(host)
        if view is None:
            return samples
        run = crc32(self._pins_key.encode(errors="replace"))
        samples = [replace(sample, job=run, at=self._clock.now()) for sample in samples]
        known = view.state.quality
        view.state = view.state.with_samples(samples)
        view.samples.extend(samples)
        self._unwritten_since.setdefault(host, self._clock.monotonic())
        if tell_quality(host, (known,), view.state.quality):
            self._to_flush.add(host)  # other processes should know it soon
        return samples

    def record_visit(self, host: str, visit: Visit) -> None:
        """Takes in what a visit of a page of the host has shown."""
        view = self._views.get(host)
        if view is None:
            return
        timed = (visit, self._clock.now())
        view.state = view.state.with_visits([timed])
        view.visits.append(timed)
        self._unwritten_since.setdefault(host, self._clock.monotonic())

    def _look(self, host: str, view: HostView, seen: Observation, look: Look) -> None:
        known = view.state.patterns.get(look.pattern)
        view.state = view.state.with_looks([seen])
        pattern = view.state.patterns.get(look.pattern)
        if (known is not None and known.browser) != (pattern is not None and pattern.browser):
            self._to_flush.add(host)  # other processes should know it soon
            tell_escalation(host, look.pattern, pattern)

    def _moves_valve(self, host: str, view: HostView) -> bool:
        now = self._clock.now()
        return _differ(view.valve, self._rules.valve(host, view.valve, view.state, view.limits), now)

    async def flush(self) -> None:
        """Writes what moves a valve."""
        # First the pages of hosts that answer again come back. If the process died in between, the next answer would
        # bring them back.
        self._fold_all()
        await self.given_up.replay()
        while self._to_flush:
            hosts, self._to_flush = self._to_flush, set()
            await asyncio.gather(*(self._write(host) for host in sorted(hosts)))  # the same order every time

    async def write_back(self, *, everything: bool = False) -> None:
        """Writes what has waited long enough, or everything."""
        if not everything:
            await self.given_up.probe(self._clock.now())
        await self._standing.refresh(self._clock.monotonic(), older_than=_STANDING)
        before = self._clock.monotonic() - _WRITE_AFTER
        due = []
        for host, since in self._unwritten_since.items():
            if since > before and not everything:
                break  # those that follow came later
            due.append(host)
        if due:
            await asyncio.gather(*(self._write(host) for host in due))

    async def _write(self, host: str) -> None:
        view = self._views.get(host)
        if view is None:  # it was forgotten meanwhile
            return
        silent = await self._others.silent(host, view.state, self._clock.now())
        view = self._views.get(host, view)
        self._fold(host, view)
        self._unwritten_since.pop(host, None)
        batch, view.unwritten = view.unwritten, []
        samples, view.samples = view.samples, []
        visits, view.visits = view.visits, []
        state = replace(view.state, policies=view.terms.policies.encode(view.policies))
        state = marked(self._rules.asked(host, state, self._clock.now(), silent), view.limits, view.version)
        valve = self._rules.valve(host, view.valve, state, view.limits)
        if await self._frontier.update_host(HostRecord(host, valve, encode_state(state), view.version)):
            view.version += 1
            view.unmarked = _marks(view.state) != _marks(state)
            view.state, view.valve = _marked_like(view, _seen_like(view, state)), valve
            return
        # Another process wrote first: add the observations to its record.
        view.unwritten = [*batch, *view.unwritten]
        view.samples = [*samples, *view.samples]
        view.visits = [*visits, *view.visits]
        if (record := await self._frontier.host(host)) is None:
            self._evict(host)  # the store has gone back, and lost the host
            return
        self._put(record)
        await self._write(host)

    # -- changing

    async def change(self, host: str, fold: StateChange, *, late: float = 0.0) -> HostView:
        """Changes the record by compare-and-set. `late`: seconds after its claim at which a request may have reached
        the host. A first request opens a connection, the next one does not: if the interval counted from the claim, the
        next one would arrive too soon."""

        view = self._views.get(host)

        def folded(record: HostRecord) -> HostRecord:
            state = state_of(record) if view is None else _marked_like(view, state_of(record))
            changed = self._with(record, fold(state))
            if late and changed.valve.interval:
                changed = replace(changed, valve=_held_back(record.valve.reset(changed.valve), late))
            return changed

        changed = await change_host(self._frontier, host, folded)
        if changed is None:  # the same
            changed = folded(HostRecord(host, self._first_valve))
        if view is not None:
            written = state_of(changed)
            view.unmarked = _marks(view.state) != _marks(written)
        return self._put(changed)

    async def reconfigure(self, job: str) -> None:
        """Gives the hosts of a resumed job the valves of the current settings."""
        async for record in self._frontier.hosts(job):
            changed = self._with(record, state_of(record))
            if changed.valve != record.valve and not await self._frontier.update_host(changed):
                await self.change(record.name, lambda state: state)

    def _with(self, record: HostRecord, state: HostState) -> HostRecord:
        return self._rules.applied(record, self._standing.applied(record.name, state), self._clock.now())


def _seen_like(view: HostView, state: HostState) -> HostState:
    """The state with what the view has seen, also since it was written."""
    known = view.state
    return replace(
        state,
        errors=known.errors,
        patterns=known.patterns,
        quality=known.quality,
        revisits=known.revisits,
    )


def _marks(state: HostState) -> tuple[bool, Mapping[str, Pin], Set[str]]:
    """Whether the host is a start of the crawl, its pins, and which origins it has."""
    return state.start, state.pins, state.origins.keys()


def _marked_like(view: HostView, state: HostState) -> HostState:
    """The state with the view's start mark, pins and origins. Networks that are already written stay: another process
    may have got other addresses a moment later."""
    marked = replace(state, start=state.start or view.state.start)
    for scheme in view.state.origins.keys() - state.origins.keys():
        marked = marked.with_origin(scheme, OriginState())
    for job, pin in view.state.pins.items():
        if (known := state.pins.get(job)) is None or known.networks is None:
            marked = marked.with_pin(job, pin)
    return state if _marks(marked) == _marks(state) else marked


def _held_back(valve: Valve, seconds: float) -> Valve:
    return replace(valve, blocked_until=max(valve.blocked_until, valve.next_at + seconds))


def _for_valve(limits: Limits) -> tuple[float | None, int | None, float | None, bool]:
    return limits.interval, limits.cap, limits.blocked_until, limits.refuse is not None


def _differ(old: Valve, new: Valve, now: float) -> bool:
    """Whether other processes must know the change: not a slightly different interval, nor a block that is over."""
    return (
        (old.cap, old.burst) != (new.cap, new.burst)
        or max(old.blocked_until, now) != max(new.blocked_until, now)
        or abs(old.interval - new.interval) > _CREEP * max(old.interval, new.interval)
    )
