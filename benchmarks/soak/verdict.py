"""Whether the counts add up, and what the hostile hosts cost the honest ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from benchmarks.soak.crawl import Crawl
from benchmarks.soak.samples import Sample, second_half, slope
from benchmarks.soak.world import World
from shoal.testing import WebProcess

QUIET = 0.5  # from this share of the pages on, nothing is killed
FIGURES = ("memory", "descriptors", "threads", "tasks", "store")


class Verdict(Struct, frozen=True):
    honest_pages: int
    missing: int
    doubled: int
    strange: int  # rows of URLs that were never served
    hostile_rows: int
    kinds: dict[str, int]  # of the dead letters
    honest_letters: int
    admitted: int
    open: int  # pending, delayed or leased
    balanced: bool  # admitted = done + dead + open
    starts: int
    fetched_again: int
    alone: float  # honest pages a second
    beside: float
    slopes: dict[str, float]  # of the second half, by 100,000 rows

    @property
    def adds_up(self) -> bool:
        return self.balanced and not (
            self.missing or self.doubled or self.strange or self.open or self.honest_letters
        )


def judge(web: WebProcess, world: World, crawl: Crawl, soaked: Sequence[Sample], alone: float) -> Verdict:
    rows = Counter(crawl.urls())
    expected = {url for host in world.honest for url in web.pages_of(host)}
    hits = web.hits()
    served = Counter(web.url(hit.host, hit.path) for hit in hits if hit.status)
    [counters] = crawl.ask("status")["jobs"]
    letters = crawl.ask("dead", "list", "--limit", "1000000")
    prefixes = tuple(web.url(host, "/") for host in world.honest)
    states = ("pending", "delayed", "leased", "done", "dead", "merged")
    tail = second_half(soaked)
    return Verdict(
        honest_pages=len(expected),
        missing=len(expected - rows.keys()),
        doubled=sum(count > 1 for count in rows.values()),
        strange=len(rows.keys() - served.keys()),
        hostile_rows=sum(url not in expected for url in rows),
        kinds=dict(Counter(letter["kind"] for letter in letters).most_common()),
        honest_letters=sum(letter["url"].startswith(prefixes) for letter in letters),
        admitted=counters["admitted"],
        open=counters["pending"] + counters["delayed"] + counters["leased"],
        balanced=counters["admitted"] == sum(counters[state] for state in states),
        starts=crawl.starts,
        fetched_again=sum(served[url] - 1 for url in expected if served[url]),
        alone=alone,
        beside=throughput(web, world, QUIET, 0.95),
        slopes={name: slope(tail, name) for name in FIGURES},
    )


def throughput(web: WebProcess, world: World, first: float, last: float) -> float:
    """Honest pages a second, as the server saw it, between two shares of all of them: not the start, nor the end,
    where few hosts have anything left."""
    honest = set(world.honest)
    times = sorted(hit.ended for hit in web.hits() if hit.host in honest and hit.status == 200)
    start, end = int(first * len(times)), int(last * len(times))
    return (end - start) / (times[end] - times[start])
