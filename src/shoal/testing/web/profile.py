"""What a host of the chaotic web is like, and a hit on it: plain values that can be written as JSON.

The web that `shoal demo` crawls is here, too: a dozen hosts with every habit, and settings that suit it. At 20 requests
a second and host, a crawl of all of it takes about ten seconds.
"""

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
    "banning",  # lifelike, but whoever asks too often from one address is refused for a while
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
    # limited, lifelike: 429 above `rate` by a token bucket; or by counting, in windows of so many seconds, or in the
    # last so many seconds at any time
    limiter: Literal["bucket", "fixed", "sliding"] = "bucket"
    window: float = 1.0  # fixed, sliding: seconds
    retry_after: float = 1  # limited, lifelike: seconds; 0: a 429 says nothing
    failure_share: float = 0.3  # flapping, lifelike
    period: float = (
        0.0  # flapping, lifelike: seconds; 0: each request on its own, and no page fails more than twice
    )
    ban_after: int = 30  # banning: after so many requests of one address …
    ban_window: float = 60.0  # … in so many seconds, it is refused …
    ban_seconds: float = 120.0  # … for so long …
    ban_status: int = 403  # … with this status
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


class Hit(Struct, frozen=True):
    """One request as the server saw it. Times are monotonic seconds, the same in all processes of the machine."""

    host: str  # by name
    path: str
    status: int  # 0: never answered in full
    started: float
    ended: float
    concurrent: int  # requests under way on this host when this one arrived, itself included
    in_browser: bool = False  # a browser asked


# Names and meanings as in shoal.settings.Settings. Timeouts are short because a hanging host is part of the show.
DEMO_SETTINGS: dict[str, int | float] = {
    "rate": 20.0,
    "per_host": 4,
    "max_pages_per_host": 80,  # what stops a crawl in an endless calendar
    "connect_timeout": 1.0,
    "read_timeout": 1.5,
    "total_timeout": 4.0,
    "max_body": 1024 * 1024,
    "max_redirects": 5,
    "max_attempts": 3,
    "retry_base": 0.3,
    "retry_cap": 2.0,
}


def demo_profiles() -> dict[str, HostProfile]:
    """The hosts by name, the well-behaved ones first."""
    return {
        "shop": HostProfile("fast", pages=70, links=12, body_bytes=8_000),
        "docs": HostProfile("fast", pages=40, private=5, robots="User-agent: *\nDisallow: /private/\n"),
        "library": HostProfile("fast", pages=12, robots="User-agent: *\nCrawl-delay: 0.25\n"),
        "archive": HostProfile("slow", pages=20, latency=0.4),
        "api": HostProfile("limited", pages=30, rate=8.0, retry_after=1),
        "forum": HostProfile("flapping", pages=40, failure_share=0.3),
        "old-site": HostProfile("redirecting", pages=20),
        "calendar": HostProfile("trapping", pages=10),
        "media": HostProfile("huge", pages=10),
        "tarpit": HostProfile("hanging"),
        "members": HostProfile("fast", robots=503),
        "broken": HostProfile("closing"),
        "gone": HostProfile("down"),
    }
