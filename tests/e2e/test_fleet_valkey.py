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

from crash.harness import fork
from lateness import Lateness
from shoal.frontier.values import Job
from shoal.testing import Hit, HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

RATE, PER_HOST = 0.8, 2
QUICK, SLOW = 50, 5  # hosts: so few that the processor is not what they share
PAGES, SLOW_PAGES = 8, 5
DEADLINE = 180


class Crawl(Struct, frozen=True):
    """What is known once the job has ended."""

    web: WebProcess
    hits: list[Hit]
    rows: list[dict[str, object]]
    job: Job
    code: int
    founders: list[int]  # process ids
    latecomer: int
    late: float  # seconds that the machine was late at most


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer) -> Iterator[Crawl]:
    hosts = {f"quick-{n}": HostProfile("fast", pages=PAGES) for n in range(QUICK)}
    # Slower than the interval: without a cap there would be three at once.
    hosts |= {f"slow-{n}": HostProfile("slow", pages=SLOW_PAGES, latency=2.5 / RATE) for n in range(SLOW)}
    store = f"{valkey_server.url}?prefix=fleet-{uuid4().hex}"  # a second try begins anew
    with (
        WebProcess(hosts) as web,
        Members(tmp_path_factory.mktemp("fleet"), fork) as members,
        Lateness() as late,
    ):
        fleet = ShoalFleet(members, store, web.start_urls)
        founders = [fleet.worker(number) for number in range(4)]
        until(lambda: at_work(fleet) == 4, "four workers", *founders)  # one that starts late has less to do
        # A server that pauses for seconds is not asked again.
        limits = ("--rate", str(RATE), "--per-host", str(PER_HOST), "-s", "min_timeout=30")
        submitted = fleet.submit(*limits)
        until(lambda: len(fleet.rows()) >= QUICK, "some of the pages", submitted, *founders)
        latecomer = fleet.worker(4).pid
        until(lambda: at_work(fleet) == 5, "the fifth worker", submitted, *founders)
        code = submitted.code(DEADLINE)
        assert code == 0, submitted.words
        pids = [one.pid for one in founders]
        yield Crawl(web, web.hits(), fleet.rows(), fleet.job(), code, pids, latecomer, late.seconds)


def at_work(fleet: ShoalFleet) -> int:
    return len(fleet.ask(lambda frontier: frontier.workers()))


def test_five_workers_treat_hosts_as_one_would(crawl: Crawl) -> None:
    """One test, for the crawl takes half a minute and would be made again wherever another one runs."""
    check_that_the_job_ended_with_every_page_once(crawl)
    check_that_every_page_and_one_robots_txt_was_asked_for_once(crawl)
    check_that_hosts_are_asked_at_their_rate_and_not_four_times_as_often(crawl)
    check_that_no_host_gets_more_at_once_than_its_cap(crawl)
    check_that_all_of_them_work(crawl)


def check_that_the_job_ended_with_every_page_once(crawl: Crawl) -> None:
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


def check_that_every_page_and_one_robots_txt_was_asked_for_once(crawl: Crawl) -> None:
    asked = Counter((hit.host, hit.path) for hit in crawl.hits)
    assert len(asked) == QUICK * (PAGES + 1) + SLOW * (SLOW_PAGES + 1)
    assert set(asked.values()) == {1}


def check_that_hosts_are_asked_at_their_rate_and_not_four_times_as_often(crawl: Crawl) -> None:
    """robots.txt included."""
    for host, hits in arrivals(crawl.hits).items():
        times = [hit.started for hit in hits]
        # As many as are under way may be noted late, for worker and server may pause, of which ours need not know. Two
        # workers that knew nothing of each other would send four too many, four of them six.
        assert excess(times, RATE) < PER_HOST + 1 + 2 * RATE * crawl.late, (host, times)


def check_that_no_host_gets_more_at_once_than_its_cap(crawl: Crawl) -> None:
    peaks = {host: max(hit.concurrent for hit in hits) for host, hits in arrivals(crawl.hits).items()}
    assert max(peaks.values()) <= PER_HOST
    assert all(peaks[f"slow-{n}"] == PER_HOST for n in range(SLOW))  # and what is allowed is used


def check_that_all_of_them_work(crawl: Crawl) -> None:
    """Also the one that joined. How much each does is for the machine to say: pages go to whoever is there first."""
    assert {row["worker"] for row in crawl.rows} == {*crawl.founders, crawl.latecomer}
