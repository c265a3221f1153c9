"""What came of a crawl under chaos, and whether it is what Shoal promises."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from benchmarks.fleet.manners import Manners, manners
from shoal.frontier.values import Counters
from shoal.testing import WebProcess

# A request that was allowed just before the store went away, or its worker was frozen for a moment, may arrive just
# before the next. So a host may get one request too soon, but not a second one. What is between is time: a request that
# a busy machine sends half an interval late comes half an interval before the next.
_TOO_MANY = 2.0


class Verdict(Struct, frozen=True):
    pages: int
    rows: int
    missing: list[str]
    doubled: list[str]
    strange: list[str]  # rows of pages that there are not
    exit_code: int  # of `shoal submit --wait`
    seconds: float
    fetched_again: int
    counters: Counters
    buried: list[str]  # pages that were given up, and why
    dropped: int  # pages that a worker gave up when it woke from a sleep longer than its lease
    manners: Manners
    story: list[str]

    def complaints(self, rate: float, per_host: int) -> list[str]:
        c, m = self.counters, self.manners
        counted = (c.done, c.admitted, c.open, c.dead) == (self.pages, self.pages, 0, 0)
        checks = {
            f"submit --wait ended with {self.exit_code}": self.exit_code != 0,
            f"{len(self.missing)} pages have no row: {self.missing[:5]}": self.missing,
            f"{len(self.doubled)} pages have more than one row: {self.doubled[:5]}": self.doubled,
            f"{len(self.strange)} rows are of no page: {self.strange[:5]}": self.strange,
            f"the counters do not add up for {self.pages} pages: {c}": not counted,
            f"pages were given up: {self.buried}": self.buried,
            "nobody was frozen with pages in flight: none was dropped, or settled too late": c.stale == 0
            and self.dropped == 0,
            f"{m.peak} requests at once on a host that allows {per_host}": m.peak > per_host,
            f"a host got {m.excess:.2f} requests above its rate of {rate:g}": m.excess >= _TOO_MANY,
        }
        return [complaint for complaint, holds in checks.items() if holds]


def judge(
    web: WebProcess,
    urls: list[str],
    code: int,
    seconds: float,
    counters: Counters,
    buried: list[str],
    dropped: int,
    story: list[str],
    rate: float,
) -> Verdict:
    rows = Counter(urls)
    expected = {url for host in web.spec.hosts for url in web.pages_of(host)}
    hits = web.hits()
    answered = Counter(
        (hit.host, hit.path) for hit in hits if hit.status == 200 and hit.path != "/robots.txt"
    )
    return Verdict(
        pages=len(expected),
        rows=rows.total(),
        missing=sorted(expected - set(rows)),
        doubled=sorted(url for url, count in rows.items() if count > 1),
        strange=sorted(set(rows) - expected),
        exit_code=code,
        seconds=seconds,
        fetched_again=answered.total() - len(answered),
        counters=counters,
        buried=buried,
        dropped=dropped,
        manners=manners(hits, rate),
        story=story,
    )


def show(verdict: Verdict, rate: float, per_host: int) -> bool:
    for line in verdict.story:
        print(f"  {line}")
    m, c = verdict.manners, verdict.counters
    print(
        f"{verdict.rows:,} rows for {verdict.pages:,} pages after {verdict.seconds:.0f} s and "
        f"{len(verdict.story)} acts: {len(verdict.missing)} missing, {len(verdict.doubled)} doubled; "
        f"{verdict.fetched_again} fetched again, {c.stale} settlements refused, {verdict.dropped} pages dropped\n"
        f"at most {m.peak} at once on a host (allowed: {per_host}), "
        f"at worst {m.excess:.2f} requests above the rate, "
        f"shortest gap {m.shortest_gap * 1e3:.0f} ms (interval {1e3 / rate:.0f} ms)"
    )
    complaints = verdict.complaints(rate, per_host)
    for complaint in complaints:
        print(f"FAILED: {complaint}")
    if not complaints:
        print("verdict: nothing lost, nothing doubled, polite throughout")
    return not complaints
