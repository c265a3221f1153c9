"""The jobs a worker serves: found, opened by the right settings, retired, set aside; and one engine for all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal import Page, Spider
from shoal.engine.dispatcher import Engine
from shoal.engine.recent import read_recent, recent_key
from shoal.errors import SinkError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Cursor, JobSpec
from shoal.jobs.note import write_note
from shoal.jobs.trouble import trouble_of
from shoal.jobs.worker_status import status_of
from shoal.model import Response
from shoal.policy.load import Traffic
from shoal.runtime import served_jobs
from shoal.runtime.job_actions import resume
from shoal.runtime.served_jobs import ServedJobs
from shoal.runtime.worker_plan import OWN, WorkerPlan
from shoal.settings import Settings
from shoal.testing.conformance.tools import make_task
from shoal.valve import Valve

DEADLINE = 60.0
OPEN = Valve(interval=0.0, cap=100)


def spider_of(name: str, **settings: object) -> Spider:
    spider = Spider(name, **settings)

    def page(page: Page) -> dict[str, str]:
        return {"url": page.url, "by": name}

    spider.add_handler(page)
    return spider


SPIDERS = {name: spider_of(name) for name in ("books", "news")}


class Answers:
    """In place of a transport: every page is there."""

    async def fetch(self, request: object) -> Response:
        return Response(str(getattr(request, "url", "")), 200, {}, b"<p>here</p>")

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.runtime.job_runner.Transports", lambda *args: Answers())


def spec(name: str, output: Path, spider: str = "books", **given: object) -> JobSpec:
    settings = Settings(robots=False, **given)  # type: ignore[arg-type]
    note = write_note(str(output / f"{name}.jsonl").encode(), settings, "submit")
    return JobSpec(name, spider=spider, valve=OPEN, settings=note)


def make(
    frontier: MemoryFrontier, spiders: dict[str, Spider] = SPIDERS, **options: object
) -> tuple[ServedJobs, Engine]:
    plan = WorkerPlan((), "memory", **options)  # type: ignore[arg-type]
    jobs = ServedJobs(frontier, plan, spiders, plan.settings(), Traffic())
    engine = Engine(frontier, jobs, plan.settings(), name="worker", spiders=tuple(spiders))
    return jobs, engine


@asynccontextmanager
async def serving(jobs: ServedJobs, engine: Engine) -> AsyncIterator[None]:
    looking, running = asyncio.create_task(jobs.run(engine.holds)), asyncio.create_task(engine.run())
    try:
        async with asyncio.timeout(DEADLINE):
            yield
    finally:
        engine.stop()
        looking.cancel()
        await asyncio.gather(looking, running, return_exceptions=True)
        await jobs.close()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def is_done(frontier: MemoryFrontier, name: str, pages: int) -> None:
    while (job := await frontier.job(name)) is None or job.counters.done < pages:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def rows(path: Path) -> int:
    return len(path.read_text().splitlines())


async def test_one_engine_serves_several_jobs_each_with_its_own_spider_and_file(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    await frontier.add("b1", [make_task(f"http://h{n}.test/") for n in range(5)])
    async with serving(jobs, engine):
        await is_done(frontier, "b1", 5)
        await frontier.open_job(spec("n1", tmp_path, "news"))  # while it runs
        await frontier.add("n1", [make_task(f"http://n{n}.test/") for n in range(3)])
        await is_done(frontier, "n1", 3)
        [record] = await frontier.workers()
    assert rows(tmp_path / "b1.jsonl") == 5
    assert rows(tmp_path / "n1.jsonl") == 3
    assert "news" in (tmp_path / "n1.jsonl").read_text()
    assert status_of(record).spiders == ("books", "news")


async def test_a_worker_that_ends_while_a_job_is_closed_runs_its_last_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    spider = spider_of("books")
    spider.on_job_end(lambda job: told.append(job.name))
    frontier = MemoryFrontier()
    jobs, engine = make(frontier, {"books": spider})
    await frontier.open_job(spec("b1", tmp_path))
    looking = asyncio.create_task(jobs.run(engine.holds))
    await until(jobs.current)
    [runner] = jobs.current()
    closing, may_close = asyncio.Event(), asyncio.Event()

    async def close() -> None:
        closing.set()
        await may_close.wait()

    monkeypatch.setattr(runner, "close", close)
    await frontier.set_state("b1", "finished")
    async with asyncio.timeout(DEADLINE):
        await closing.wait()
        looking.cancel()
        await asyncio.wait([looking])
        may_close.set()
        await jobs.close()
    assert told == ["b1"]


async def test_a_worker_that_ends_while_a_job_is_closed_writes_its_last_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closes the job has taken them, and is cancelled when the engine has ended."""
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    await frontier.add("b1", [make_task(f"http://h{n}.test/") for n in range(3)])
    monkeypatch.setattr("shoal.engine.history_recorder._NEVER", math.inf)  # only at the end
    writing, may_write, set_note = asyncio.Event(), asyncio.Event(), frontier.set_note

    async def slow(key: str, value: bytes, version: int) -> bool:
        if key == recent_key("b1"):
            writing.set()
            await may_write.wait()
        return await set_note(key, value, version)

    looking, running = asyncio.create_task(jobs.run(engine.holds)), asyncio.create_task(engine.run())
    async with asyncio.timeout(DEADLINE):
        await is_done(frontier, "b1", 3)
        monkeypatch.setattr(frontier, "set_note", slow)
        await frontier.set_state("b1", "finished")
        await writing.wait()
        engine.stop()
        asyncio.get_running_loop().call_later(
            0.1, may_write.set
        )  # an engine that does not wait has ended by then
        await running
        looking.cancel()
        await asyncio.wait([looking])
        may_write.set()
        await jobs.close()
    assert len((await read_recent(frontier, "b1")).rows) == 3


async def test_what_is_none_of_its_business_is_left_alone(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    await frontier.open_job(spec("other", tmp_path, "unknown"))
    await frontier.open_job(replace(spec("crawl", tmp_path), settings=write_note(b"", Settings())))
    await frontier.open_job(spec("chosen-1", tmp_path))
    await frontier.open_job(spec("left", tmp_path))
    jobs, engine = make(frontier, jobs=("chosen-*",))
    await jobs.refresh(engine.holds)
    await until(lambda: jobs.current())
    assert [job.name for job in jobs.current()] == ["chosen-1"]
    await jobs.close()


async def test_the_settings_are_the_jobs_but_the_machine_is_the_workers(tmp_path: Path) -> None:
    given = {"rate": 7.0, "user_agent": "noted", "concurrency": 500, "lease": 999.0}
    submitted = spec("b1", tmp_path, **given)
    spider = spider_of("books", rate=1.0, headers={"X-Key": "secret"})
    plan = WorkerPlan(("x",), "memory", flags={"concurrency": 3, "rate": 100})
    settings = plan.settings_for(submitted, spider)
    assert (settings.rate, settings.user_agent) == (7.0, "noted")
    assert (settings.concurrency, settings.lease) == (3, Settings().lease)
    assert settings.headers == {"X-Key": "secret"}, "what is not noted comes from the spider"
    assert set(Settings.__struct_fields__) >= OWN


async def test_a_job_that_is_paused_is_retired_and_served_again_when_it_is_resumed(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    async with serving(jobs, engine):
        await until(lambda: jobs.current())
        [first] = jobs.current()
        await frontier.set_state("b1", "paused")
        await until(lambda: not jobs.everyone())
        await frontier.set_state("b1", "running")
        await frontier.add("b1", [make_task("http://h.test/")])
        await is_done(frontier, "b1", 1)
        assert jobs.current()[0] is not first


async def test_a_job_that_is_submitted_anew_is_opened_anew(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    async with serving(jobs, engine):
        await until(lambda: jobs.current())
        await frontier.open_job(spec("b1", tmp_path, max_redirects=3))
        await until(lambda: [job.settings.max_redirects for job in jobs.current()] == [3])


async def test_a_job_that_was_dropped_and_made_again_is_another_one(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    async with serving(jobs, engine):
        await until(lambda: jobs.current())
        [first] = jobs.current()
        await frontier.drop_job("b1")
        await frontier.open_job(spec("b1", tmp_path))
        await until(lambda: [job for job in jobs.current() if job is not first])


async def test_a_job_whose_rows_cannot_be_written_is_set_aside_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served_jobs, "_ASIDE", 0.3)
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    missing = tmp_path / "missing"
    missing.touch()  # no folder
    for name, place in (("bad", missing), ("good", tmp_path)):
        await frontier.open_job(spec(name, place))
        await frontier.add(name, [make_task(f"http://{name}{n}.test/") for n in range(4)])
    async with serving(jobs, engine):
        await is_done(frontier, "good", 4)
        await until(lambda: "job bad cannot be served here" in caplog.text)
        job = await frontier.job("bad")
        assert job is not None
        assert job.counters.done == 0
        missing.unlink()
        await is_done(frontier, "bad", 4)
    assert rows(missing / "bad.jsonl") == 4


async def test_pages_of_a_handler_that_is_gone_wait_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is paused with the reason; others go on. With a spider that has the handler again, nothing is missing."""
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    await frontier.open_job(spec("n1", tmp_path, "news"))
    gone = [make_task(f"http://g{n}.test/", handler="detail") for n in range(30)]
    await frontier.add("b1", [*gone, make_task("http://h.test/")], Cursor(fed_all=True))
    await frontier.add("n1", [make_task(f"http://n{n}.test/") for n in range(4)])
    async with serving(jobs, engine):
        await is_done(frontier, "n1", 4)
        await until(lambda: "is paused: pages wait for handler 'detail'" in caplog.text)
        await settled_down(frontier, "b1")
    job = await frontier.job("b1")
    assert job is not None
    assert job.state == "paused"
    assert (job.counters.dead, job.counters.retried, job.counters.pending + job.counters.done) == (0, 0, 31)
    trouble = await trouble_of(frontier, job)
    assert trouble.startswith(
        "pages wait for handler 'detail', which spider 'books' does not have (it has page):"
    )
    assert "; of all handlers together " in trouble
    assert caplog.text.count("is paused:") == 1

    mended = spider_of("books")
    mended.add_handler(lambda page: {"url": page.url}, name="detail")
    jobs, engine = make(frontier, spiders={"books": mended})
    await resume(frontier, "b1")
    async with serving(jobs, engine):
        await is_done(frontier, "b1", 31)
    assert rows(tmp_path / "b1.jsonl") == 31


async def settled_down(frontier: MemoryFrontier, name: str) -> None:
    while (job := await frontier.job(name)) is None or job.state != "paused" or job.counters.leased:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_lanes_of_jobs_are_served_as_they_come(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    async with serving(jobs, engine):
        await frontier.open_job(spec("b1", tmp_path, lanes={"images": 2.0}))
        await frontier.add("b1", [make_task("http://h.test/", lane="images")])
        await is_done(frontier, "b1", 1)
        assert "images" in jobs.lanes()


async def test_a_worker_with_chosen_lanes_takes_no_others(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier, flags={"serve": "urgent"})
    await frontier.open_job(spec("b1", tmp_path))
    await frontier.add("b1", [make_task("http://h.test/"), make_task("http://u.test/", lane="urgent")])
    async with serving(jobs, engine):
        await is_done(frontier, "b1", 1)
        assert list(jobs.lanes()) == ["urgent"]
    job = await frontier.job("b1")
    assert job is not None
    assert job.counters.pending == 1


async def test_until_done_ends_when_every_job_of_its_spiders_is_exhausted(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier, until_done=True)
    await frontier.open_job(spec("b1", tmp_path))
    await frontier.open_job(spec("other", tmp_path, "unknown"))
    looking = asyncio.create_task(jobs.run(engine.holds))
    running = asyncio.create_task(engine.run())
    await asyncio.sleep(0.05)
    assert not running.done(), "its start has not been fed yet"
    await frontier.add("b1", [make_task("http://h.test/")], Cursor(fed_all=True))
    async with asyncio.timeout(DEADLINE):
        await running
    looking.cancel()
    await jobs.close()
    job = await frontier.job("b1")
    assert job is not None
    assert job.counters.done == 1


async def test_settings_that_cannot_be_used_set_a_job_aside_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the same traceback with every round. Another version may have noted them unchecked."""
    asked = []

    def refuse(*args: object) -> Answers:
        asked.append(args)
        raise ValueError("'X Y' is not a valid header")

    monkeypatch.setattr("shoal.runtime.job_runner.Transports", refuse)
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    await frontier.open_job(spec("b2", tmp_path))
    async with serving(jobs, engine):
        await until(lambda: len(asked) >= 2 and not jobs._opening)
        for _ in range(5):
            await jobs.refresh(engine.holds)
        assert len(asked) == 2, "each is tried again after a while"
        assert not jobs.current()
    said = [record.getMessage() for record in caplog.records if "b1" in record.getMessage()]
    reason = "its settings cannot be used: ValueError: 'X Y' is not a valid header"
    assert said == [f"job b1 cannot be served here, tried again in 15 s: {reason}"]


async def test_set_aside_answers_that_the_others_can_go_on(tmp_path: Path) -> None:
    frontier = MemoryFrontier()
    jobs, engine = make(frontier)
    await frontier.open_job(spec("b1", tmp_path))
    await jobs.refresh(engine.holds)
    await until(lambda: jobs.current())
    [job] = jobs.current()
    assert jobs.set_aside(job, SinkError("disk full"))
    await jobs.refresh(engine.holds)
    assert jobs.current() == ()
    await jobs.close()
