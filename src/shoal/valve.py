"""The numbers that decide when a host may be hit: its own valve, and what all hosts of its domain share. Pure.

A wildcard in the DNS gives one server any number of names, each a host with a limit of its own. So the hosts of a
registrable domain also share a limit, once there are two of them: a single host has its own, stricter one. A host
without a rate limit is not bound to the domain's rate either, only to its number of requests in flight.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

FOREVER = 1e18  # not before something else happens; sorts after every real time

UNTIMED = 1.0  # seconds that a request to an unknown host is assumed to hold its slot
_LEAST_HOLD = 0.02
_CLOSE = 1e-6  # seconds by which sums of times may differ
_HOLD_GAIN = 0.25
# Where hosts join the line. A host known to take less than _QUICK seconds is before unknown ones, and others are at
# most _FURTHEST requests behind the first. If our own processor is busy, quick hosts seem to take a second or two; a
# host that drips takes more than five.
_QUICK = 3.6
_BEFORE_UNKNOWN = _QUICK / 4
_FURTHEST = 8


class Valve(Struct, frozen=True):
    """The numbers that decide when a host may be hit. Only claim, reserve and settle touch the last three."""

    interval: float = 0.0  # seconds between requests; 0: no limit
    burst: int = 1  # how many may go at once after a quiet spell
    cap: int = 1  # how many may be in flight
    blocked_until: float = 0.0
    in_flight: int = 0
    next_at: float = 0.0  # theoretical arrival time (GCRA)
    hold: float = 0.0  # seconds that a request holds its slot, smoothed; 0: none has ended yet

    def due(self) -> float:
        """When the next request may go, given that nothing else changes."""
        return FOREVER if self.in_flight >= self.cap else self.turn()

    def turn(self) -> float:
        """When the next request may go, however many are in flight."""
        return max(self.blocked_until, self.next_at - (self.burst - 1) * self.interval)

    def allowance(self, now: float) -> int:
        """How many requests may go right now."""
        if self.in_flight >= self.cap or now < self.due():
            return 0
        room = self.cap - self.in_flight
        if self.interval <= 0:
            return room
        # The slots that have become free since the earliest permitted moment, counted from whole intervals.
        earliest = self.next_at - (self.burst - 1) * self.interval
        slots = int((now - earliest) / self.interval + 1e-9) + 1
        return max(0, min(room, slots, self.burst))

    def take(self, count: int, now: float) -> Valve:
        """The valve after `count` requests went at `now`."""
        next_at = max(self.next_at, now) + count * self.interval
        return replace(self, in_flight=self.in_flight + count, next_at=next_at)

    def reserve(self, turn: float) -> Valve:
        """The valve after the turn at that time was given away. The request is not counted as in flight."""
        return replace(self, next_at=max(self.next_at, turn) + self.interval)

    def reset(self, wanted: Valve) -> Valve:
        """The valve with new numbers. The next request is due as if the last one had already gone by them."""
        next_at = self.next_at + wanted.interval - self.interval if self.next_at else 0.0
        return replace(wanted, in_flight=self.in_flight, next_at=next_at, hold=self.hold)

    def give_back(self, count: int, held: float | None = None) -> Valve:
        """The valve after `count` requests ended. `held`: seconds they held their slots, on average, if they tell."""
        hold = self.hold
        if held is not None:
            hold = hold + (held - hold) * _HOLD_GAIN if hold else held
        return replace(self, in_flight=max(0, self.in_flight - count), hold=hold)

    def refund(self, since: float) -> Valve:
        """The valve after it turned out that nothing was sent by the request that went at `since`. If others went since
        then, its turn is gone: they were told to wait for it, and have."""
        return replace(self, next_at=_refunded(self.next_at, self.interval, since))

    def charge(self, count: int) -> float:
        """How far `count` requests move the host back in the line of due hosts: the time that they will hold slots. So
        hosts get equal shares of the slots' time, not of the requests: while others wait, a host that takes ten seconds
        gets fewer requests than one that takes a tenth."""
        return count * max(_LEAST_HOLD, self.hold or UNTIMED)

    def _is_quick(self) -> bool:
        return 0 < self.hold < _QUICK

    def _headway(self) -> float:
        """How far behind the front of the line the host joins at least. Less than UNTIMED if it is known to be
        quick."""
        return self.charge(1) / 4 if self._is_quick() else UNTIMED

    def front(self, place: float) -> float:
        """The front of the line, if the host is first in it at `place`."""
        return place - self._headway()

    def seat(self, place: float, front: float | None) -> float:
        """Where the host joins the line: at its old place, but not before the front, so that being away earns nothing,
        and not far behind. `front` is None if the line is empty.

        A host known to be quick joins before unknown ones, whatever it was charged before. Otherwise each of its pages
        would wait for a first page of all of them, and thousands of made-up names would starve it. (Only if it has an
        interval: without one it is always due, and the others would never have their turn.)"""
        if front is None:
            return place
        goes_before = self._is_quick() and self.interval > 0
        furthest = _BEFORE_UNKNOWN if goes_before else _FURTHEST * max(self.charge(1), UNTIMED)
        return min(max(place, front + self._headway()), front + furthest)


OPEN = Valve(cap=1_000_000)  # for tasks that send nothing
DELIVERING = Valve(cap=4)  # for what is delivered to a webhook, in the whole fleet


_ANY = 1 << 30


class DomainLimit(Struct, frozen=True):
    """The limit of a job for all hosts of a domain together."""

    interval: float = 0.0  # seconds between requests; 0: no limit
    cap: int = 0  # how many may be in flight; 0: no limit


class Domain(Struct, frozen=True):
    """A domain with more than one host. Only claim, reserve and the end of leases touch its numbers."""

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

    def reserve(self, turn: float, limit: DomainLimit, paced: bool) -> Domain:
        """The domain after the turn at that time was given away."""
        if not paced or limit.interval <= 0:
            return self
        return replace(self, next_at=max(self.next_at, turn) + limit.interval)

    def refund(self, since: float, limit: DomainLimit, paced: bool) -> Domain:
        """As `Valve.refund`."""
        return replace(self, next_at=_refunded(self.next_at, limit.interval, since)) if paced else self

    def give_back(self, count: int) -> Domain:
        return replace(self, in_flight=max(0, self.in_flight - count))


def _refunded(next_at: float, interval: float, since: float) -> float:
    """`next_at` as if nothing had gone at `since`. After that, another request would have moved it on by a second
    interval; less than that are the rest of a burst, and what a late commit adds (`hold_back` in SQLite's home)."""
    is_last = 0 < next_at - since < 2 * interval - _CLOSE
    return max(since, next_at - interval) if is_last else next_at


def strictest(limits: Iterable[DomainLimit]) -> DomainLimit:
    """The strictest limit of several jobs that visit a domain."""
    interval, cap = 0.0, 0
    for limit in limits:
        interval = max(interval, limit.interval)
        cap = min(cap or _ANY, limit.cap or _ANY) % _ANY
    return DomainLimit(interval, cap)
