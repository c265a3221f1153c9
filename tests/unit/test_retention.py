"""Which jobs are pruned, by whom, and what is said of them afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import shoal
from shoal.cli import run
from shoal.errors import OutputTaken
from shoal.frontier import open_frontier
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Counters, Cursor, DeadFilter, Job, JobSpec
from shoal.inspect.event_log import read_events
from shoal.inspect.job import unknown_job
from shoal.inspect.retention import (
    DAY,
    Retention,
    find_outdated,
    forget_notes,
    outdated,
    prune,
    prune_letters,
    retention_of,
    tidying,
)
from shoal.jobs.schedule import Schedule
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Dead, Failure
from shoal.runtime.coordinator import Coordinator
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.changing_site import later
from shoal.testing.conformance.tools import claim, make_task, settle, spec
from shoal.testing.manual_clock import ManualClock

NOW = 1_000 * DAY


def ended(name: str, days: float, *, dead: int = 0, **fields: object) -> Job:
    """A job that ended so many days ago."""
    job = Job(
        JobSpec(name), "finished", Counters(dead=dead), NOW - days * DAY - 60, NOW - days * DAY, fed_all=True
    )
    return replace(job, **fields)


def names(jobs: list[Job]) -> list[str]:
    return [job.spec.name for job in jobs]


def test_too_many_or_too_old() -> None:
    jobs = [ended(f"j{days}", days) for days in (1, 50, 2, 3, 31)]
    assert names(outdated(jobs, Retention(), {}, NOW)) == []
    assert names(outdated(jobs, Retention(jobs=3), {}, NOW)) == ["j50", "j31"]
    assert names(outdated(jobs, Retention(jobs=0), {}, NOW)) == ["j50", "j31", "j3", "j2", "j1"]
    assert names(outdated(jobs, Retention(age=30 * DAY), {}, NOW)) == ["j50", "j31"]
    assert names(outdated(jobs, Retention(jobs=4, age=40 * DAY), {}, NOW)) == ["j50"]


def test_jobs_with_dead_letters_are_kept_for_longer() -> None:
    jobs = [ended(f"j{days}", days, dead=days % 2) for days in (1, 40, 41, 99)]
    by_default = retention_of(Settings())
    assert names(outdated(jobs, by_default, {}, NOW)) == ["j99", "j40"]
    assert names(outdated(jobs, retention_of(Settings(keep_dead_days=0)), {}, NOW)) == ["j40"]
    assert names(outdated(jobs, Retention(dead_jobs=1), {}, NOW)) == ["j99", "j41"]


def test_only_jobs_that_have_ended_go() -> None:
    jobs = [
        ended("runs", 400, state="running"),
        ended("paused", 400, state="paused"),
        ended("cancelled", 400, state="cancelled", counters=Counters(pending=7)),
        ended("about to run", 400, counters=Counters(pending=7)),
    ]
    assert names(outdated(jobs, Retention(jobs=0, dead_jobs=0), {}, NOW)) == ["cancelled"]


def test_runs_of_a_schedule_go_by_its_own_number() -> None:
    runs = [ended(f"hourly-202611{day}-1200", 60 - day) for day in (10, 11, 12, 13)]
    hourly = Schedule(JobSpec("hourly"), next_at=NOW, every=3600, keep=3)
    old = outdated([*runs, ended("other", 60)], Retention(jobs=0, age=1), {"hourly": hourly}, NOW)
    assert names(old) == ["other", "hourly-20261110-1200"]
    assert names(outdated(runs, Retention(jobs=2), {}, NOW)) == names(runs)[:2], "the schedule was taken back"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def frontier(clock: ManualClock) -> AsyncIterator[MemoryFrontier]:
    async with MemoryFrontier(clock) as frontier:
        for name in ("one", "two"):
            await frontier.open_job(spec(name))
            await frontier.set_note(f"history:{name}", b"", 0)
            await frontier.set_note(f"feeder/{name}", b"x", 0)
            await frontier.set_state(name, "cancelled")
        yield frontier


async def test_not_while_a_worker_serves_it(frontier: MemoryFrontier) -> None:
    everything = Retention(jobs=0, dead_jobs=0)
    assert names(await find_outdated(frontier, everything, spared={"one"})) == ["two"]
    await frontier.extend("w", 60, encode_status(WorkerStatus(jobs=("two",))))
    assert names(await find_outdated(frontier, everything)) == ["one"]


async def test_notes_go_with_the_job_and_a_person_is_told(frontier: MemoryFrontier) -> None:
    gone = await prune(frontier, await frontier.jobs())
    assert names(gone) == ["one", "two"]
    for name in ("one", "two"):
        assert await frontier.note(f"history:{name}") is None
        assert await frontier.note(f"feeder/{name}") is None
    said = str(await unknown_job(frontier, "one"))
    assert said.startswith(
        "job one was pruned 0.0 s ago, and only its counters and a short report are left: shoal"
    )
    assert str(await unknown_job(frontier, "three")) == "no job 'three' in this store; there is: none"
    await forget_notes(frontier, "never there")


async def test_there_is_an_end_to_the_time_it_takes(frontier: MemoryFrontier) -> None:
    assert names(await prune(frontier, await frontier.jobs(), seconds=-1)) == []


async def test_the_coordinator_prunes_and_keeps_the_number_of_jobs_level() -> None:
    async with MemoryFrontier(ManualClock()) as frontier:
        plan = WorkerPlan((), ":memory:", flags={"keep_jobs": 3})
        coordinator = Coordinator(frontier, plan, {})
        for n in range(5):
            for k in range(4):
                await frontier.open_job(spec(f"j{n}-{k}"))
                await frontier.add(f"j{n}-{k}", [make_task("http://a.test/")], Cursor(fed_all=True))
                for lease in (await claim(frontier, jobs=[f"j{n}-{k}"])).leases:
                    await settle(frontier, lease)
                await frontier.set_state(f"j{n}-{k}", "finished")
            coordinator._prune_at = 0.0
            await coordinator._prune()
            assert len(await frontier.jobs()) == 3
        assert len(await frontier.past_jobs()) == 17


# -- with a real store


def made(path: Path, count: int) -> None:
    async def make() -> None:
        async with open_frontier(str(path)) as frontier:
            for n in range(count):
                name = f"old-{n}"
                await frontier.open_job(spec(name))
                await frontier.add(
                    name, [make_task(f"http://{name}.test/{k}") for k in range(20)], Cursor(fed_all=True)
                )
                for lease in (await claim(frontier, 20, jobs=[name])).leases:
                    await settle(frontier, lease)
                await frontier.set_state(name, "finished")

    asyncio.run(make())


async def test_a_crawl_prunes_when_it_has_ended(tmp_path: Path) -> None:
    store, output = tmp_path / "store.db", tmp_path / "rows.jsonl"
    await asyncio.to_thread(made, store, 4)
    async with ChaoticWeb({"site": HostProfile(pages=3)}) as web:
        spider = shoal.Spider("new", web.start_urls, rate=0, robots=False, keep_jobs=2)
        spider.add_handler(lambda page: {"url": page.url}, name="page")
        await shoal.crawl(spider, store=store, output=output)
        async with open_frontier(str(store)) as frontier:
            assert [job.spec.name for job in await frontier.jobs()] == ["old-3", "new"]
            assert [past.job.spec.name for past in await frontier.past_jobs()] == ["old-0", "old-1", "old-2"]
            pruned = [event for event in await read_events(frontier) if event.event == "job_pruned"]
            assert {event.fields["job"] for event in pruned} == {"old-0", "old-1", "old-2"}
            new = await frontier.job("new")
            assert new is not None
            await prune(frontier, [new])
        with pytest.raises(
            OutputTaken, match="all from this job before it was pruned: what it had seen is forgotten"
        ):
            await shoal.crawl(spider, store=store, output=output)
        results = await shoal.crawl(spider, store=store, output=tmp_path / "other.jsonl")
        assert results.view.job.counters.done == 1
        async with open_frontier(str(store)) as frontier:
            assert "job_anew" in {event.event for event in await read_events(frontier)}


def test_what_commands_say_of_a_pruned_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "s.db", 12)

    async def prune_all() -> None:
        async with open_frontier("s.db") as frontier:
            await prune(frontier, (await frontier.jobs())[:11])

    asyncio.run(prune_all())

    def cli(*argv: str) -> tuple[int, str, str]:
        code = run([*argv, "--store", "s.db"])
        out, err = capfd.readouterr()
        return code, out, err

    code, out, _ = cli("status")
    assert code == 0
    assert out.count("pruned") == 11, "ten of them, and a line"
    assert "11 jobs pruned (the latest 10 are shown; all: shoal status --json --store s.db)" in out
    for command in (
        ("why", "http://old-1.test/1", "--job", "old-1"),
        ("status", "old-1"),
        ("pause", "old-1"),
        ("hosts", "--job", "old-1"),
    ):
        code, _, err = cli(*command)
        assert (code, len(err.splitlines())) == (2, 1), (command, err)
        assert "job old-1 was pruned" in err
        assert err.endswith(
            "only its counters and a short report are left: shoal report old-1 --store s.db\n"
        )
    code, out, _ = cli("why", "http://elsewhere.test/")
    assert code == 0
    assert (
        "11 jobs pruned, and with them what was seen: whether one of those had it is not known any more"
        in out
    )
    code, _, err = cli("report", "old-1")
    assert code == 0
    assert err.startswith("job old-1 was pruned")
    assert ">20<" in (tmp_path / "old-1-report.html").read_text()
    assert cli("cancel", "old-1", "--forget")[0] == 0
    assert cli("report", "old-1")[0] == 2


@pytest.mark.parametrize("home", ["memory", "sqlite", "valkey"])
async def test_old_dead_letters_of_a_job_that_goes_on_are_dropped_and_counted(
    home: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.inspect.retention._LETTERS", 2)  # at once
    clock = ManualClock()
    frontier: Frontier = MemoryFrontier(clock)
    if home == "sqlite":
        frontier = SqliteFrontier(tmp_path / "s.db", clock)
    elif home == "valkey":
        frontier = RedisFrontier(f"{request.getfixturevalue('valkey').url}?shards=2", clock)
    async with frontier:
        await frontier.open_job(spec())
        for round in range(2):
            await frontier.add("job", [make_task(f"http://h{n}.test/{round}") for n in range(5)])
            for lease in (await claim(frontier, 5)).leases:
                await settle(frontier, lease, Dead(Failure("http_404", "gone")))
            if not round:
                clock.advance(91 * DAY)
        await prune_letters(frontier, retention_of(Settings(keep_letter_days=0)))
        assert len(await frontier.dead(DeadFilter())) == 10
        await prune_letters(frontier, retention_of(Settings()))
        left = await frontier.dead(DeadFilter())
        assert sorted(letter.task.url for letter in left) == [f"http://h{n}.test/1" for n in range(5)]
        job = await frontier.job("job")
        assert job is not None
        assert (job.state, job.counters.dead) == ("running", 10), "they stay counted"
        told = [one.fields for one in await read_events(frontier) if one.event == "letters_dropped"]
        assert sum(int(fields["count"] or 0) for fields in told) == 5
        assert {fields["by"] for fields in told} == {"retention"}


async def test_a_crawl_that_does_not_end_drops_old_letters_meanwhile() -> None:
    clock = ManualClock()
    async with MemoryFrontier(clock) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Dead(Failure("http_404", "gone")))
        clock.advance(91 * DAY)
        async with asyncio.timeout(10), tidying(frontier, Settings(), spared={"job"}, every=0):
            while await frontier.dead(DeadFilter()):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert await frontier.job("job") is not None


def test_store_prune_drops_old_letters_of_jobs_that_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s.db"

    async def fill() -> None:
        async with SqliteFrontier(store) as frontier:
            await frontier.open_job(spec())
            await frontier.add("job", [make_task("http://a.test/")])
            [lease] = (await claim(frontier)).leases
            await settle(frontier, lease, Dead(Failure("http_404", "gone")))

    asyncio.run(fill())
    later(store, hours=91 * 24)
    assert run(["store", "--prune", "--store", str(store)]) == 0
    assert "1 dead letter of other jobs dropped, for their age" in capsys.readouterr().err
