"""The second valve: what all hosts of one registrable domain share.

A wildcard in the DNS gives one server as many names as its pages care to link to, each a host with a limit of its own.
So the hosts of a domain also have a limit together. It begins when the domain's second host is met: a single one has
its own, stricter one. A host whose own rate is lifted is not held to the domain's rate either, only to its places.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from shoal.frontier.timebase import FOREVER

_ANY = 1 << 30


class DomainLimit(Struct, frozen=True):
    """What a job allows all hosts of a domain together."""

    interval: float = 0.0  # seconds between requests; 0: no limit
    cap: int = 0  # how many may be in flight; 0: no limit


class Domain(Struct, frozen=True):
    """A domain with more than one host. Only claim and the end of leases touch its numbers."""

    name: str
    in_flight: int = 0  # on all its hosts
    next_at: float = 0.0  # no request before

    def due(self, limit: DomainLimit) -> float:
        """When the next request may go, given that nothing else changes."""
        return FOREVER if limit.cap and self.in_flight >= limit.cap else self.next_at

    def allowance(self, limit: DomainLimit, paced: bool, now: float) -> int:
        """How many requests may go to one of its hosts right now. `paced`: that host has an interval of its own."""
        room = max(0, limit.cap - self.in_flight) if limit.cap else _ANY
        if not paced:
            return room
        if now < self.next_at:
            return 0
        return min(room, 1) if limit.interval > 0 else room

    def take(self, count: int, limit: DomainLimit, paced: bool, now: float) -> Domain:
        """The domain after `count` requests went at `now`."""
        next_at = max(self.next_at, now) + count * limit.interval if paced else self.next_at
        return replace(self, in_flight=self.in_flight + count, next_at=next_at)

    def give_back(self, count: int) -> Domain:
        return replace(self, in_flight=max(0, self.in_flight - count))


def strictest(limits: Iterable[DomainLimit]) -> DomainLimit:
    """Of several jobs that visit a domain."""
    interval, cap = 0.0, 0
    for limit in limits:
        interval = max(interval, limit.interval)
        cap = min(cap or _ANY, limit.cap or _ANY) % _ANY
    return DomainLimit(interval, cap)
