"""A host's valve, composed from what is configured and what its robots.txt asks for. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.frontier.protocol import Valve
from shoal.settings import Settings


def first_valve(settings: Settings) -> Valve:
    """For a host never met. Until its robots.txt is known one request may run, so exactly one worker asks for it."""
    return configured(Valve(), settings, crawl_delay=None, robots_known=False)


def configured(current: Valve, settings: Settings, *, crawl_delay: float | None, robots_known: bool) -> Valve:
    """The valve with the numbers that settings and robots.txt give it."""
    interval = 1 / settings.rate if settings.rate else 0.0
    if settings.robots and crawl_delay is not None:
        interval = max(interval, min(crawl_delay, settings.max_crawl_delay))
    asked = robots_known or not settings.robots
    return replace(current, interval=interval, burst=settings.burst, cap=settings.per_host if asked else 1)
