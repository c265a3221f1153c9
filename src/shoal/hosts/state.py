"""What is remembered about a host beside its valve: policies, robots.txt, and what a person decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from shoal.fetch.guard import Pin
from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.values import HostRecord
from shoal.policy.escalation import Patterns, observe
from shoal.policy.host_table import NOTHING
from shoal.policy.protocol import Observation
from shoal.settings import HostSettings
from shoal.text import UNREADABLE

_ERRORS = 5
_PINS = 32
_AGENTS = 3  # other user agents whose rules are kept


class Manual(Struct, frozen=True, omit_defaults=True):
    """What a person decided about a host; it holds until it is taken back."""

    blocked_until: float = 0.0
    reason: str = ""
    rate: float | None = None  # requests a second, instead of the setting; 0 lifts the limit
    per_host: int | None = None  # instead of the setting, as what follows
    timeout: float | None = None
    pool: str | None = None
    robots: bool | None = None
    lane: str | None = None
    version: int = 0  # of the store's settings for hosts (hosts/stored_settings.py), from which these are

    @property
    def settings(self) -> HostSettings:
        if self == NO_ORDERS:
            return NOTHING
        return HostSettings(**{key: getattr(self, key) for key in BY_HAND})

    def following(self, settings: HostSettings, version: int) -> Manual:
        """With these settings, of that version, unless it has newer ones."""
        if version < self.version:
            return self
        given = {key: getattr(settings, key) for key in BY_HAND}
        return msgspec.structs.replace(self, **given, version=version)


NO_ORDERS = Manual()
BY_HAND = ("rate", "per_host", "timeout", "pool", "robots", "lane")  # headers may be secret: not in a store


class Ask(Struct, frozen=True, array_like=True):
    """What a job's settings allow on a host. The strictest of all jobs that crawl it holds."""

    interval: float
    cap: int
    at: float  # when it was said


class OriginState(Struct, frozen=True, omit_defaults=True):
    """What one origin of a host said: a host may answer on one port, and on another not at all."""

    robots: RobotsRecord | None = None  # as last asked for, by whatever job
    robots_for_others: tuple[RobotsRecord, ...] = ()  # … and before, on behalf of other user agents
    silent: int = 0  # how often in a row robots.txt could not be had

    @property
    def robots_missing(self) -> bool:
        """robots.txt could not be had, so nothing may be fetched."""
        return self.robots is not None and self.robots.verdict == "disallow"

    def robots_for(self, agent: str) -> RobotsRecord | None:
        """What robots.txt says to that agent; None: it was not read on behalf of it."""
        known = (self.robots, *self.robots_for_others)
        return next((record for record in known if record is not None and record.fits(agent)), None)

    def with_robots(self, record: RobotsRecord) -> OriginState:
        """Jobs with other user agents keep the rules that were read for them: were there but one record, two jobs
        would ask again and again, each after the other."""
        known = (self.robots, *self.robots_for_others)
        others = [old for old in known if old is not None and old.agent and not old.fits(record.agent)]
        kept = tuple(others[:_AGENTS]) if record.agent else ()
        return msgspec.structs.replace(self, robots=record, robots_for_others=kept)


_NEVER_ASKED = OriginState()


class HostState(Struct, frozen=True, omit_defaults=True):
    start: bool = False  # a start URL leads here: it is part of the crawl
    pins: dict[str, Pin] = {}  # … and a person typed it: its address may be a private one. By job
    origins: dict[str, OriginState] = {}  # by scheme: the host's name and port are in its key
    policies: bytes = b""  # their states, as policy/compose.py writes them
    errors: tuple[str, ...] = ()  # the kinds of the latest failures, newest last
    manual: Manual = NO_ORDERS
    given_up: bool = False  # its valve lets everything through, to be buried
    asks: dict[str, Ask] = {}  # by job
    good_from: int = 0  # leases of an older version of the record were for burial only
    patterns: Patterns = {}  # of URLs whose pages may need a browser
    visit_until: float = 0.0  # its valve is shut for a request without a lease (hosts/robots_visits.py)
    visits_from: float = 0.0  # when there may be another one

    def origin(self, scheme: str) -> OriginState:
        return self.origins.get(scheme, _NEVER_ASKED)

    def with_origin(self, scheme: str, origin: OriginState) -> HostState:
        return msgspec.structs.replace(self, origins={**self.origins, scheme: origin})

    @property
    def robots_missing(self) -> bool:
        """robots.txt could be had from none of the origins that were asked for it."""
        asked = [origin for origin in self.origins.values() if origin.robots is not None]
        return bool(asked) and all(origin.robots_missing for origin in asked)

    def with_pin(self, job: str, pin: Pin) -> HostState:
        """Of jobs in great number, such as the runs of a recurring one, the latest are remembered."""
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


encode_state = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostState).decode


def state_of(record: HostRecord) -> HostState:
    try:
        return _decode(record.state) if record.state else HostState()
    except UNREADABLE:
        return HostState()  # another version's words
