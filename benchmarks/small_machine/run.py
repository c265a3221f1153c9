"""What came of a crawl, in real time or in virtual time: the same figures for both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from benchmarks.small_machine.account import Account
from benchmarks.small_machine.world import kind_of

BUCKETS = 60  # of a run, for its curves
STEADY = 0.9  # up to this share of the pages, hosts have something left


class Visit(Struct, frozen=True, array_like=True):
    """A request as a host saw it."""

    at: float  # seconds since the run began
    host: str
    page: str
    status: int  # 0: never answered in full


class Kind(Struct, frozen=True):
    """Hosts of one kind."""

    hosts: int
    there: int  # obtainable pages
    obtained: int
    requests: int  # as they saw it
    good: int  # of these, answered with a page
    refused: int  # 429, or 403

    @property
    def share(self) -> float:
        return self.obtained / self.there if self.there else 0.0


class Run(Struct, frozen=True):
    seconds: float
    kinds: dict[str, Kind]
    pages: list[int]  # obtained in each of the buckets of the run
    memory: list[tuple[float, int]]  # seconds, bytes
    steady: float  # seconds until most pages were obtained
    doubled: int  # rows of pages that have one already
    strange: int  # rows of pages that are not there
    cut_short: bool
    killed: bool
    cpu: float  # real seconds
    account: Account
    store: int = 0  # bytes on disk, at the end

    @property
    def there(self) -> int:
        return sum(kind.there for kind in self.kinds.values())

    @property
    def obtained(self) -> int:
        return sum(kind.obtained for kind in self.kinds.values())

    @property
    def per_hour(self) -> float:
        return 3600 * self.obtained / self.seconds

    @property
    def steady_per_hour(self) -> float:
        return 3600 * STEADY * self.obtained / self.steady

    @property
    def success(self) -> float:
        return self.obtained / self.there

    @property
    def peak(self) -> int:
        return max(rss for _, rss in self.memory)

    @property
    def cost(self) -> float:
        """Of a page that was obtained."""
        return sum(self.account.costs.values()) / max(1, self.obtained)

    @property
    def requests(self) -> int:
        """Through all proxies, robots.txt and retries included."""
        return sum(proxy.requests for proxy in self.account.proxies)

    @property
    def growth(self) -> int:
        """Bytes by which the memory grew after the first tenth of the run, in which everything is used once."""
        early = [rss for at, rss in self.memory if at <= self.seconds / 10]
        late = [rss for at, rss in self.memory if at >= self.seconds * 9 / 10]
        return (late or [self.peak])[-1] - (early or [self.peak])[-1]


def summarize(
    *,
    seconds: float,
    visits: Iterable[Visit],
    rows: Sequence[str],
    expected: Mapping[str, set[str]],
    memory: list[tuple[float, int]],
    cut_short: bool,
    killed: bool,
    cpu: float,
    account: Account,
    store: int,
) -> Run:
    """`rows`: URLs in the output. `expected`: by host, the URLs that there are to find."""
    found = set(rows)
    visits = list(visits)
    moments: dict[str, float] = {}
    for visit in visits:
        if visit.status == 200 and visit.page in found:
            moments.setdefault(visit.page, visit.at)
    buckets = [0] * BUCKETS
    for at in moments.values():
        buckets[min(BUCKETS - 1, max(0, int(BUCKETS * at / seconds)))] += 1
    most = STEADY * len(moments)
    ends = (n for n, total in enumerate(accumulate(buckets), 1) if total >= most)
    return Run(
        seconds,
        _by_kind(visits, found, expected),
        buckets,
        memory,
        steady=next(ends, BUCKETS) * seconds / BUCKETS,
        doubled=len(rows) - len(found),
        strange=len(found - set().union(*expected.values())),
        cut_short=cut_short,
        killed=killed,
        cpu=cpu,
        account=account,
        store=store,
    )


def _by_kind(visits: Sequence[Visit], found: set[str], expected: Mapping[str, set[str]]) -> dict[str, Kind]:
    kinds: dict[str, list[int]] = {}
    for host, pages in expected.items():
        one = kinds.setdefault(kind_of(host), [0] * 6)
        one[0] += 1
        one[1] += len(pages)
        one[2] += len(pages & found)
    for visit in visits:
        one = kinds[kind_of(visit.host)]
        one[3] += 1
        one[4] += visit.status == 200
        one[5] += visit.status in (403, 429)
    return {kind: Kind(*numbers) for kind, numbers in kinds.items()}
