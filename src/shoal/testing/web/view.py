"""What a test can ask a chaotic web: its addresses, what there is to find, and who came when."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from shoal.testing.web.profile import WebSpec
from shoal.testing.web.site import Site, site_of


class Hit(Struct, frozen=True):
    """One request as the server saw it. Times are monotonic seconds, the same in all processes of the machine."""

    host: str  # by name
    path: str
    status: int  # 0: never answered in full
    started: float
    ended: float
    concurrent: int  # requests under way on this host when this one arrived, itself included
    in_browser: bool = False  # a browser asked


class WebView:
    """The questions that are the same wherever the web runs. Hosts are called by their names."""

    def __init__(self, spec: WebSpec) -> None:
        self.spec = spec
        self.addresses: dict[str, str] = {}  # by name: "127.0.1.1:40123"

    def hits(self) -> list[Hit]:
        """Every request that has ended, in the order they ended."""
        raise NotImplementedError

    @property
    def start_urls(self) -> list[str]:
        """The first page of every host."""
        return [self.url(name) for name in self.spec.hosts]

    def url(self, host: str, path: str = "/p/0") -> str:
        return f"http://{self.addresses[host]}{path}"

    def pages_of(self, host: str) -> set[str]:
        """The pages a complete and polite crawl must find here, no matter what else it meets."""
        profile = self.spec.hosts[host]
        if not profile.reachable:
            return set()
        return {self.url(host, path) for path in self.site_of(host).paths()}

    def shells_of(self, host: str) -> set[str]:
        """Those of its pages that are empty until their scripts have run."""
        site = self.site_of(host)
        return {self.url(host, site.path(i)) for i in range(site.pages) if site.is_shell(i)}

    def site_of(self, host: str) -> Site:
        return site_of(self.spec.hosts[host], self.spec.seed + list(self.spec.hosts).index(host))

    def hits_of(self, host: str) -> list[Hit]:
        """The host's hits in the order they arrived."""
        return sorted((hit for hit in self.hits() if hit.host == host), key=lambda hit: hit.started)

    def gaps(self, host: str) -> list[float]:
        """The seconds between one arrival and the next."""
        starts = [hit.started for hit in self.hits_of(host)]
        return [later - earlier for earlier, later in pairwise(starts)]

    def peak_concurrency(self, host: str) -> int:
        """The most requests that were under way at once; 0 if none came."""
        return max((hit.concurrent for hit in self.hits() if hit.host == host), default=0)
