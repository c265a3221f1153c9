"""The web that `shoal demo` crawls: a dozen hosts with every habit, and settings that suit it.

At 20 requests a second and host, a crawl of all of it takes about ten seconds.
"""

from __future__ import annotations

from shoal.testing.web.profile import HostProfile

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
