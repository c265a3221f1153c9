"""kill -9 of workers and of whoever coordinates: the job ends by itself, with exactly one row a page."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator

import pytest

from crash.fleet import SQLITE, Fleet
from crash.harness import Desk, Process, until
from lateness import Lateness
from shoal.frontier.values import FLIGHTS_SEEN, Flight
from shoal.jobs.leader import KEY, Term, feeder_key, leader
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

STARTS = 1_200
PAGES = 500
LAZY = 240  # more than the other does while the one that was stopped is looked at
TERM = 2.0  # seconds
LONG_TERM = 10.0  # longer than a busy machine holds up a worker that lives


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {
        "list": HostProfile("fast", pages=STARTS, links=0, body_bytes=100),
        "site": HostProfile("slow", pages=PAGES, links=8, latency=0.02),
        "lazy": HostProfile("slow", pages=LAZY, links=8, latency=0.3),
    }
    with WebProcess(hosts) as web:
        yield web


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest) -> str:
    return SQLITE if request.param == "sqlite" else str(request.getfixturevalue("valkey").url)


@pytest.fixture
def fleet(desk: Desk, store: str) -> Fleet:
    return Fleet(desk, store)


def term_of(fleet: Fleet, key: str) -> Term:
    term: Term = until(lambda: fleet.ask(lambda frontier: leader(frontier, key)), f"a {key}")
    return term


def who_leads(fleet: Fleet, processes: list[Process]) -> Process:
    return holder_of(term_of(fleet, KEY), processes)


def holder_of(term: Term, processes: list[Process]) -> Process:
    """Its name begins with its process number."""
    [found] = [process for process in processes if term.holder.startswith(f"{process.worker}-")]
    return found


def test_another_goes_on_feeding_where_the_killed_one_stopped(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(*(web.url("list", f"/p/{n}") for n in range(STARTS)))
    # The rate leaves those who look on a busy machine some seconds before all is fed.
    fleet.submit("-s", "high_water=100", "--depth", "0", "-s", "rate=250")
    coordinators = [fleet.coordinator("-s", f"lease={TERM}") for _ in range(2)]
    worker = fleet.worker("--no-coordinator", "-s", "settle_delay=0")
    key = feeder_key("site")
    for share in (0.1, 0.3):
        fed = fleet.reaches(lambda job: job.fed >= share * STARTS, "part of the list")  # noqa: B023
        assert not fed.fed_all
        term = term_of(fleet, key)  # one look for both: the next may be at another's term
        victim, before = holder_of(term, coordinators), term.number
        victim.kill()
        with Lateness() as late:
            killed = time.monotonic()  # only now: to see all its processes end takes a busy machine seconds
            until(lambda: term_of(fleet, key).number > before, "another to feed")  # noqa: B023
        assert time.monotonic() - killed < TERM + 1.5 + late.stalled
        coordinators.remove(victim)
        coordinators.append(fleet.coordinator("-s", f"lease={TERM}"))
    job = fleet.finishes()
    assert (job.counters.admitted, job.counters.done, job.fed) == (STARTS, STARTS, STARTS)
    assert fleet.urls() == sorted(web.url("list", f"/p/{n}") for n in range(STARTS))
    assert worker.running, worker.err


def test_workers_are_killed_at_random_moments(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("site"))
    fleet.submit("-s", f"total_timeout={LONG_TERM}")
    before = len(web.hits_of("site"))
    options = ("--concurrency", "8", "-s", f"lease={LONG_TERM}")
    workers = [fleet.worker(*options) for _ in range(3)]
    rng = random.Random(7)
    for share in (0.1, 0.3, 0.5, 0.7):
        fleet.reaches(lambda job: job.counters.done >= share * PAGES, "some pages")  # noqa: B023
        victim = rng.randrange(len(workers))
        workers[victim].kill()
        workers[victim] = fleet.worker(*options)
    job = fleet.finishes()
    assert (job.counters.done, job.counters.dead, job.counters.open) == (PAGES, 0, 0)
    assert fleet.urls() == sorted(web.pages_of("site"))
    assert job.counts == {"pages": PAGES}
    assert len(web.hits_of("site")) - before - PAGES <= 4 * 8, "only what was in flight was fetched again"


def test_a_worker_that_was_stopped_past_its_lease_settles_nothing(
    desk: Desk, valkey: ValkeyServer, web: WebProcess
) -> None:
    """Asleep, it leads and holds pages; when it wakes up, both have passed to others. (Not on SQLite, where it would
    sleep with the lock on the file.)"""
    fleet = Fleet(desk, valkey.url)
    fleet.start_at(web.url("lazy"))
    fleet.submit("-s", f"total_timeout={TERM}")
    # Its leases are short, so that they run out soon. Those of the other are not: on a busy machine pages would run out
    # of leases, and so of attempts, that nobody has taken from it.
    sleeper = fleet.worker("-s", f"lease={TERM}", "--concurrency", "6")
    fleet.reaches(lambda job: job.counters.done and job.counters.leased >= 4, "some pages in flight")
    assert who_leads(fleet, [sleeper]) is sleeper
    sleeper.freeze()
    held = len(flights(fleet, sleeper))
    other = fleet.worker("--concurrency", "6")
    until(lambda: who_leads(fleet, [sleeper, other]) is other, "the other to lead")
    until(lambda: not flights(fleet, sleeper), "the leases to run out")
    sleeper.signal(signal.SIGTERM)  # it hears of it when it wakes: and claims no more
    sleeper.thaw()
    assert sleeper.code() == 0, sleeper.err
    job = fleet.finishes()
    assert (job.counters.done, job.counters.dead) == (LAZY, 0)
    assert fleet.urls() == sorted(web.pages_of("lazy"))
    dropped = sleeper.err.count("is dropped: its lease could not be renewed in time")
    # What it had claimed and not begun goes back without a word.
    assert 0 < dropped + sleeper.err.count("settled too late") <= held, sleeper.err
    other.signal(signal.SIGTERM)
    assert other.code() == 0, other.err


def flights(fleet: Fleet, worker: Process) -> list[Flight]:
    """Its pages in hand."""
    found = fleet.ask(lambda frontier: frontier.flights(FLIGHTS_SEEN))
    return [flight for flight in found if flight.worker.startswith(f"{worker.worker}-")]
