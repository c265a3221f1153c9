"""What a site was asked for, as its server counted it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

_ROBOTS = b"/robots.txt"


class Asked(Struct, frozen=True):
    pages: int = 0  # that were asked for at least once
    missing: int = 0  # pages that nobody asked for
    again: int = 0  # requests for a page beyond its first: retries, or a filter of duplicates that leaks
    robots: int = 0  # requests for robots.txt
    other: int = 0  # requests for what is not there
    connections: int = 0
    cpu: float = 0.0  # seconds, of the server

    def with_host(self, asked: Mapping[bytes, int], pages: Collection[bytes]) -> Asked:
        found = sum(path in asked for path in pages)
        of_pages = sum(count for path, count in asked.items() if path in pages)
        robots = asked.get(_ROBOTS, 0)
        return replace(
            self,
            pages=self.pages + found,
            missing=self.missing + len(pages) - found,
            again=self.again + of_pages - found,
            robots=self.robots + robots,
            other=self.other + sum(asked.values()) - of_pages - robots,
        )
