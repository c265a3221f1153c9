"""SIGTERM and Ctrl-C: pages in flight are finished or handed back unharmed, and the exit code is 0."""

from __future__ import annotations

import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from crash.harness import FAST, ROWS, UNHURRIED, Desk, Process, alive, until
from shoal.engine.guardian import COMMANDS, SWITCH
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Claim
from shoal.model import DEFAULT_LANE
from shoal.testing import HostProfile, WebProcess

PAGES = 60
# Longer than anything is waited for here: whoever ends sooner was told to.
PATIENT = ("-s", "first_timeout=300", "-s", "total_timeout=300", "-s", "read_timeout=300")
HANGING = ("crawl", "-o", ROWS, *FAST, "--no-robots", *PATIENT)
both = pytest.mark.parametrize("processes", ["1", "2"])


@pytest.fixture
def web() -> Iterator[WebProcess]:
    hosts = {
        "slow": HostProfile("slow", pages=PAGES, links=12, latency=0.4),
        "hanging": HostProfile("hanging", pages=1),
    }
    with WebProcess(hosts) as web:
        yield web


def wait_for_leases(desk: Desk, process: Process, count: int) -> None:
    """Until so many pages are in flight."""

    def holds() -> bool:
        assert process.running, process.err
        jobs = desk.ask(lambda frontier: frontier.jobs()) if desk.store.exists() else ()
        return any(job.counters.leased == count for job in jobs)

    until(holds, f"{count} pages in flight")


@pytest.mark.parametrize(
    ("number", "processes"), [(signal.SIGTERM, "1"), (signal.SIGTERM, "2"), (signal.SIGINT, "1")]
)
def test_pages_in_flight_are_finished(
    desk: Desk, web: WebProcess, number: signal.Signals, processes: str
) -> None:
    command = (
        *("crawl", web.url("slow"), "-o", ROWS, "--rate", "0", "--no-robots", "--processes", processes),
        *("-s", "min_timeout=30"),  # on a busy machine no page is out of its time, and fetched again
    )
    process = desk.start(*command, "--per-host", "3")  # three at once: it would take eight seconds
    wait_for_leases(desk, process, 3)
    process.signal(number)
    assert process.code() == 0, process.err
    assert "run the same command again to go on" in process.err
    counters = desk.job().counters
    assert (counters.leased, counters.retried) == (0, 0)
    assert counters.done >= 4  # the first page and the three in flight; more, if the signal came late
    assert len(desk.rows()) == counters.done

    desk.finish(*command, "--per-host", str(PAGES))
    assert desk.urls() == sorted(web.pages_of("slow"))
    assert set(Counter(hit.path for hit in web.hits_of("slow")).values()) == {1}, "a page was fetched twice"


@both
def test_what_does_not_end_within_the_grace_is_handed_back(
    desk: Desk, web: WebProcess, processes: str
) -> None:
    command = (*HANGING, web.url("hanging"), "-s", "grace=0.5")
    process = desk.start(*command, "--processes", processes, program=UNHURRIED)
    wait_for_leases(desk, process, 1)
    process.signal(signal.SIGTERM)
    assert process.code() == 0, process.err  # sooner than the page is given up
    check_handed_back(desk)


@both
def test_the_second_signal_forces(desk: Desk, web: WebProcess, processes: str) -> None:
    command = (*HANGING, web.url("hanging"), "-s", "grace=300")
    process = desk.start(*command, "--processes", processes, program=UNHURRIED)
    wait_for_leases(desk, process, 1)
    children = process.children()
    process.signal(signal.SIGINT)
    until(lambda: "once more to hand them back at once" in process.err, "the answer to the first signal")
    process.signal(signal.SIGINT)
    assert process.code() == 0, process.err  # sooner than the grace is over
    assert not any(alive(pid) for pid in children)
    check_handed_back(desk)


def check_handed_back(desk: Desk) -> None:
    """The page is pending, and whoever claims it next makes the first attempt."""
    job = desk.job()
    assert (job.counters.pending, job.counters.leased, job.counters.retried) == (1, 0, 0)

    async def claim(frontier: Frontier) -> int:
        claimed = await frontier.claim(Claim("test", (job.spec.name,), {DEFAULT_LANE: 1}, 1))
        return claimed.leases[0].task.attempt

    assert desk.ask(claim) == 1


SPIDER = """
from shoal import Spider

spider = Spider("one", "http://127.0.0.1:9/")
spider.add_handler(lambda page: None, name="page")
"""
SERVICES = [
    ("worker", "spider.py"),
    ("coordinator", "spider.py"),
    ("up", "spider.py", "-n", "1"),
    ("dashboard",),
]


@pytest.mark.parametrize("guardian", ["1", "0"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", SERVICES, ids=lambda words: words[0])
def test_who_waits_for_its_store_stops_like_any_other(
    desk: Desk, command: tuple[str, ...], number: signal.Signals, guardian: str
) -> None:
    # Commands get none of our own switches: this one sets it for itself.
    code = f"import os; os.environ[{SWITCH!r}] = {guardian!r}; from shoal.cli import main; main()"
    desk.file("spider.py", SPIDER)
    process = desk.start(*command, "--store", "redis://127.0.0.1:9", program=(sys.executable, "-c", code))
    until(lambda: "waiting for it" in process.err, "a worker that waits")
    assert (process.worker != process.pid) is (guardian == "1" and command[0] in COMMANDS)
    process.signal(number)
    assert process.code() == 0, process.err
    assert "Traceback" not in process.err


def test_who_is_interrupted_before_its_job_is_in_the_store_is_not_told_that_it_goes_on(desk: Desk) -> None:
    desk.file("spider.py", SPIDER)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        store = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        process = desk.start("submit", "spider.py", "--store", store, "-o", ROWS)
        with silent.accept()[0]:
            process.signal(signal.SIGINT)
            assert process.code() == 130, process.err
    assert "stopped before job one was in the store: run the same command again" in process.err


@both
def test_a_parquet_file_is_there_when_a_crawl_is_stopped(desk: Desk, web: WebProcess, processes: str) -> None:
    command = ("crawl", web.url("slow"), "-o", "rows.parquet", "--rate", "0", "--no-robots")
    process = desk.start(*command, "--processes", processes, "--per-host", "3")
    wait_for_leases(desk, process, 3)
    process.signal(signal.SIGINT)
    assert process.code() == 0, process.err
    rows = pq.read_table(desk.folder / "rows.parquet").column("url").to_pylist()
    assert len(rows) == len(set(rows)) == desk.job().counters.items
