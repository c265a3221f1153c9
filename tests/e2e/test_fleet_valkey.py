"""Four workers on one Valkey, and a fifth that joins: together they treat a host as one worker would.

The server's log is the witness. It notes when it gets to read a request, and on a busy machine it may itself be late;
so what counts is how many requests a host got in any span of time, where such shifts cancel out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest
from benchmarks.fleet.manners import arrivals, excess
from benchmarks.fleet.processes import Members, until
from benchmarks.fleet.shoal_fleet import ShoalFleet
from msgspec import Struct

from shoal.frontier.protocol import Job
from shoal.testing import Hit, HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

RATE, PER_HOST = 0.8, 2
QUICK, SLOW = 100, 10  # hosts
PAGES, SLOW_PAGES = 8, 5
DEADLINE = 60


class Crawl(Struct, frozen=True):
    """What is known once the job has ended."""

    web: WebProcess
    hits: list[Hit]
    rows: list[dict[str, object]]
    job: Job
    code: int
    founders: list[int]  # process ids
    latecomer: int
    rows_before: int  # it joined


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer) -> Iterator[Crawl]:
    hosts = {f"quick-{n}": HostProfile("fast", pages=PAGES) for n in range(QUICK)}
    # Slower than the interval: without a cap there would be three at once.
    hosts |= {f"slow-{n}": HostProfile("slow", pages=SLOW_PAGES, latency=2.5 / RATE) for n in range(SLOW)}
    store = f"{valkey_server.url}?prefix=fleet-{uuid4().hex}"  # a second try begins anew
    with WebProcess(hosts) as web, Members(tmp_path_factory.mktemp("fleet")) as members:
        fleet = ShoalFleet(members, store, web.start_urls)
        founders = [fleet.worker(number) for number in range(4)]
        until(lambda: at_work(fleet) == 4, "four workers", *founders)  # one that starts late has less to do
        submitted = fleet.submit("--rate", str(RATE), "--per-host", str(PER_HOST))
        until(lambda: len(fleet.rows()) >= QUICK, "some of the pages", submitted, *founders)
        latecomer = fleet.worker(4).pid
        until(lambda: at_work(fleet) == 5, "the fifth worker", submitted, *founders)
        before = len(fleet.rows())
        code = submitted.code(DEADLINE)
        assert code == 0, submitted.words
        yield Crawl(
            web, web.hits(), fleet.rows(), fleet.job(), code, [one.pid for one in founders], latecomer, before
        )


def at_work(fleet: ShoalFleet) -> int:
    return len(fleet.ask(lambda frontier: frontier.workers()))


def test_the_job_ends_by_itself_with_every_page_once(crawl: Crawl) -> None:
    expected = sorted(url for host in crawl.web.spec.hosts for url in crawl.web.pages_of(host))
    assert sorted(str(row["url"]) for row in crawl.rows) == expected
    counters = crawl.job.counters
    assert crawl.job.state == "finished"
    assert (counters.done, counters.items, counters.dead, counters.stale) == (
        len(expected),
        len(expected),
        0,
        0,
    )


def test_every_page_and_one_robots_txt_was_asked_for_once(crawl: Crawl) -> None:
    asked = Counter((hit.host, hit.path) for hit in crawl.hits)
    assert len(asked) == QUICK * (PAGES + 1) + SLOW * (SLOW_PAGES + 1)
    assert set(asked.values()) == {1}


def test_a_host_is_asked_at_its_rate_and_not_four_times_as_often(crawl: Crawl) -> None:
    """robots.txt included."""
    for host, hits in arrivals(crawl.hits).items():
        times = [hit.started for hit in hits]
        assert excess(times, RATE) < 0.3, (host, times)  # of a request, in any span of time


def test_no_host_gets_more_at_once_than_its_cap(crawl: Crawl) -> None:
    peaks = {host: max(hit.concurrent for hit in hits) for host, hits in arrivals(crawl.hits).items()}
    assert max(peaks.values()) <= PER_HOST
    assert all(peaks[f"slow-{n}"] == PER_HOST for n in range(SLOW))  # and what is allowed is used


def test_all_of_them_work(crawl: Crawl) -> None:
    shares = Counter(row["worker"] for row in crawl.rows)
    assert shares.keys() == {*crawl.founders, crawl.latecomer}
    assert min(shares[pid] for pid in crawl.founders) > len(crawl.rows) / 5 * 0.25, shares


def test_a_worker_that_joins_takes_its_share(crawl: Crawl) -> None:
    shares = Counter(row["worker"] for row in crawl.rows)
    assert shares[crawl.latecomer] > (len(crawl.rows) - crawl.rows_before) / 5 * 0.25, shares
