"""Handlers that every spider has: they read the sources of start URLs, and deliver to webhooks. No handler of a user
has such a name."""

from __future__ import annotations

BUILT_IN = "shoal:"
SITEMAP = "shoal:sitemap"
FEED = "shoal:feed"
ROBOTS = "shoal:robots"  # reads the sitemaps that a robots.txt names
WEBHOOK = "shoal:webhook"  # no page: its tasks are deliveries of `engine/webhooks.py`

SOURCE_LANE = "discovery"  # so that they wait while the queue is full


def is_built_in(handler: str) -> bool:
    return handler.startswith(BUILT_IN)


def is_source(handler: str) -> bool:
    """Whether its pages list start URLs."""
    return is_built_in(handler) and handler != WEBHOOK


def takes_status(handler: str, status: int) -> bool:
    """Whether its pages are read whatever the server says: a site without a robots.txt may have a sitemap."""
    return handler == ROBOTS and 400 <= status < 500 and status != 429
