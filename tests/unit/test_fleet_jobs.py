"""Submitting, finishing and looking at the jobs of a fleet."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal import Spider, __version__
from shoal.cli.submit import _FullQueue
from shoal.errors import OutputTaken, ShoalError, SinkError, StoreError, UsageError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import (
    OWN_START,
    Claim,
    Counters,
    Cursor,
    HostRecord,
    Job,
    JobSpec,
    JobState,
    Source,
)
from shoal.inspect.job import View
from shoal.inspect.overview import eta, look, slow_hosts
from shoal.jobs.note import note_of, settings_of, write_note
from shoal.jobs.trouble import report_trouble, trouble_of
from shoal.jobs.worker_status import WorkerStatus, encode_status, tell_other_versions
from shoal.model import Done, Row, Settlement
from shoal.policy.backpressure import Reason
from shoal.runtime.coordinator import Feeders
from shoal.runtime.job_plan import JobPlan, spec_of
from shoal.runtime.stalled_jobs import LONG, Facts, Silent, StalledJobs, reason, say_why
from shoal.runtime.submit import (
    feed,
    finish,
    place_on_fleet,
    schedule,
    submit,
    wait_for,
)
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import claim, make_task, settle
from shoal.valve import FOREVER, Valve

DEADLINE = 60.0


def spider_of(start: object = ()) -> Spider:
    spider = Spider("books", start)  # type: ignore[arg-type]
    spider.add_handler(lambda page: None, name="page")
    return spider


def plan_of(output: Path | str, **given: object) -> JobPlan:
    settings = Settings(**{"rate": 2.0, **given})  # type: ignore[arg-type]
    return JobPlan(spider_of(), settings, "books", "store.db", output, fed_by="submit")


async def job_of(frontier: MemoryFrontier, name: str = "books") -> Job:
    job = await frontier.job(name)
    assert job is not None
    return job


# -- submitting


async def test_a_submitted_job_notes_what_workers_need(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    plan = plan_of(tmp_path / "rows.jsonl", headers={"Authorization": "hunter2"}, depth=3)
    job = await submit(replace(plan, priority=7), frontier)
    assert (job.state, job.spec.spider, job.spec.priority) == ("running", "books", 7)
    assert note_of(job.spec).output.decode() == str(tmp_path / "rows.jsonl")
    settings = settings_of(job.spec)
    assert settings is not None
    assert (settings.depth, settings.headers) == (3, {})
    assert b"hunter2" not in job.spec.settings


async def test_given_urls_are_fed_once_however_often_the_command_is_run(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    start = spider_of([f"http://h{n}.test/" for n in range(10)] + ["not a url"])
    plan = replace(plan_of(tmp_path / "rows.jsonl"), start=start)
    await submit(plan, frontier)
    await frontier.add("books", [make_task("http://h0.test/")], Cursor(fed=1))  # an earlier run got this far
    report = await feed(plan, frontier)
    job = await job_of(frontier)
    assert (job.counters.admitted, job.fed, job.fed_all) == (10, 11, True)
    assert report.refused == {"not a URL": 1}
    await submit(plan, frontier)
    await feed(plan, frontier)
    assert (await job_of(frontier)).counters.admitted == 10


async def test_a_list_that_is_longer_than_the_queue_may_be_is_told_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("INFO", "shoal")
    monkeypatch.setattr("shoal.runtime.submit._HIGH_WATER", 10)
    monkeypatch.setattr("shoal.engine.feeder._LOOK_AGAIN", 0.01)
    frontier = MemoryFrontier()
    start = spider_of([f"http://h{n}.test/" for n in range(35)])
    plan = replace(plan_of(tmp_path / "rows.jsonl", high_water=5), start=start)
    await submit(plan, frontier)
    feeding = asyncio.create_task(feed(plan, frontier, _FullQueue("books").say))
    async with asyncio.timeout(DEADLINE):
        while not feeding.done():
            await asyncio.sleep(0.01)
            for lease in (await claim(frontier, 5, jobs=("books",))).leases if caplog.records else ():
                await settle(frontier, lease)
    assert (await job_of(frontier)).fed_all
    waits = [record for record in caplog.records if record.__dict__.get("event") == "feeding_waits"]
    assert len(waits) >= 2
    said = capsys.readouterr().err
    assert said.count("10 URLs are fed, and 10 pages of job books are queued") == 1
    assert said.count("Leave it running") == 1


async def test_a_job_is_started_afresh_when_all_workers_have_let_go_of_it(tmp_path: Path) -> None:
    """What they remember of links that were admitted would else make them skip pages of the new one."""
    frontier = MemoryFrontier()
    plan = replace(plan_of(tmp_path / "rows.jsonl"), fresh=True)
    await submit(plan, frontier)
    await frontier.add("books", [make_task("http://h.test/")])
    await frontier.extend("w", 60, encode_status(WorkerStatus(jobs=("books",))))
    again = asyncio.create_task(submit(plan, frontier))
    async with asyncio.timeout(DEADLINE):
        while (await job_of(frontier)).state != "cancelled":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        assert (await job_of(frontier)).counters.admitted == 1
        await frontier.extend("w", 60, encode_status(WorkerStatus()))
        job = await again
    assert (job.state, job.counters.admitted) == ("running", 0)


@pytest.mark.parametrize(("in_flight", "seconds"), [(1, 7), (0, 16)])
async def test_a_worker_that_is_silent_is_not_waited_for(
    tmp_path: Path, in_flight: int, seconds: float
) -> None:
    """It has died, and its lease runs for a minute. One without pages speaks less often."""
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    plan = replace(plan_of(tmp_path / "rows.jsonl"), fresh=True)
    first = await submit(plan, frontier)
    await frontier.add("books", [make_task("http://h.test/")])
    status = WorkerStatus(pid=7, node="far", jobs=("books",), in_flight=in_flight)
    await frontier.extend("w", 60, encode_status(status))
    clock.advance(seconds)
    assert len(await frontier.workers()) == 1
    async with asyncio.timeout(10):
        job = await submit(plan, frontier)
    assert (job.state, job.counters.admitted) == ("running", 0)
    assert job.created_at > first.created_at


async def test_a_worker_that_holds_on_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.runtime.submit._LET_GO", 0.05)
    frontier = MemoryFrontier()
    plan = replace(plan_of(tmp_path / "rows.jsonl"), fresh=True)
    await submit(plan, frontier)
    await frontier.extend("w", 60, encode_status(WorkerStatus(pid=7, node="far", jobs=("books",))))
    with pytest.raises(ShoalError, match="but process 7 on far still holds on to it"):
        await submit(plan, frontier)


async def test_a_feeder_that_wakes_up_to_another_job_adds_nothing(tmp_path: Path) -> None:
    """Its position in the start URLs would hide those that come before."""
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    gate, asked = asyncio.Event(), asyncio.Event()

    async def start() -> AsyncIterator[str]:
        for n in range(20):
            if n == 10:
                asked.set()
                await gate.wait()
            yield f"http://h{n}.test/"

    plan = replace(plan_of(tmp_path / "rows.jsonl"), fresh=True)
    plan = replace(plan, start=spider_of(start))
    await submit(plan, frontier)
    feeding = asyncio.create_task(feed(plan, frontier))
    await asked.wait()
    clock.advance(1)
    job = await submit(plan, frontier)
    gate.set()
    with pytest.raises(StoreError, match="job books was dropped meanwhile"):
        await feeding
    job = await job_of(frontier)
    assert (job.counters.admitted, job.fed, job.fed_all) == (0, 0, False)


@pytest.mark.parametrize("store", ["store.db", "redis://h"])
@pytest.mark.parametrize(("first", "second"), [("a.jsonl", "b.jsonl"), ("a.jsonl", "postgresql://h/d")])
async def test_rows_of_a_job_are_never_split_over_two_places(
    tmp_path: Path, store: str, first: str, second: str
) -> None:
    def plan(output: str, **changes: object) -> JobPlan:
        given = output if "://" in output else tmp_path / output
        return replace(plan_of(given), store=store, **changes)

    frontier = MemoryFrontier()
    await submit(plan(first), frontier)
    await submit(plan(first), frontier)
    await frontier.add("books", [make_task("http://h.test/")], Cursor(fed_all=True))
    with pytest.raises(OutputTaken, match=r"writes its rows to .*a\.jsonl, not to .*, and is at it"):
        await submit(plan(second), frontier)
    await frontier.set_state("books", "paused")
    await submit(plan(second), frontier)  # nobody has written anything, and nobody can
    assert note_of((await job_of(frontier)).spec).output.decode().endswith(second.rpartition("/")[2])
    [lease] = (await claim(frontier, jobs=("books",))).leases
    await frontier.set_state("books", "paused")
    with pytest.raises(OutputTaken, match="is at it"):
        await submit(plan(first), frontier)
    await frontier.settle([Settlement(lease, Done(), rows=(Row(b"{}\n"),))])
    for state in ("paused", "running", "finished"):
        await frontier.set_state("books", state)  # type: ignore[arg-type]
        with pytest.raises(OutputTaken, match="and has 1 row there: submit it with -o"):
            await submit(plan(first), frontier)
    job = await submit(plan(first, fresh=True), frontier)
    assert job.counters.items == 0


async def test_hosts_get_the_valves_of_new_settings(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    plan = plan_of(tmp_path / "rows.jsonl", robots=False)
    await submit(plan, frontier)
    await frontier.add("books", [make_task("http://h.test/")])
    await submit(replace(plan, settings=Settings(rate=10.0, robots=False)), frontier)
    record = await frontier.host("h.test")
    assert record is not None
    assert record.valve.interval == pytest.approx(0.1)


async def test_a_file_that_is_not_the_jobs_is_not_written_over(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("precious\n")
    with pytest.raises(SinkError, match="not from this job"):
        await submit(plan_of(rows), MemoryFrontier())


def test_a_path_means_this_machines_or_the_workers() -> None:
    here = place_on_fleet(["rows.jsonl"], "books", "store.db", Settings())
    assert here == (os.path.abspath("rows.jsonl"),)
    there = place_on_fleet([], "books", "redis://h/", Settings())
    assert there == ("books.jsonl",)
    spec = spec_of(replace(plan_of("x"), store="redis://h/", output=Path("rows.jsonl")))
    assert note_of(spec).output == b"rows.jsonl"
    with pytest.raises(SinkError, match="standard output"):
        place_on_fleet(["-"], "books", "store.db", Settings())


async def test_a_schedule_keeps_its_beat_when_it_is_submitted_again(tmp_path: Path) -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    plan = plan_of(tmp_path / "rows.jsonl")
    first = await schedule(plan, frontier, every=60)
    clock.advance(10)
    assert (await schedule(plan, frontier, every=60)).next_at == first.next_at
    assert (await schedule(plan, frontier, every=30)).next_at == first.next_at + 10
    with pytest.raises(UsageError, match="needs a place"):
        await schedule(replace(plan, output=None), frontier, every=60)


# -- finishing


async def exhausted(frontier: MemoryFrontier) -> None:
    await frontier.open_job(JobSpec("books"))
    await frontier.add("books", [], Cursor(fed_all=True))


async def test_an_exhausted_job_is_finished_and_no_other() -> None:
    frontier = MemoryFrontier()
    await frontier.open_job(JobSpec("books"))
    assert not await finish(frontier, "books")
    await exhausted(frontier)
    assert await finish(frontier, "books")
    assert (await job_of(frontier)).state == "finished"
    assert not await finish(frontier, "unknown")


@pytest.mark.parametrize("state", ["paused", "cancelled"])
async def test_what_a_person_stopped_stays_as_it_is(state: JobState) -> None:
    frontier = MemoryFrontier()
    await exhausted(frontier)
    await frontier.set_state("books", state)
    assert not await finish(frontier, "books")
    assert (await job_of(frontier)).state == state


# -- waiting


async def test_waiting_ends_with_the_job() -> None:
    frontier, views = MemoryFrontier(), list[View]()
    await exhausted(frontier)

    def watch(view: View) -> None:
        views.append(view)
        frontier._jobs["books"].state = "finished"

    async with asyncio.timeout(DEADLINE):
        last = await wait_for(frontier, "books", watch)
    assert last.job.state == "finished"
    assert views[0].note == "no worker serves it yet"


async def test_waiting_goes_on_if_the_store_forgets_the_end() -> None:
    clock, states = ManualClock(), list[JobState]()
    frontier = MemoryFrontier(clock)
    await exhausted(frontier)
    saved, frontier.epoch = frontier.saved(), "0"
    await frontier.set_state("books", "finished")
    asked = frontier.now

    async def now() -> float:  # time passes while it waits; the store goes back meanwhile, once
        if frontier.epoch == "0":
            frontier.go_back(saved)
        clock.advance(5.0)
        return await asked()

    async def finish_again() -> None:
        while (await job_of(frontier)).state == "finished":  # noqa: ASYNC110
            await asyncio.sleep(0)
        await frontier.set_state("books", "finished")

    frontier.now = now  # type: ignore[method-assign]
    async with asyncio.timeout(DEADLINE):
        finishing = asyncio.create_task(finish_again())
        last = await wait_for(frontier, "books", lambda view: states.append(view.job.state))
        await finishing
    assert last.job.state == "finished"
    assert len(states) > 1, "it looked again"


async def test_waiting_for_a_job_that_was_forgotten_is_an_error() -> None:
    frontier = MemoryFrontier()
    with pytest.raises(ShoalError, match="or the store has gone back to a time before it was made"):
        await wait_for(frontier, "books", lambda view: None)


async def test_waiting_for_a_cancelled_job_is_an_error() -> None:
    frontier = MemoryFrontier()
    await exhausted(frontier)
    await frontier.set_state("books", "cancelled")
    with pytest.raises(ShoalError, match="was cancelled"):
        await wait_for(frontier, "books", lambda view: None)


# -- feeding


async def test_a_start_that_fails_pauses_the_job_and_says_why() -> None:
    def start() -> object:
        yield "http://a.test/"
        raise ZeroDivisionError("oops")

    frontier = MemoryFrontier()
    plan = replace(plan_of("/rows/x.jsonl"), fed_by="coordinator")
    await frontier.open_job(spec_of(plan), OWN_START)
    feeders = Feeders(frontier, WorkerPlan((), "memory"), {"books": spider_of(start)}, name="me", lease=5)
    feeders.tend(await frontier.jobs())
    async with asyncio.timeout(DEADLINE):
        while (await job_of(frontier)).state == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert re.fullmatch(
        r".*test_fleet_jobs\.py:\d+: the start of spider 'books' failed after start request 1: ZeroDivisionError: oops",
        await trouble_of(frontier, await job_of(frontier)),
    )
    await feeders.stop()
    with pytest.raises(ShoalError, match=r"oops.*shoal resume books"):
        await wait_for(frontier, "books", lambda view: None)


async def test_what_is_stored_of_a_trouble_has_no_password() -> None:
    frontier = MemoryFrontier()
    await frontier.open_job(spec_of(plan_of("/rows/x.jsonl")), OWN_START)
    await report_trouble(frontier, "books", "OSError: cannot reach postgresql://me:p@hunter2@db.example/x")
    assert (
        await trouble_of(frontier, await job_of(frontier))
        == "OSError: cannot reach postgresql://db.example/x"
    )


async def test_several_jobs_are_fed_at_once_and_a_paused_one_is_not() -> None:
    frontier = MemoryFrontier()
    never = asyncio.Event()

    async def start() -> object:
        yield "http://a.test/"
        await never.wait()

    feeders = Feeders(frontier, WorkerPlan((), "memory"), {"books": spider_of(start)}, name="me", lease=5)
    base = spec_of(replace(plan_of("/rows/x.jsonl"), fed_by="coordinator"))
    for name in ("one", "two"):
        await frontier.open_job(replace(base, name=name), OWN_START)
    feeders.tend(await frontier.jobs())
    async with asyncio.timeout(DEADLINE):
        while not all([(await job_of(frontier, name)).counters.pending for name in ("one", "two")]):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await frontier.set_state("two", "paused")
    feeders.tend(await frontier.jobs())
    assert [name for name, _ in feeders._feeding] == ["one"]
    await feeders.stop()


def listed(name: str, urls: list[str]) -> JobPlan:
    return replace(plan_of("x.jsonl"), feeds=name, store="redis://fleet", start=spider_of(urls))


async def test_every_list_is_fed_whatever_was_fed_before() -> None:
    """The position of one list was once applied to the next, and the first to end its list ended all."""
    frontier = MemoryFrontier()
    long = listed("long", [f"http://a.test/{n}" for n in range(400)])
    await submit(long, frontier)
    await frontier.add("books", [make_task("http://a.test/0")], Cursor("long", fed=150))  # and was killed
    for name in ("one", "two"):
        await submit(listed(name, [f"http://{name}.test/"]), frontier)
        await feed(listed(name, [f"http://{name}.test/"]), frontier)
    job = await job_of(frontier)
    assert (job.counters.admitted, job.fed_all, job.unfed) == (3, False, ["long"])
    await submit(long, frontier)
    await feed(long, frontier)
    job = await job_of(frontier)
    assert (job.counters.admitted, job.fed, job.fed_all) == (3 + 250, 402, True)


async def test_a_list_that_has_grown_is_read_again() -> None:
    frontier = MemoryFrontier()
    for urls in (["http://a.test/1"], ["http://a.test/1", "http://a.test/2"]):
        await submit(listed("urls.txt", urls), frontier)
        await feed(listed("urls.txt", urls), frontier)
        await frontier.set_state("books", "finished")
    assert (await job_of(frontier)).counters.admitted == 2


async def test_urls_beside_a_spiders_start_leave_that_to_the_coordinator() -> None:
    frontier = MemoryFrontier()
    plan = replace(plan_of("x.jsonl"), fed_by="coordinator", spider=spider_of("http://own.test/"))
    plan = replace(plan, store="redis://fleet")
    await submit(plan, frontier)
    await submit(listed("list", ["http://a.test/"]), frontier)
    await feed(listed("list", ["http://a.test/"]), frontier)
    assert (await job_of(frontier)).sources == {OWN_START: Source(), "list": Source(1, fed_all=True)}
    feeders = Feeders(frontier, WorkerPlan((), "memory"), {"books": plan.spider}, name="me", lease=5)
    feeders.tend(await frontier.jobs())
    async with asyncio.timeout(DEADLINE):
        while not (await job_of(frontier)).fed_all:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await feeders.stop()
    assert (await job_of(frontier)).counters.admitted == 2


async def test_a_job_waits_while_its_workers_say_that_it_grows_by_itself() -> None:
    """And that one alone: another job that they serve is fed."""
    frontier = MemoryFrontier()
    read: dict[str, int] = {}

    def spider(name: str) -> Spider:
        def start() -> object:
            for read[name] in range(1, 100):
                yield f"http://{name}.test/{read[name]}"

        return spider_of(start)

    async def says(*reasons: Reason) -> None:
        await frontier.extend("w", 60.0, encode_status(WorkerStatus(jobs=("one", "two"), pressure=reasons)))
        await feeders.listen()

    feeders = Feeders(
        frontier,
        WorkerPlan((), "memory"),
        {name: spider(name) for name in ("one", "two")},
        name="me",
        lease=5,
    )
    base = spec_of(replace(plan_of("/rows/x.jsonl"), fed_by="coordinator"))
    settings = write_note(b"/rows/x.jsonl", Settings(high_water=40), "coordinator")
    for name in ("one", "two"):
        await frontier.open_job(
            replace(base, name=name, spider=name, settings=settings, valve=Valve(cap=500)), OWN_START
        )
    feeders.tend(await frontier.jobs())
    await says(Reason("retries", "too many"), Reason("queue_growth", "each page leads to 9", "one"))
    await _done(frontier)
    async with asyncio.timeout(DEADLINE):
        while not (await job_of(frontier, "two")).fed_all:
            await _done(frontier)
        assert read == {"one": 40, "two": 99}
        await says()
        while not (await job_of(frontier, "one")).fed_all:
            await _done(frontier)
    await feeders.stop()


async def _done(frontier: MemoryFrontier) -> None:
    """Ends whatever waits, so that no queue is full."""
    claimed = await frontier.claim(Claim("w", ["one", "two"], {"normal": 500}, 500))
    await frontier.settle([Settlement(lease, Done()) for lease in claimed.leases])
    await asyncio.sleep(0.01)


async def test_a_job_is_fed_by_one_that_has_its_spider_and_by_the_next_when_it_is_gone() -> None:
    frontier, reading = MemoryFrontier(), list[str]()
    plan, everybody = WorkerPlan((), "memory"), asyncio.Event()

    def start_of(name: str) -> object:
        async def start() -> object:
            reading.append(name)
            yield "http://a.test/"
            await everybody.wait()
            yield "http://b.test/"

        return start

    feeders = {
        name: Feeders(frontier, plan, {spider: spider_of(start_of(name))}, name=name, lease=5)
        for name, spider in (("without", "other"), ("first", "books"), ("second", "books"))
    }
    await frontier.open_job(spec_of(replace(plan_of("/rows/x.jsonl"), fed_by="coordinator")), OWN_START)
    async with asyncio.timeout(DEADLINE):
        for one in feeders.values():
            one.tend(await frontier.jobs())
        while not (await job_of(frontier)).counters.pending:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert reading == ["first"]
        await feeders["first"].stop()
        while reading != ["first", "second"]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        everybody.set()
        while not (await job_of(frontier)).fed_all:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert (await job_of(frontier)).counters.admitted == 2
    for one in feeders.values():
        one.tend([])
        await one.stop()


# -- looking


async def soon(frontier: Frontier, job: Job, rate: float, now: float) -> float | None:
    return eta(job, rate, await slow_hosts(frontier, job.spec.name, now), now)


async def test_the_eta_is_that_of_the_slowest_host() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(JobSpec("books", valve=Valve(interval=0.5)))
    await frontier.open_job(JobSpec("other", valve=Valve(interval=0.5)))
    await frontier.add("books", [make_task(f"http://slow.test/{n}") for n in range(100)])
    await frontier.add("books", [make_task(f"http://h{n}.test/") for n in range(50)])
    job, now = await job_of(frontier), await frontier.now()
    assert await soon(frontier, job, 1000.0, now) == pytest.approx(50.0), "100 pages, half a second apart"
    assert await soon(frontier, job, 1.0, now) == pytest.approx(150.0), "or what is left at the present rate"
    assert await soon(frontier, job, 0.0, now) is None
    await frontier.add("other", [make_task(f"http://slow.test/o{n}") for n in range(100)])
    assert await soon(frontier, job, 1000.0, now) == pytest.approx(100.0), (
        "others take turns on the same host"
    )
    record = await frontier.host("slow.test")
    assert record is not None
    blocked = HostRecord("slow.test", replace(record.valve, blocked_until=FOREVER), b"", record.version)
    await frontier.update_host(blocked)
    assert await soon(frontier, job, 1000.0, now) is None, "a host that is blocked for good"


async def test_a_look_at_the_fleet_adds_up_its_workers() -> None:
    frontier = MemoryFrontier()
    await frontier.open_job(JobSpec("books"))
    await frontier.add("books", [make_task("http://h.test/")])
    for name, rate in (("w1", 2.0), ("w2", 3.5)):
        status = WorkerStatus(node=name, jobs=("books",), rates={"books": rate, "gone": 1.0})
        await frontier.extend(name, 60, encode_status(status))
    sight = await look(frontier)
    [seen] = sight.jobs
    assert (seen.rate, seen.workers, sight.rate) == (5.5, 2, 7.5)
    assert sight.leader is None


# -- stuck


def stuck_job(**counters: int) -> Job:
    return Job(JobSpec("books", spider="books"), "running", Counters(**counters), 0.0)


def test_a_job_that_does_not_move_is_named_after_a_while_and_not_again_at_once() -> None:
    watch, job = StalledJobs(), stuck_job(admitted=1, pending=1)
    assert watch.look([job], 0.0) == []
    assert watch.look([job], LONG - 1) == []
    assert watch.look([job], LONG) == [(job, LONG)]
    assert watch.look([job], LONG + 1) == []
    moved = stuck_job(admitted=1, done=1)
    assert watch.look([moved], LONG + 2) == []
    assert watch.look([moved], LONG + 3) == []


SERVING = WorkerStatus(pid=7, node="far", spiders=("books",), jobs=("books",), lanes=("normal",), in_flight=2)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            Facts(stuck_job(pending=1)),
            "no worker has its spider 'books'; start one with: shoal worker FILE.py",
        ),
        (
            Facts(stuck_job(leased=2), silent=[Silent(SERVING, 40.0, 20.0)]),
            "no worker can be heard; process 7 on far was heard 40 s ago; if it does not come back, others get its"
            " pages in 20 s",
        ),
        (
            Facts(stuck_job(leased=2), [SERVING], silent=[Silent(SERVING, 40.0, 20.0)]),
            "2 pages in flight, some held by a worker that is silent: process 7 on far was heard 40 s ago",
        ),
        (
            Facts(stuck_job(leased=2), [replace(SERVING, waits={"books": "its database is slow"})]),
            "its database is slow",
        ),
        (
            Facts(stuck_job(leased=2), [replace(SERVING, pressure=(Reason("sink", "rows pile up"),))]),
            "its workers hold back (sink: rows pile up)",
        ),
        (Facts(stuck_job(leased=2), [SERVING]), "2 pages in flight, which take long"),
        (Facts(stuck_job(), [SERVING]), "waits for start URLs"),
        (
            Facts(replace(stuck_job(), sources={OWN_START: Source(), "urls-3fa9c1": Source(150)}), [SERVING]),
            "it waits for the rest of urls-3fa9c1: if its shoal submit has ended, run it again",
        ),
        (
            Facts(stuck_job(pending=3), [SERVING], lanes={"browser": 3}),
            "no worker serves the lanes that it needs: 3 pages in lane browser",
        ),
        (Facts(stuck_job(pending=3), [SERVING], lanes={"normal": 3}), "their hosts may not be asked now"),
        (Facts(stuck_job(delayed=1), [SERVING]), "1 page wait to be tried again"),
    ],
)
def test_it_says_why(facts: Facts, said: str) -> None:
    assert said in reason(facts)


async def test_it_names_the_hosts_that_all_wait_and_until_when() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(
        JobSpec("books", spider="books", settings=write_note(b"", Settings(robots=False)))
    )
    await frontier.add("books", [make_task(f"http://h{n % 2}.test/{n}") for n in range(6)])
    await frontier.extend("w", 60, encode_status(SERVING))
    for host, seconds in (("h0.test", 600.0), ("h1.test", 300.0)):
        record = await frontier.host(host)
        assert record is not None
        valve = replace(record.valve, blocked_until=await frontier.now() + seconds)
        assert await frontier.update_host(replace(record, valve=valve))
    said = await say_why(frontier, await job_of(frontier), 61.0, await frontier.workers())
    assert said.startswith(
        "job books has not moved for 61 s: 6 pages wait for 2 hosts, and none may be asked for another 5 min"
    )
    clock.advance(11)
    said = await say_why(frontier, await job_of(frontier), 72.0, await frontier.workers())
    assert "no worker can be heard; process 7 on far was heard 11 s ago" in said


async def test_who_joins_is_told_of_other_versions(caplog: pytest.LogCaptureFixture) -> None:
    frontier = MemoryFrontier()
    for name, version in (("a", __version__), ("b", "9.9.9"), ("c", ""), ("d", "9.9.9")):
        await frontier.extend(name, 60.0, encode_status(WorkerStatus(version=version)))
    await tell_other_versions(frontier)
    assert [record.getMessage() for record in caplog.records] == [
        f"this is Shoal {__version__}; workers of version 0.1.0 or older on the same store: 1",
        f"this is Shoal {__version__}; workers of version 9.9.9 on the same store: 2",
    ]
