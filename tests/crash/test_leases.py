"""Workers that die, freeze or are killed by a page: the task comes back, and is settled once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
import pytest

from crash.harness import FAST, ROWS, Desk, Process, until
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Claim
from shoal.model import DEFAULT_LANE, Task
from shoal.testing import HostProfile, WebProcess

POISON = """
import os, signal
from shoal import Spider
spider = Spider("poison", start={start!r}, rate=0, per_host={per_host})
@spider.handler
def page(page):
    if page.url.endswith("/p/7"):
        os.kill(os.getpid(), signal.SIGKILL)
    yield {{"url": page.url}}
    yield from page.follow_all("a")
"""


@pytest.fixture
def web() -> Iterator[WebProcess]:
    hosts = {
        "slow": HostProfile("slow", pages=3, latency=60),
        "site": HostProfile("fast", pages=60),
    }
    with WebProcess(hosts) as web:
        yield web


def pending_tasks(desk: Desk, job: str) -> list[Task]:
    """What the next worker would get, handed back untouched."""

    async def look(frontier: Frontier) -> Sequence[Task]:
        await frontier.reap()
        claimed = await frontier.claim(Claim("test", (job,), {DEFAULT_LANE: 100}, 100))
        await frontier.release(claimed.leases)
        return [lease.task for lease in claimed.leases]

    return list(desk.ask(look))


def in_mid_fetch(web: WebProcess, process: Process) -> bool:
    """All three pages have been asked for, and none is answered until the host is told to hurry."""
    assert process.running, process.err
    return web.under_way("slow") == 3


def three_pages(web: WebProcess) -> tuple[str, ...]:
    return ("crawl", *sorted(web.pages_of("slow")), "-o", ROWS, *FAST, "--no-robots")


def test_killed_in_mid_fetch(desk: Desk, web: WebProcess) -> None:
    """One redelivery, and the lost attempt counts."""
    command = three_pages(web)
    process = desk.start(*command)
    until(lambda: in_mid_fetch(web, process), "three pages in flight")
    process.kill()

    tasks = pending_tasks(desk, desk.job().spec.name)
    assert [task.attempt for task in tasks] == [2, 2, 2]
    assert [[failure.kind for failure in task.history] for task in tasks] == [["worker_lost"]] * 3

    web.hurry("slow")
    desk.finish(*command)
    assert desk.urls() == sorted(web.pages_of("slow"))
    hits = Counter(hit.path for hit in web.hits_of("slow"))
    assert hits == {"/p/0": 2, "/p/1": 2, "/p/2": 2}
    assert desk.job().counters.retried == 3


def test_a_worker_that_slept_through_its_lease(desk: Desk, web: WebProcess) -> None:
    command = (*three_pages(web), "-s", "lease=2", "-s", "total_timeout=3")
    sleeper = desk.start(*command)
    until(lambda: in_mid_fetch(web, sleeper) and stopped_between_transactions(desk, sleeper), "a good moment")

    web.hurry("slow")
    desk.finish(*command)
    before = desk.job()
    assert before.state == "finished"
    assert desk.urls() == sorted(web.pages_of("slow"))

    sleeper.thaw()
    assert sleeper.code() == 0, sleeper.err
    late = sleeper.err.count("was settled too late: its lease had been given away")
    dropped = sleeper.err.count("is dropped: its lease could not be renewed in time")
    assert late + dropped == 3, sleeper.err
    after = desk.job()
    assert after.counters.stale == before.counters.stale + late
    assert (after.state, after.counters.done, after.counters.items) == ("finished", 3, 3)
    assert desk.urls() == sorted(web.pages_of("slow"))


def stopped_between_transactions(desk: Desk, process: Process) -> bool:
    """Stops it; if it slept with the store's lock in its hand, wakes it again."""
    process.freeze()
    db = apsw.Connection(str(desk.store))
    try:
        db.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        process.thaw()
        return False
    finally:
        db.close()
    return True


@pytest.mark.parametrize("per_host", [1, 20])
def test_a_page_that_kills_its_worker_every_time(desk: Desk, web: WebProcess, per_host: int) -> None:
    """… takes no other page to the grave, not even those that were in flight beside it."""
    name = desk.file("poison.py", POISON.format(start=web.url("site"), per_host=per_host))
    desk.finish("crawl", name, "-o", ROWS, "--processes", "2", "-s", "max_attempts=3")
    check_only_the_poison_died(desk, web)


def test_a_page_that_kills_a_lone_process_every_time(desk: Desk, web: WebProcess) -> None:
    """One command gets through all the same: its guardian starts the process again."""
    name = desk.file("poison.py", POISON.format(start=web.url("site"), per_host=20))
    process = desk.finish("crawl", name, "-o", ROWS, "-s", "max_attempts=3")
    assert process.err.count("died (exit -9), starting it again") == 3
    check_only_the_poison_died(desk, web)


def check_only_the_poison_died(desk: Desk, web: WebProcess) -> None:
    (letter,) = desk.dead()
    assert (letter["url"], letter["kind"]) == (web.url("site", "/p/7"), "worker_lost")
    assert [attempt["attempt"] for attempt in letter["attempts"]] == [1, 2, 3]
    assert desk.urls() == sorted(web.pages_of("site") - {web.url("site", "/p/7")})
