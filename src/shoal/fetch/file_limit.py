"""How many files a process may have open (`ulimit -n`), and how many requests at once that bears.

A connection is an open file. Without room for one, nothing works any more that opens a file, the store included; so
the number of slots follows the limit before any is used up.
"""

from __future__ import annotations

import resource

from msgspec.structs import replace

from shoal.events import event
from shoal.settings import Settings

LEAST = 80  # with fewer, hardly a connection would be left
_OWN = 56  # the store, the results, logs, name lookups, spiders
# Of the others, for requests under way. As many again are closing: one that is dropped for a request to another host
# is still open when that one begins. The rest is kept idle, for the next request to the same host.
_ACTIVE = 0.4


def file_limit() -> int:
    """0: there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


def raise_file_limit() -> None:
    """As far as a process may by itself: the usual soft limit is meant for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass  # macOS may refuse "unlimited"; the limit then stays as it was


def connections(limit: int) -> tuple[int, int]:
    """How many may be in use, and how many more kept idle."""
    room = max(2, limit - _OWN)
    active = max(1, int(room * _ACTIVE))
    return active, room - 2 * active


def within_file_limit(settings: Settings) -> Settings:
    """The settings with no more slots than the limit bears."""
    limit = file_limit()
    if not limit:
        return settings
    slots, _ = connections(limit)
    if settings.concurrency <= slots:
        return settings
    event("slots_limited", limit=limit, slots=slots, wanted=settings.concurrency)
    return replace(settings, concurrency=slots)
