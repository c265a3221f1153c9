"""How a fleet behaved towards the hosts, by the server's log alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from shoal.testing import Hit


class Manners(Struct, frozen=True):
    """Of the host that was treated worst, in each respect."""

    peak: int  # requests under way at once
    shortest_gap: float  # seconds between two arrivals; as the server saw them, the network's jitter included
    pace: float  # requests a second, from a host's first to its last
    excess: (
        float  # requests beyond what the rate allows in any span of time, the first of the span not counted
    )


def manners(hits: Iterable[Hit], rate: float) -> Manners:
    hosts = arrivals(hits)
    return Manners(
        peak=max((hit.concurrent for host in hosts.values() for hit in host), default=0),
        shortest_gap=min((min(_gaps(host), default=1e9) for host in hosts.values()), default=1e9),
        pace=max((_pace(host) for host in hosts.values()), default=0.0),
        excess=max((excess([hit.started for hit in host], rate) for host in hosts.values()), default=0.0),
    )


def arrivals(hits: Iterable[Hit]) -> Mapping[str, Sequence[Hit]]:
    """By host, in the order they arrived."""
    hosts: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: hit.started):
        hosts.setdefault(hit.host, []).append(hit)
    return hosts


def excess(times: Sequence[float], rate: float) -> float:
    """In the worst span from one arrival to another: how many more followed the first than the rate allows."""
    worst, least = 0.0, float("inf")
    for number, at in enumerate(times):
        ahead = number - rate * at
        least = min(least, ahead)
        worst = max(worst, ahead - least)
    return worst


def _gaps(host: Sequence[Hit]) -> list[float]:
    return [later.started - earlier.started for earlier, later in pairwise(host)]


def _pace(host: Sequence[Hit]) -> float:
    span = host[-1].started - host[0].started
    return (len(host) - 1) / span if span else 0.0
