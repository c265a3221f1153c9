"""Links that were admitted before: a site's menu is on every page, and costs one set operation a page.

An href is remembered under as much of its base as its meaning depends on:

    /about                  the base's origin
    https://other.example/  nothing
    next.html, ../b/        the base up to its last "/"
    ?page=2, "", #top       the whole base

Entries may be dropped (memory is bounded); then a link is only checked again.

A link is known only on pages of the host where it was found: those are settled in one shard, in one order. If pages of
another host left it out, their shard could keep them when this one goes back and loses the link.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from shoal.admit.identity import origin

MAX_KNOWN = 500_000
_MAX_LENGTH = 500  # longer hrefs are mostly inline data, seen once
_BUCKET_COST = 4  # an almost empty set takes the room of about this many entries

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# "http:?x" and " ?x" mean the whole base too: so no colon, and no blank at the start.
_IN_DIRECTORY = re.compile(r"[^\x00-\x20?#:][^?#:]*(?:[?#]|\Z)")


class KnownLinks:
    """A bounded set of raw hrefs that were durably admitted, or refused for good."""

    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self._limit = limit
        self._size = 0
        self._buckets: dict[str, set[str]] = {}  # oldest first

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def seen(self, host: str, base: str, href: str) -> bool:
        bucket = self._buckets.get(f"{host} {_key(base, href)}")
        return bucket is not None and href in bucket

    def unknown(self, host: str, base: str, hrefs: Collection[str]) -> list[str]:
        """The hrefs not yet known on pages of the host, in order, each once."""
        left = set(hrefs)
        # An href can only be in the bucket of its kind, so its kind is not needed here.
        for kind in (origin, _nothing, _directory, _whole):
            bucket = self._buckets.get(f"{host} {kind(base)}")
            if bucket is not None:
                left = left - bucket  # not -=, which walks the bucket instead of the page's links
                if not left:
                    return []
        return [href for href in dict.fromkeys(hrefs) if href in left]

    def learn(self, host: str, base: str, href: str) -> None:
        if len(href) > _MAX_LENGTH:
            return
        key = f"{host} {_key(base, href)}"
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = set()
            self._size += _BUCKET_COST
        if href not in bucket:
            bucket.add(href)
            self._size += 1
            while self._size > self._limit:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._buckets.pop(next(iter(self._buckets)))
        self._size -= len(oldest) + _BUCKET_COST


def _key(base: str, href: str) -> str:
    if href.startswith("/"):
        return origin(base)
    if _ABSOLUTE.match(href):
        return ""
    if _IN_DIRECTORY.match(href):
        return _directory(base)
    return _whole(base)


def _nothing(base: str) -> str:
    return ""


def _directory(base: str) -> str:
    end = base.rfind("/") + 1
    return base[:end] if end > len("https://") else base + "/"


def _whole(base: str) -> str:
    return "#" + base  # different from the directory "https://a.example/"
