"""What goes through a pool, by host: how much, how well, how quickly, for how much money. Pure.

It is part of what processes know together about a pool (`PoolState`), for people to look at. Nothing is decided by it.
"""

from __future__ import annotations

import math

from msgspec import Struct

USES = 300  # hosts of a pool; beyond, those with the fewest requests are taken together
OTHER = "(other)"
_FASTEST, _STEPS, _STEP = 0.01, 28, 1.5  # seconds; buckets, each half as wide again as the one before


class HostUse(Struct, frozen=True, omit_defaults=True):
    """The requests to a host through a pool."""

    requests: int = 0
    good: int = 0  # answered, and not refused
    refused: int = 0  # 403, 429, a captcha
    bytes: int = 0  # received
    cost: float = 0.0
    times: tuple[int, ...] = ()  # of good ones, by bucket

    def __add__(self, other: HostUse) -> HostUse:
        longest = max(len(self.times), len(other.times))
        pairs = zip(_padded(self.times, longest), _padded(other.times, longest), strict=True)
        return HostUse(
            self.requests + other.requests,
            self.good + other.good,
            self.refused + other.refused,
            self.bytes + other.bytes,
            self.cost + other.cost,
            tuple(a + b for a, b in pairs),
        )

    @property
    def success(self) -> float | None:
        return self.good / self.requests if self.requests else None

    @property
    def median(self) -> float | None:
        """Seconds that half of the good ones took at most; within a quarter of it."""
        half, seen = sum(self.times) / 2, 0
        for bucket, count in enumerate(self.times):
            seen += count
            if count and seen >= half:
                return float(_FASTEST * _STEP ** (bucket + 0.5))
        return None


def time_bucket(seconds: float) -> tuple[int, ...]:
    """One request that took so long, as `HostUse.times`."""
    number = int(math.log(max(seconds, _FASTEST) / _FASTEST, _STEP))
    return (*(0,) * min(number, _STEPS - 1), 1)


def with_use(uses: dict[str, HostUse], host: str, use: HostUse) -> dict[str, HostUse]:
    return {**uses, host: uses.get(host, HostUse()) + use}


def bounded(uses: dict[str, HostUse]) -> dict[str, HostUse]:
    """The hosts with most requests; the others together."""
    if len(uses) <= USES:
        return uses
    ranked = sorted(uses.keys() - {OTHER}, key=lambda host: (-uses[host].requests, host))
    kept = {host: uses[host] for host in ranked[: USES - 1]}
    rest = uses.get(OTHER, HostUse())
    for host in ranked[USES - 1 :]:
        rest += uses[host]
    return {**kept, OTHER: rest}


def _padded(times: tuple[int, ...], length: int) -> tuple[int, ...]:
    return times + (0,) * (length - len(times))
