"""What is stored about a host beside its valve: policies, robots.txt, and what a person decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from shoal.events import event
from shoal.fetch.guard import Pin
from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.values import HostRecord
from shoal.policy.breaker import BreakerPolicy, BreakerState
from shoal.policy.compose import States, origins_of, state_name
from shoal.policy.escalation import Pattern, Patterns, observe, reason
from shoal.policy.host_table import NOTHING
from shoal.policy.protocol import Observation
from shoal.policy.quality import Quality, UnitState
from shoal.policy.quality import observe as observe_quality
from shoal.policy.quality_alarms import alarms, handler_of
from shoal.policy.quality_sample import PageSample
from shoal.policy.revisit import NO_PLAN, RevisitPlan, Visit, with_visit
from shoal.settings import HostSettings
from shoal.text import UNREADABLE

_ERRORS = 5
_PINS = 32
_AGENTS = 3  # other user agents whose rules are kept


class Manual(Struct, frozen=True, omit_defaults=True):
    """What a person decided about a host. It holds until the person takes it back."""

    blocked_until: float = 0.0
    reason: str = ""
    rate: float | None = None  # requests a second, instead of the setting; 0 lifts the limit
    per_host: int | None = None  # these too are used instead of the setting
    timeout: float | None = None
    pool: str | None = None
    robots: bool | None = None
    lane: str | None = None
    version: int = (
        0  # of the store's settings for hosts (hosts/stored_settings.py) that these are copied from
    )

    @property
    def settings(self) -> HostSettings:
        if self == NO_ORDERS:
            return NOTHING
        return HostSettings(**{key: getattr(self, key) for key in BY_HAND})

    def following(self, settings: HostSettings, version: int) -> Manual:
        """With these settings of that version, unless it already has newer ones."""
        if version < self.version:
            return self
        given = {key: getattr(settings, key) for key in BY_HAND}
        return msgspec.structs.replace(self, **given, version=version)


NO_ORDERS = Manual()
BY_HAND = ("rate", "per_host", "timeout", "pool", "robots", "lane")  # headers may be secret: not in a store


class Ask(Struct, frozen=True, array_like=True):
    """The limits that a job sets for a host. The strictest of all jobs that crawl it hold."""

    interval: float
    cap: int
    at: float  # when it was set


class OriginState(Struct, frozen=True, omit_defaults=True):
    """What is known of one origin: a host may answer on https, and not at all on http."""

    robots: RobotsRecord | None = None  # as last fetched, by any job
    robots_for_others: tuple[RobotsRecord, ...] = ()  # earlier ones, fetched for other user agents
    silent: int = 0  # how often in a row robots.txt could not be fetched

    @property
    def robots_missing(self) -> bool:
        """robots.txt could not be fetched, so no page may be."""
        return self.robots is not None and self.robots.verdict == "disallow"

    def robots_for(self, agent: str) -> RobotsRecord | None:
        """What robots.txt says to that agent; None: it was not read for it."""
        known = (self.robots, *self.robots_for_others)
        return next((record for record in known if record is not None and record.fits(agent)), None)

    def with_robots(self, record: RobotsRecord) -> OriginState:
        """Adds a record, and keeps those that were read for other user agents: with one record for all, two jobs with
        different agents would fetch it again and again."""
        known = (self.robots, *self.robots_for_others)
        others = [old for old in known if old is not None and old.agent and not old.fits(record.agent)]
        kept = tuple(others[:_AGENTS]) if record.agent else ()
        return msgspec.structs.replace(self, robots=record, robots_for_others=kept)


_NEVER_ASKED = OriginState()


class HostState(Struct, frozen=True, omit_defaults=True):
    start: bool = False  # a start URL leads here: it is part of the crawl
    pins: dict[str, Pin] = {}  # by job: a person typed the host, so its address may be private
    origins: dict[str, OriginState] = {}  # by scheme: the host's name and port are in its key
    policies: bytes = b""  # their states, as policy/compose.py writes them
    errors: tuple[str, ...] = ()  # the kinds of the latest failures, newest last
    manual: Manual = NO_ORDERS
    given_up: bool = False  # its valve lets all tasks through, to become dead letters
    asks: dict[str, Ask] = {}  # by job
    good_from: int = 0  # leases with an older version of the record were only for dead letters
    patterns: Patterns = {}  # of URLs whose pages may need a browser
    visit_until: float = 0.0  # its valve is shut for a request without a lease (RobotsVisits)
    visits_from: float = 0.0  # when there may be another one
    lies: int = 0  # how often a page had changed that had the same ETag or Last-Modified
    quality: dict[str, UnitState] = {}  # of what handlers yield for its pages
    revisits: RevisitPlan = NO_PLAN  # of its pages that are visited again and again

    def origin(self, scheme: str) -> OriginState:
        return self.origins.get(scheme, _NEVER_ASKED)

    def with_origin(self, scheme: str, origin: OriginState) -> HostState:
        return msgspec.structs.replace(self, origins={**self.origins, scheme: origin})

    @property
    def robots_missing(self) -> bool:
        """robots.txt could be fetched from none of the origins that were asked."""
        asked = [origin for origin in self.origins.values() if origin.robots is not None]
        return bool(asked) and all(origin.robots_missing for origin in asked)

    def with_pin(self, job: str, pin: Pin) -> HostState:
        """Pins the host for a job. Only the latest jobs are kept: a recurring job makes very many."""
        pins = {**self.pins, job: pin}
        latest = dict(list(pins.items())[-_PINS:])
        return msgspec.structs.replace(self, pins=latest)

    def with_errors(self, kinds: Sequence[str]) -> HostState:
        return msgspec.structs.replace(self, errors=(*self.errors, *kinds)[-_ERRORS:]) if kinds else self

    def with_looks(self, observations: Iterable[Observation]) -> HostState:
        patterns: Patterns = self.patterns
        for seen in observations:
            if seen.look is not None:
                patterns = observe(patterns, seen.look, seen.ended)
        return self if patterns is self.patterns else msgspec.structs.replace(self, patterns=patterns)

    def with_samples(self, samples: Iterable[PageSample]) -> HostState:
        quality: Quality = self.quality
        for sample in samples:
            quality = observe_quality(quality, sample)
        return self if quality is self.quality else msgspec.structs.replace(self, quality=dict(quality))

    def with_visits(self, visits: Iterable[tuple[Visit, float]]) -> HostState:
        """Each visit with the time when it ended."""
        plan = self.revisits
        for visit, at in visits:
            plan = with_visit(plan, visit, at)
        return self if plan is self.revisits else msgspec.structs.replace(self, revisits=plan)


encode_state = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostState).decode


def state_of(record: HostRecord) -> HostState:
    try:
        return _decode(record.state) if record.state else HostState()
    except UNREADABLE:
        return HostState()  # written by another version


# -- events about a host


def tell_changes(host: str, before: States, after: States, now: float) -> None:
    """Logs each breaker that opened or closed. Called by the process that saw the change, so it is logged once."""
    for scheme, _, new in changed_breakers(before, after):
        origin, seconds = f"{scheme}://{host}", round(max(0.0, new.until - now), 1)
        if new.phase == "closed":
            event("breaker_closed", host=host, origin=origin)
        elif new.phase == "given_up":
            event("host_given_up", host=host, origin=origin, reason=new.reason, seconds=seconds)
        else:
            event("breaker_opened", host=host, origin=origin, reason=new.reason, seconds=seconds)


def changed_breakers(before: States, after: States) -> list[tuple[str, BreakerState, BreakerState]]:
    """The origins whose breaker changed its phase: (scheme, before, after)."""
    found = []
    if before is not after:
        for scheme in sorted(origins_of(after)):
            name = state_name(BreakerPolicy.name, scheme)
            old, new = before.get(name, BreakerState()), after.get(name)
            if isinstance(old, BreakerState) and isinstance(new, BreakerState) and old.phase != new.phase:
                found.append((scheme, old, new))
    return found


def tell_escalation(host: str, name: str, pattern: Pattern | None) -> None:
    """Logs that a pattern of URLs goes to the browser from now on, or no longer does."""
    if pattern is not None and pattern.browser:
        event("escalation_learned", host=host, pattern=name, reason=reason(pattern))
    else:
        event("escalation_given_back", host=host, pattern=name)


def tell_quality(host: str, known: Sequence[Quality], quality: Quality) -> bool:
    """Logs each alarm that began or ended, unless somebody has: `known` is what is known elsewhere. Whether there was
    one."""
    now = {(one.unit, one.field): one for one in alarms(quality)}
    told = [{(one.unit, one.field): one for one in alarms(before)} for before in known]
    begun = [one for place, one in now.items() if not any(place in before for before in told)]
    over = [one for place, one in told[0].items() if place not in now and all(place in old for old in told)]
    for alarm in begun:
        event(
            "quality_alarm",
            host=host,
            handler=handler_of(alarm.unit),
            field=alarm.field or "(rows)",
            kind=alarm.kind,
            reason=alarm.sentence,
        )
    for alarm in over:
        field = alarm.field or "(rows)"
        event("quality_ended", host=host, handler=handler_of(alarm.unit), field=field)
    return bool(begun or over)
