"""What a host of the chaotic web is like: plain values that can be written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal[
    "fast",  # answers at once
    "slow",  # answers after `latency`
    "hanging",  # accepts and never answers
    "limited",  # 429 with Retry-After above `rate`
    "flapping",  # 500, 502, 503 for `failure_share` of the requests, or of each `period`
    "failing",  # 503 for everything
    "redirecting",  # pages are linked through chains of redirects; also a loop and ways to other hosts
    "trapping",  # a calendar, /a/b/a/b/…, an endless ?page= and session ids
    "lifelike",  # lags, limits and flaps at once, by all of these numbers
    "huge",  # besides its pages, a body of `huge_bytes` and one that never ends
    "scripted",  # some pages are empty until their script has fetched the rest
    "hostile",  # one honest page, which links to an attack after another
    "closing",  # accepts and closes at once
    "down",  # refuses connections
]

NO_ANSWER = 0  # as a status: the server stays silent


class HostProfile(Struct, frozen=True, omit_defaults=True):
    """One host. A field that names a kind matters to that kind alone."""

    kind: Kind = "fast"
    pages: int = 20
    links: int = 8  # on each page
    body_bytes: int = 2_000  # of each page, about
    robots: str | int = 404  # the text of robots.txt, or the status it is answered with; 0: no answer
    private: int = 0  # further pages below /private/, linked from the first page, for robots.txt to disallow
    latency: float = 0.3  # slow, lifelike: seconds before each answer
    jitter: float = 0.0  # lifelike: 0.5 means that an answer takes up to 1.5 times longer, or shorter
    rate: float = 5.0  # limited, lifelike: requests per second
    burst: float = 0.0  # limited, lifelike: requests that may come at once; 0: a second's worth
    retry_after: float = 1  # limited, lifelike: seconds
    failure_share: float = 0.3  # flapping, lifelike
    period: float = (
        0.0  # flapping, lifelike: seconds; 0: each request on its own, and no page fails more than twice
    )
    huge_bytes: int = 64 * 1024 * 1024  # huge
    shells: float = 1 / 3  # scripted: share of the pages that are empty without scripts; the first never is
    shells_at: str = "/p/"  # scripted: where those lie; "/app/": apart from the others
    plain_after: int = 0  # scripted: when so many were served, all pages are plain; 0: never

    attacks: tuple[str, ...] = ()  # hostile: by name, see attacks.py; empty: all of them

    attack_bytes: int = (
        256 * 1024
    )  # hostile: of a page that is hard to parse; its floods have a link for every 64

    @property
    def reachable(self) -> bool:
        """Whether a polite crawl must get pages here at all: an unreachable robots.txt forbids everything."""
        no_pages = self.kind in ("hanging", "failing", "hostile", "closing", "down")
        robots_fails = isinstance(self.robots, int) and (self.robots == NO_ANSWER or self.robots >= 500)
        return not no_pages and not robots_fails


class WebSpec(Struct, frozen=True):
    """The whole web: hosts by name, and the seed that all its chance comes from."""

    hosts: dict[str, HostProfile]
    seed: int = 0

    @classmethod
    def of(cls, hosts: Sequence[HostProfile] | Mapping[str, HostProfile], seed: int = 0) -> WebSpec:
        """Hosts in a sequence are named by kind and position: fast-0, slow-1, …"""
        if isinstance(hosts, Mapping):
            return cls(dict(hosts), seed)
        return cls({f"{profile.kind}-{n}": profile for n, profile in enumerate(hosts)}, seed)
