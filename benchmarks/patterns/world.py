"""The web of the race: what each host is like, decided by the seed alone."""

from __future__ import annotations

import math
import random
from typing import Literal

from shoal.testing import HostProfile

Order = Literal["by-host", "shuffled"]
ORDERS: tuple[Order, ...] = ("by-host", "shuffled")

PAGES = 25  # on each host
RATE, BURST = 5.0, 10  # what every host allows, per second and at once
RETRY_AFTER = 2.0  # seconds, asked for with every 429
JITTER = 0.5  # of a host's own latency, from request to request
QUICK, SLOW = (0.2, 1.0), (1.0, 10.0)  # seconds; with the jitter, the slowest answers take 15
HANGING, FLAPPING, TAIL = 0.05, 0.05, 0.10  # shares of the hosts


def make_web(hosts: int, pages: int, scale: float, seed: int) -> dict[str, HostProfile]:
    """Hosts by name, with every time divided by the scale."""
    rng = random.Random(seed)
    kinds = [
        *["hanging"] * round(hosts * HANGING),
        *["flapping"] * round(hosts * FLAPPING),
        *["slow"] * round(hosts * TAIL),
    ]
    kinds += ["quick"] * (hosts - len(kinds))
    rng.shuffle(kinds)
    return {f"{kind}-{number}": _host(kind, pages, scale, rng) for number, kind in enumerate(kinds)}


def _host(kind: str, pages: int, scale: float, rng: random.Random) -> HostProfile:
    latency = _between(*(SLOW if kind == "slow" else QUICK), rng)
    period, failure_share = rng.uniform(20.0, 60.0), rng.uniform(0.2, 0.5)
    if kind == "hanging":
        return HostProfile("hanging", pages=pages)
    return HostProfile(
        "lifelike",
        pages=pages,
        links=0,
        latency=latency / scale,
        jitter=JITTER,
        rate=RATE * scale,
        burst=BURST,
        retry_after=RETRY_AFTER / scale,
        failure_share=failure_share if kind == "flapping" else 0.0,
        period=period / scale,
    )


def _between(low: float, high: float, rng: random.Random) -> float:
    """Evenly on a logarithmic scale: many short ones, few long ones."""
    return low * math.pow(high / low, rng.random())


def in_order(urls: list[str], order: Order, seed: int) -> list[str]:
    """By host, as lists of people are; or shuffled, which spares hosts by itself."""
    urls = sorted(urls)
    if order == "shuffled":
        random.Random(seed).shuffle(urls)
    return urls
