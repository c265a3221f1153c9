"""A fleet by its commands: submit, worker, up, jobs, pause, resume, cancel, schedules; on every store."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from crash.fleet import SPIDER, SQLITE, Fleet
from crash.harness import Desk, alive, until
from lateness import Lateness
from shoal.jobs.worker_status import status_of
from shoal.testing import HostProfile, WebProcess

PAGES = 40
HOSTS = ("a", "b", "c")


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {name: HostProfile("slow", pages=PAGES, links=6, latency=0.01) for name in HOSTS}
    hosts["crawling"] = HostProfile("slow", pages=120, links=12, latency=0.15)
    with WebProcess(hosts) as web:
        yield web


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest) -> str:
    return SQLITE if request.param == "sqlite" else str(request.getfixturevalue("valkey").url)


@pytest.fixture
def fleet(tmp_path: Path, store: str) -> Iterator[Fleet]:
    with Desk(tmp_path) as desk:
        yield Fleet(desk, store)


def everything(web: WebProcess) -> list[str]:
    return sorted(url for host in HOSTS for url in web.pages_of(host))


def test_a_submitted_job_is_fed_worked_on_and_finished(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(*(web.url(host) for host in HOSTS))
    said = fleet.submit().err
    assert "job site is in" in said
    assert "next: shoal" in said
    ended = fleet.worker("--until-done")
    assert ended.code() == 0, ended.err
    assert fleet.job().state == "finished"
    assert fleet.urls() == everything(web)
    again = fleet.submit().err
    assert "job site is finished after" in again
    assert f"{3 * PAGES} pages, {3 * PAGES} rows" in again


def test_workers_share_the_load_and_a_job_that_comes_later_is_begun_at_once(
    fleet: Fleet, web: WebProcess
) -> None:
    fleet.start_at(web.url("crawling"))
    workers = [fleet.worker("--concurrency", "4") for _ in range(2)]
    until(lambda: len(fleet.ask(lambda frontier: frontier.workers())) == 2, "both workers")
    fleet.submit()
    with Lateness() as late:
        began = time.monotonic()  # only now: to submit takes a busy machine seconds
        fleet.reaches(lambda job: job.counters.done, "the first page")
    assert time.monotonic() - began < 4.0 + late.stalled
    until(lambda: sum("site" in one["rates"] for one in seen(fleet)) == 2, "both workers to have done pages")
    for worker in workers:
        worker.signal(signal.SIGTERM)
    for worker in workers:
        assert worker.code() == 0, worker.err
    counters = fleet.job().counters
    assert counters.leased == 0
    assert len(fleet.urls()) == counters.done


def seen(fleet: Fleet) -> list[dict[str, object]]:
    records = fleet.ask(lambda frontier: frontier.workers())
    return [{"rates": status_of(record).rates} for record in records]


def test_pause_resume_and_cancel(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("crawling"))
    fleet.submit("--rate", "4")  # half a minute of work: it is paused and cancelled before its end
    worker = fleet.worker()
    fleet.reaches(lambda job: job.counters.done >= 3, "some pages")
    assert fleet.run("pause", "site").code() == 0
    paused = fleet.reaches(lambda job: not job.counters.leased, "what is in flight to end")
    assert fleet.run("pause", "site").err.strip() == "shoal: job site is paused already"
    assert fleet.job().counters.done == paused.counters.done
    assert fleet.run("resume", "site").err.strip() == "job site goes on"
    fleet.reaches(lambda job: job.counters.done > paused.counters.done, "more pages")
    assert "job site is cancelled" in fleet.run("cancel", "site").err
    left = fleet.reaches(lambda job: not job.counters.leased, "what is in flight to end")
    assert (left.state, bool(left.counters.pending)) == ("cancelled", True)
    assert len(fleet.urls()) == left.counters.done
    refused = fleet.run("resume", "site")
    assert (refused.code(), "submit it again to go on" in refused.err) == (2, True)
    fleet.submit("--rate", "0")
    fleet.finishes()
    assert fleet.urls() == sorted(web.pages_of("crawling"))
    worker.signal(signal.SIGTERM)
    assert worker.code() == 0, worker.err
    assert "job site is forgotten" in fleet.run("cancel", "site", "--forget").err
    assert fleet.ask(lambda frontier: frontier.jobs()) == []


def test_waiting_shows_progress_and_ends_with_the_job(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("a"))
    worker = fleet.worker()
    said = fleet.submit("--wait").err
    assert "pages, " in said
    assert f"{PAGES} pages, {PAGES} rows" in said
    worker.signal(signal.SIGINT)
    assert worker.code() == 0, worker.err


def test_urls_are_submitted_with_and_without_a_spider(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("c"))
    fleet.desk.file("more.txt", web.url("b") + "\n# a comment\n")
    fleet.submit(web.url("a"), "-i", "more.txt", "--depth", "0", job="given")
    command = (
        "submit",
        web.url("a"),
        "--store",
        fleet.store,
        "-j",
        "plain",
        "-o",
        "plain.jsonl",
        "--depth",
        "0",
    )
    fleet.desk.finish(*command, "--no-robots")
    assert fleet.worker("--until-done").code() == 0
    assert fleet.urls("given") == sorted([web.url("a"), web.url("b")])
    assert fleet.urls("plain") == [web.url("a")]


def test_a_recurring_job_runs_again_and_never_twice_at_once(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("a"))
    said = fleet.submit("--every", "1s", "-o", "again.jsonl", "--depth", "0", job="again").err
    assert "schedule again: runs every 1s" in said
    worker = fleet.worker()

    def finished() -> int:
        jobs = fleet.ask(lambda frontier: frontier.jobs())
        return sum(job.state == "finished" for job in jobs) >= 3

    until(finished, "three runs")
    assert "schedule again is taken back" in fleet.run("cancel", "again").err
    worker.signal(signal.SIGTERM)
    assert worker.code() == 0, worker.err
    runs = sorted(fleet.ask(lambda frontier: frontier.jobs()), key=lambda job: job.created_at)
    done = [job for job in runs if job.state == "finished"]
    assert all(job.spec.name.startswith("again-20") for job in runs)
    assert all(first.finished_at <= second.created_at for first, second in pairwise(done))
    assert all(fleet.urls(job.spec.name) == [web.url("a")] for job in done)


def test_rows_of_all_workers_go_to_one_database(fleet: Fleet, web: WebProcess, postgres: str) -> None:
    fleet.start_at(*(web.url(host) for host in HOSTS))
    said = fleet.submit("-o", postgres, job="site").err
    assert "rows go to postgresql://" in said
    assert "shoal@" not in said
    options = ("--until-done", "--concurrency", "8", "-s", f"outputs={postgres}")
    workers = [fleet.worker(*options) for _ in range(2)]
    assert [worker.code() for worker in workers] == [0, 0], [worker.err for worker in workers]
    assert fleet.job().counters.items == 3 * PAGES

    async def rows() -> list[str]:
        connection = await asyncpg.connect(postgres)
        try:
            tables = ("page", "page_of")
            found = [await connection.fetch(f"SELECT * FROM {table}") for table in tables]
        finally:
            await connection.close()
        return sorted(row["url"] for part in found for row in part)

    assert asyncio.run(rows()) == everything(web)


def test_a_job_is_fed_though_the_leader_does_not_have_its_spider(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("a"))
    fleet.desk.file("other.py", SPIDER.replace('"site"', '"other"'))
    leading = fleet.desk.start("worker", "other.py", "--store", fleet.store)
    until(lambda: "coordinates from now on" in leading.err, "the worker without the spider to lead")
    fleet.submit()
    worker = fleet.worker("--until-done")
    assert worker.code() == 0, worker.err
    assert fleet.urls() == sorted(web.pages_of("a"))
    assert "coordinates from now on" not in worker.err


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_up_keeps_workers_running(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("crawling"))
    fleet.submit("--rate", "30", "-s", "total_timeout=3")
    command = ("up", "site.py", "-n", "2", "--store", fleet.store, "-s", "lease=3")
    up = fleet.desk.start(*command)
    fleet.reaches(lambda job: job.counters.done >= 5, "some pages")
    victim = until(lambda: up.children(), "children")[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: "died (exit -9), starting it again" in up.err, "the death to be noticed")
    until(lambda: len(up.children()) == 2 and victim not in up.children(), "another in its place")
    family = up.children()
    up.signal(signal.SIGINT)
    assert up.code() == 0, up.err
    assert not any(alive(pid) for pid in family)
    fleet.ask(lambda frontier: frontier.reap())
    assert fleet.job().counters.leased == 0, "all was settled or handed back"
    finish = fleet.desk.start(*command, "--until-done")
    assert finish.code() == 0, finish.err
    assert "(finished)" in finish.err
    assert fleet.urls() == sorted(web.pages_of("crawling"))


def test_the_table_of_jobs(fleet: Fleet, web: WebProcess) -> None:
    fleet.start_at(web.url("a"))
    fleet.submit("--priority", "5")
    shown = fleet.desk.finish("status", "--store", fleet.store).out
    assert "running" in shown
    assert "priority" in shown
    assert "no worker is running" in shown
    sight = fleet.sight()
    [job] = sight["jobs"]
    assert (job["job"], job["priority"], job["state"], job["eta"]) == ("site", 5, "running", None)
    assert sight["workers"] == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("worker", "missing.py"), "no such file: missing.py"),
        (("worker", "site.py", "-s", "concurrency=0"), "concurrency must be a whole number, at least 1"),
        (("worker", "empty"), "no spider in empty"),
        (("up", "site.py", "-n", "0"), "-n 0: at least 1"),
        (("submit",), "nothing to crawl"),
        (("submit", "site.py", "--every", "soon"), "is not a time"),
        (("submit", "site.py", "--cron", "* *"), "has 2 fields"),
        (("submit", "site.py", "--every", "1h", "--wait"), "give one of"),
        (("submit", "site.py", "-o", "-"), "cannot go to standard output"),
        (("pause", "nothing"), "no job or schedule 'nothing'"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, argv: tuple[str, ...], said: str) -> None:
    with Desk(tmp_path) as desk:
        fleet = Fleet(desk, SQLITE)
        fleet.start_at("http://a.test/")
        (tmp_path / "empty").mkdir()
        if argv[0] == "pause":
            fleet.submit()
        ended = desk.run(*argv)
        assert ended.code() in (2, 3)
        assert said in ended.err
        assert ended.err.count("\n") == 1
