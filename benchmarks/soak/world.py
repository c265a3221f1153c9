"""The web that is crawled: honest hosts, and hostile ones beside them."""

from __future__ import annotations

import argparse

from msgspec import Struct

from shoal.testing import HostProfile, WebProcess
from shoal.testing.web.attacks import ROBOTS

_LINKS = 6
_BODY = 700  # bytes: small pages, so that the time goes into the engine
_ALONE = 6  # the first crawl has this part of the pages


class World(Struct, frozen=True):
    honest: list[str]  # names of hosts
    hostile: list[str]
    pages: int  # on each honest host
    profiles: dict[str, HostProfile]  # of the hostile ones
    seed: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> World:
        hosts = arguments.hosts
        hostile = round(hosts * arguments.hostile / (1 - arguments.hostile))
        bombs = arguments.robots_bombs
        profiles = {
            f"hostile-{n}": HostProfile(
                "hostile",
                pages=arguments.hostile_pages + 1,
                attacks=tuple(arguments.attacks),
                attack_bytes=arguments.attack_bytes,
                robots=ROBOTS if bombs and n % bombs == 0 else 404,
            )
            for n in range(hostile)
        }
        pages = -(-arguments.pages // hosts)
        return cls([f"honest-{n}" for n in range(hosts)], list(profiles), pages, profiles, arguments.seed)

    @property
    def alone(self) -> int:
        return max(1, self.pages // _ALONE)

    def peace(self) -> WebProcess:
        return WebProcess(self._honest(self.alone), self.seed)

    def war(self) -> WebProcess:
        return WebProcess({**self.profiles, **self._honest(self.pages)}, self.seed)

    def _honest(self, pages: int) -> dict[str, HostProfile]:
        return {
            name: HostProfile("fast", pages=pages, links=_LINKS, body_bytes=_BODY) for name in self.honest
        }
