"""A host's valve, composed from settings, robots.txt, the policies and what a person decided. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.policy.protocol import NO_LIMITS, Limits
from shoal.settings import Settings
from shoal.valve import DomainLimit, Valve


def first_valve(settings: Settings) -> Valve:
    """For a host never met. Until its robots.txt is known one request may run, so exactly one worker asks for it; and
    where hosts have settings of their own, until whoever makes it has written them down."""
    valve = configured(Valve(), settings, crawl_delay=None, robots_known=False)
    return replace(valve, cap=1) if settings.host else valve


_RATE_OF_DOMAIN, _PLACES_OF_DOMAIN = 5.0, 4  # times those of a host


def domain_limit(settings: Settings) -> DomainLimit:
    """For all hosts of a registrable domain together. It is never stricter than that of a single host."""
    rate = settings.rate * _RATE_OF_DOMAIN if settings.domain_rate is None else settings.domain_rate
    cap = settings.per_host * _PLACES_OF_DOMAIN if settings.per_domain is None else settings.per_domain
    return DomainLimit(
        interval=1 / max(rate, settings.rate) if rate and settings.rate else 0.0,
        cap=max(cap, settings.per_host) if cap else 0,
    )


def configured(
    current: Valve,
    settings: Settings,
    *,
    crawl_delay: float | None,
    robots_known: bool,
    limits: Limits = NO_LIMITS,
    blocked_until: float = 0.0,
) -> Valve:
    """The valve with the strictest of what everybody asks for. The settings are those that hold at the host
    (policy/host_table.py); `blocked_until` is a person's."""
    if limits.refuse:
        # Its tasks are buried unfetched: nothing is gained by doing that slowly.
        return replace(current, interval=0.0, cap=settings.concurrency, blocked_until=blocked_until)
    interval = 1 / settings.rate if settings.rate else 0.0
    if settings.robots and crawl_delay is not None:
        interval = max(interval, min(crawl_delay, settings.max_crawl_delay))
    cap = settings.per_host
    if limits.cap is not None:
        cap = max(1, min(cap, limits.cap))
    return replace(
        current,
        interval=max(interval, limits.interval or 0.0),
        burst=settings.burst,
        cap=cap if robots_known or not settings.robots else 1,
        blocked_until=max(blocked_until, limits.blocked_until or 0.0),
    )
