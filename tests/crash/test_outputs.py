"""Result files of a fleet: one job a file, and nothing that a file held before is ever lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crash.fleet import SQLITE, Fleet
from crash.harness import Desk, Process, until
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import OWN_START, JobSpec
from shoal.jobs.note import write_note
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess

PAGES = 25
SAME = "rows.jsonl"
PRECIOUS = b'{"precious": true}\n'


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=PAGES)}) as web:
        yield web


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest) -> str:
    return SQLITE if request.param == "sqlite" else str(request.getfixturevalue("valkey").url)


@pytest.fixture
def fleet(desk: Desk, store: str, web: WebProcess) -> Fleet:
    fleet = Fleet(desk, store)
    fleet.start_at(web.url("site"))
    return fleet


def submitting(fleet: Fleet, job: str, *options: str) -> Process:
    command = ("submit", "site.py", "--store", fleet.store, "-j", job, "-o", SAME)
    return fleet.desk.start(*command, *options)


def trouble_of(fleet: Fleet, job: str) -> str:
    [found] = [one for one in fleet.sight()["jobs"] if one["job"] == job]
    assert found["state"] == "paused" or not found["trouble"]
    return found["trouble"] or ""


def states(fleet: Fleet) -> dict[str, str]:
    return {name: fleet.job(name).state for name in ("one", "two")}


def one_line(process: Process) -> str:
    assert process.code() == 3, process.err
    [line] = process.err.splitlines()
    return line


def test_a_second_job_with_the_same_file_is_refused(fleet: Fleet, web: WebProcess) -> None:
    fleet.submit("-o", SAME, job="one")
    line = one_line(submitting(fleet, "two", "--fresh"))
    assert line.startswith("shoal: job one, which is not finished, writes to ")
    assert "rows.jsonl: choose another file with -o, or end that job with shoal cancel one" in line
    assert fleet.ask(lambda frontier: frontier.job("two")) is None
    fleet.submit("-o", SAME, job="one")  # the same command again is no second job
    assert fleet.worker("--until-done").code() == 0
    assert fleet.urls("rows") == sorted(web.pages_of("site"))


def test_of_submits_in_the_same_moment_one_is_taken(fleet: Fleet) -> None:
    processes = {job: submitting(fleet, job) for job in ("one", "two", "three")}
    codes = {job: process.code() for job, process in processes.items()}
    assert sorted(codes.values()) == [0, 3, 3], [process.err for process in processes.values()]
    [taken] = [job for job, code in codes.items() if code == 0]
    for job, process in processes.items():
        if job != taken:
            assert "rows.jsonl" in one_line(process)
            assert fleet.ask(lambda frontier, job=job: frontier.job(job)) is None  # type: ignore[misc]


def test_jobs_that_got_past_that_do_not_erase_each_others_rows(fleet: Fleet, web: WebProcess) -> None:
    """Two jobs made in the store itself, and two workers that open them at the same time."""
    output = SAME if "://" in fleet.store else str(fleet.desk.folder / SAME)
    note = write_note(
        output.encode(), Settings(rate=0, per_host=20, robots=False, trust_start=True), "coordinator"
    )

    async def make(frontier: Frontier) -> None:
        for name in ("one", "two"):
            await frontier.open_job(JobSpec(name, spider="site", settings=note), OWN_START)

    fleet.ask(make)
    workers = [fleet.worker(), fleet.worker()]
    until(
        lambda: sorted(states(fleet).values()) == ["finished", "paused"],
        "one job to finish and the other to be paused",
    )
    found = {state: name for name, state in states(fleet).items()}
    loser, winner = found["paused"], found["finished"]
    trouble = trouble_of(fleet, loser)
    assert f"belongs to another job, '{winner}'" in trouble
    assert "choose another file with -o, or move it away" in trouble
    assert fleet.urls("rows") == sorted(web.pages_of("site"))
    assert fleet.job(loser).counters.items == 0
    assert all(worker.running for worker in workers)


def test_a_foreign_file_is_left_alone_and_other_jobs_go_on(fleet: Fleet, web: WebProcess) -> None:
    path = fleet.desk.folder / SAME
    path.write_bytes(PRECIOUS)
    submitted = submitting(fleet, "bad")
    if "://" in fleet.store:  # the file is where the worker is
        assert submitted.code() == 0, submitted.err
    else:
        assert "rows.jsonl already holds 19 bytes, and not from this job" in one_line(submitted)
    fleet.submit(job="good")
    worker = fleet.worker()
    fleet.finishes("good")
    assert fleet.urls("good") == sorted(web.pages_of("site"))
    if "://" in fleet.store:
        fleet.reaches(lambda job: job.state == "paused", "the job to be paused", "bad")
        assert "rows.jsonl is not from this job, and holds 19 bytes" in trouble_of(fleet, "bad")
        assert path.read_bytes() == PRECIOUS
        path.rename(path.with_name("saved"))
        fleet.run("resume", "bad")
        fleet.finishes("bad")
        assert fleet.urls("rows") == sorted(web.pages_of("site"))
    else:
        assert path.read_bytes() == PRECIOUS
    assert worker.running


def test_started_again_a_job_moves_aside_what_it_wrote_before(
    desk: Desk, valkey: object, web: WebProcess
) -> None:
    fleet = Fleet(desk, str(valkey.url))  # type: ignore[attr-defined]
    fleet.start_at(web.url("site"))
    for options in ((), ("--fresh",)):
        fleet.submit(*options)
        assert fleet.worker("--until-done").code() == 0
    assert fleet.urls() == sorted(web.pages_of("site"))
    assert (desk.folder / "site.jsonl.1").read_bytes().count(b"\n") == PAGES
