"""Feeding start URLs: streamed, in batches, with a cursor that is committed, and only while there is room."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shoal import Request, Spider
from shoal.admit import Admission
from shoal.engine.feeder import Feeder
from shoal.engine.tally import Tally
from shoal.errors import SpiderError, StoreError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import OWN_START, Added, Claim, Cursor, Job, JobSpec, Source
from shoal.inspect.actions import set_for_hosts
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Done, Settlement, Task
from shoal.policy.backpressure import Reason
from shoal.settings import Settings
from shoal.valve import Valve

DEADLINE = 60.0


class Watched(MemoryFrontier):
    """Notes every batch (how many tasks, how far the cursor, whether it was the last) and every look at the job."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[int, int | None, bool]] = []
        self.looks = 0

    async def job(self, name: str) -> Job | None:
        self.looks += 1
        return await super().job(name)

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        assert cursor is not None
        self.batches.append((len(tasks), cursor.fed, cursor.fed_all))
        return await super().add(job, tasks, cursor, epoch=epoch)

    async def drain(self, count: int) -> None:
        claimed = await self.claim(Claim("w", ["job"], {"normal": count}, count))
        await self.settle([Settlement(lease, Done()) for lease in claimed.leases])


@pytest.fixture
async def frontier() -> Watched:
    frontier = Watched()
    await frontier.open_job(JobSpec("job", valve=Valve(cap=1_000_000)))
    return frontier


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feeder's pauses, short enough for a test."""
    monkeypatch.setattr("shoal.engine.feeder._LOOK_AGAIN", 0.005)
    monkeypatch.setattr("shoal.engine.feeder._LINGER", 0.005)
    monkeypatch.setattr("shoal.engine.feeder._HEARD", 0.01)


def feeder_of(
    frontier: Watched,
    start: object,
    tally: Tally | None = None,
    paused: Callable[[], bool] = lambda: False,
    **settings: object,
) -> Feeder:
    spider = Spider("feeding", start)  # type: ignore[arg-type]
    spider.add_handler(lambda page: None, name="page")
    limits = Settings(**settings)  # type: ignore[arg-type]
    admission = Admission(limits, spider.start_urls_known())
    return Feeder(spider, frontier, admission, limits, tally or Tally(), job="job", paused=paused)


async def feed(feeder: Feeder) -> None:
    async with asyncio.timeout(DEADLINE):
        await feeder.feed()


async def job_of(frontier: Watched) -> Job:
    job = await frontier.job("job")
    assert job is not None
    return job


def urls(count: int) -> Iterator[str]:
    return (f"http://a.test/{n}" for n in range(count))


async def looks_again(frontier: Watched) -> None:
    """Waits until the feeder has looked a few more times whether there is room."""
    before = frontier.looks
    await eventually(lambda: frontier.looks > before + 3)


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 (what is waited for does not know of us)
            await asyncio.sleep(0.001)


# -- all of it


async def test_a_list_is_added_at_once_and_marked_as_all(frontier: Watched) -> None:
    await feed(feeder_of(frontier, list(urls(3))))
    assert frontier.batches == [(3, 3, True)]
    job = await job_of(frontier)
    assert (job.fed, job.fed_all, job.counters.pending) == (3, True, 3)


async def test_many_go_in_batches(frontier: Watched) -> None:
    await feed(feeder_of(frontier, lambda: urls(12_000)))
    assert [count for count, _, _ in frontier.batches] == [5_000, 5_000, 2_000]
    assert frontier.batches[-1] == (2_000, 12_000, True)


async def test_nothing_to_start_with_ends_the_job(frontier: Watched) -> None:
    await feed(feeder_of(frontier, []))
    assert (await job_of(frontier)).exhausted


async def test_junk_is_counted_and_passed_over(frontier: Watched, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("http://a.test/1\nnot a url\n# a comment\n\nmailto:me@a.test\nhttp://a.test/2\n")
    tally = Tally()
    await feed(feeder_of(frontier, file, tally))
    assert frontier.batches == [(2, 4, True)]
    assert tally.report().refused == {"not a URL": 1, "scheme": 1}


async def test_requests_keep_what_they_ask_for(frontier: Watched) -> None:
    await feed(feeder_of(frontier, [Request("http://a.test/x", priority=4, lane="urgent", meta={"a": 1})]))
    [lease] = (await frontier.claim(Claim("w", ["job"], {"urgent": 1}, 1))).leases
    assert (lease.task.priority, lease.task.meta) == (4, {"a": 1})


async def test_a_request_that_cannot_be_stored_is_an_error(frontier: Watched) -> None:
    start = [Request("http://a.test/1"), Request("http://a.test/2", meta={"html": "x" * 300_000})]
    with pytest.raises(
        SpiderError, match=r"start request 2: its meta has 300,0.. bytes; 262,144 are the most"
    ):
        await feed(feeder_of(frontier, start))


async def test_a_lane_that_nobody_serves_is_an_error(frontier: Watched) -> None:
    """Its task would lie in its queue for ever."""
    start = [Request("http://a.test/1", lane="images"), Request("http://a.test/2", lane="pictures")]
    with pytest.raises(SpiderError, match=r"start request 2: there is no lane 'pictures'; .*images"):
        await feed(feeder_of(frontier, start, lanes={"images": 2}))


# -- going on


async def test_a_list_goes_on_behind_the_cursor(frontier: Watched) -> None:
    await frontier.add("job", [], Cursor(fed=2))
    await feed(feeder_of(frontier, list(urls(5))))
    assert frontier.batches[-1] == (3, 5, True)


async def test_a_function_is_read_again_and_deduplicated(frontier: Watched) -> None:
    await feed(feeder_of(frontier, lambda: urls(2)))
    frontier._jobs["job"].sources[OWN_START] = Source(2)  # as if it had been killed before the end
    await feed(feeder_of(frontier, lambda: urls(5)))
    job = await job_of(frontier)
    assert (job.counters.admitted, job.counters.duplicates) == (5, 2)


async def test_what_is_all_fed_is_not_read_again(frontier: Watched) -> None:
    await feed(feeder_of(frontier, list(urls(3))))

    def never() -> Iterator[str]:
        raise AssertionError("read again")

    await feed(feeder_of(frontier, never))


async def test_what_came_before_an_error_is_not_marked_as_all(frontier: Watched) -> None:
    def breaks() -> Iterator[str]:
        yield from urls(2)
        raise RuntimeError("the database went away")

    said = r"test_feeding\.py:\d+: the start of spider 'feeding' failed after start request 2: RuntimeError: the dat"
    with pytest.raises(SpiderError, match=said):
        await feed(feeder_of(frontier, breaks))
    job = await job_of(frontier)
    assert not job.fed_all
    assert job.counters.pending == 2, "what came before is kept"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"meta": {"d": object()}}, "its meta cannot be stored: Encoding objects of type object"),
        ({"handler": "nobody"}, "spider 'feeding' has no handler named 'nobody'; it has page"),
        ({"lane": "nowhere"}, "there is no lane 'nowhere'"),
        ({"body": b"x" * 20_000_000}, "its body has 20,000,000 bytes"),
    ],
)
async def test_a_request_that_cannot_be_stored_is_told_with_its_line(
    frontier: Watched, problem: dict[str, Any], said: str
) -> None:
    async def gives() -> AsyncIterator[str | Request]:
        yield "http://a.test/1"
        yield Request("http://u:secret@a.test/2", **problem)

    with pytest.raises(SpiderError) as told:
        await feed(feeder_of(frontier, gives))
    line = gives.__code__.co_firstlineno + 2
    assert f"test_feeding.py:{line}: start request 2: {said}" in str(told.value)
    assert str(told.value).endswith("(http://a.test/2)")
    job = await job_of(frontier)
    assert (job.counters.pending, job.fed, job.fed_all) == (1, 1, False)


async def test_refused_lines_of_a_file_are_told_with_their_numbers(
    frontier: Watched, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "urls.txt"
    file.write_text(
        "# these\nhttp://a.test/1\n\nhttp//a.test/2\nhttp://a.test/3\nhtp://a.test/4\n" + "x\n" * 50
    )
    tally = Tally()
    await feed(feeder_of(frontier, file, tally))
    assert (await job_of(frontier)).counters.admitted == 2
    assert tally.report().refused == {"not a URL": 51, "scheme": 1}
    told = [record.message for record in caplog.records]
    assert told[:2] == [
        f"{file}:4: http//a.test/2 is not crawled: not a URL; did you mean http://a.test/2?",
        f"{file}:6: htp://a.test/4 is not crawled: scheme; did you mean http://a.test/4?",
    ]
    assert len(told) == 20


async def test_lines_that_are_not_utf_8_are_told_and_never_fetched_as_another_url(
    frontier: Watched, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "urls.txt"
    file.write_bytes(b"http://a.test/1\nhttp://a.test/\xe9\nhttp://me:secret@a.test/\xe9\n")
    await feed(feeder_of(frontier, file))
    assert (await job_of(frontier)).counters.admitted == 1
    said = "not UTF-8 (save the file as UTF-8): http://a.test/\\xe9 is not crawled: not a URL"
    told = [record.message for record in caplog.records]
    assert told[0] == f"{file}:2: {said}"
    assert len(told) == 2
    assert "secret" not in caplog.text


async def test_a_line_without_end_is_refused_by_its_number_and_never_in_memory(
    frontier: Watched, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "urls.txt"
    with file.open("wb") as output:
        output.write(b"http://a.test/1\nhttp://me:secret@a.test/")
        output.truncate(2**26)  # zeros, up to here
        output.seek(0, 2)
        output.write(
            b"\n\xef\xbb\xbfhttp://a.test/3\n" + b"x" * 2**21 + b"\n# " + b"y" * 2**21 + b"\nhttp://a.test/6"
        )
    tally = Tally()
    tracemalloc.start()
    try:
        await feed(feeder_of(frontier, file, tally, max_url_length=2**40))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24
    claimed = await frontier.claim(Claim("w", ["job"], {"normal": 9}, 9))
    assert sorted(lease.task.url for lease in claimed.leases) == [f"http://a.test/{n}" for n in (1, 3, 6)]
    assert tally.report().refused == {"line longer than 1,048,576 characters": 2}
    assert [record.message.partition(": ")[0] for record in caplog.records] == [f"{file}:2", f"{file}:4"]
    assert "secret" not in caplog.text
    assert max(len(record.message) for record in caplog.records) < 1_000


# -- backpressure


@pytest.mark.usefixtures("quick")
async def test_a_full_queue_stops_the_source(frontier: Watched) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"http://a.test/{read}"

    feeding = asyncio.create_task(feed(feeder_of(frontier, endless, high_water=10)))
    try:
        await eventually(lambda: read == 10)
        await looks_again(frontier)
        assert read == 10
        await frontier.drain(4)
        await looks_again(frontier)
        assert read == 10, "it goes on at half the mark, not at every page that leaves"
        await frontier.drain(2)
        await eventually(lambda: read == 20)
    finally:
        feeding.cancel()


@pytest.mark.usefixtures("quick")
async def test_a_full_queue_stops_the_source_later_while_most_slots_are_idle(
    frontier: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """A list by host fills the queue with pages of a few hosts."""
    caplog.set_level("INFO", "shoal")
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"http://a.test/{read}"

    async def use(slots: int, *pressure: Reason) -> None:
        status = WorkerStatus(job="job", slots=20, in_flight=slots + 7, waiting=7, pressure=pressure)
        await frontier.extend("w", 30.0, encode_status(status), ())

    await use(10)
    feeding = asyncio.create_task(feed(feeder_of(frontier, endless, high_water=10)))
    try:
        await eventually(lambda: read == 10)
        await looks_again(frontier)
        assert read == 10, "half of the slots are busy"
        await use(2, Reason("sink", "finished pages wait"))
        await looks_again(frontier)
        assert read == 10, "the others were taken away"
        await use(9, Reason("queue_full", "the queue is full"))
        await eventually(lambda: read == 50)
        await looks_again(frontier)
        assert read == 50, "five times as many, and no more"
        said = [record.getMessage() for record in caplog.records]
        assert [line.split()[6] for line in said if "goes on until" in line] == ["20", "40", "50"]
        await use(20)
        await frontier.drain(45)
        await eventually(lambda: read == 60)
        await looks_again(frontier)
        assert read == 60, "the mark is the usual one again"
    finally:
        feeding.cancel()


@pytest.mark.usefixtures("quick")
async def test_backpressure_stops_the_source(frontier: Watched) -> None:
    paused = True
    feeding = asyncio.create_task(
        feed(feeder_of(frontier, lambda: urls(25), paused=lambda: paused, high_water=10))
    )
    await eventually(lambda: frontier.batches)
    await frontier.drain(10)
    await looks_again(frontier)
    assert len(frontier.batches) == 1, "the queue is empty, but the crawl has other worries"
    paused = False
    await frontier.drain(10)
    await eventually(lambda: len(frontier.batches) == 2)
    await frontier.drain(10)
    await feeding
    assert (await job_of(frontier)).fed_all


@pytest.mark.usefixtures("quick")
async def test_a_full_queue_stops_a_source_that_trickles(frontier: Watched) -> None:
    """Its URLs never make a whole batch: they are flushed after a while, and count all the same."""
    read = 0

    async def trickle() -> AsyncIterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"http://a.test/{read}"
            await asyncio.sleep(0.001)

    feeding = asyncio.create_task(feed(feeder_of(frontier, trickle, high_water=30)))
    try:
        await eventually(lambda: read == 30)
        await looks_again(frontier)
        assert read == 30
        assert len(frontier.batches) > 1, "they did not wait for a whole batch"
    finally:
        feeding.cancel()


@pytest.mark.usefixtures("quick")
async def test_a_source_that_waits_has_its_urls_crawled_meanwhile(frontier: Watched) -> None:
    more = asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        yield "http://a.test/1"
        await more.wait()
        yield "http://a.test/2"

    feeding = asyncio.create_task(feed(feeder_of(frontier, slow)))
    await eventually(lambda: frontier.batches)
    assert frontier.batches == [(1, 1, False)]
    more.set()
    await feeding
    assert frontier.batches[-1] == (1, 2, True)


async def test_no_feeding_goes_on_after_the_end(frontier: Watched) -> None:
    before = asyncio.all_tasks()
    await feed(feeder_of(frontier, list(urls(3))))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


# -- a store that fails


async def test_what_follows_a_batch_that_was_lost_is_not_committed(frontier: Watched, quick: None) -> None:
    """A cursor beyond the lost batch would leave it out for good."""
    add, failed = frontier.add, asyncio.Event()

    async def fails_once(*given: Any, **named: Any) -> Added:
        if not failed.is_set():
            failed.set()
            raise StoreError("the store cannot be used")
        return await add(*given, **named)

    async def slow() -> AsyncIterator[str]:
        yield "http://a.test/first"
        await failed.wait()
        yield "http://a.test/second"

    frontier.add = fails_once  # type: ignore[assignment,method-assign]
    with pytest.raises(StoreError):
        await feed(feeder_of(frontier, slow))
    assert frontier.batches == []

    await feed(feeder_of(frontier, slow))
    job = await job_of(frontier)
    assert (job.fed_all, job.counters.pending) == (True, 2)


# -- who wrote them


@pytest.mark.parametrize(
    ("start", "trust", "typed"),
    [
        (["http://a.test/"], False, True),
        (lambda: ["http://a.test/"], False, False),
        (lambda: ["http://a.test/"], True, True),
    ],
)
async def test_tasks_say_whether_a_person_typed_them(
    frontier: Watched, start: object, trust: bool, typed: bool
) -> None:
    await feed(feeder_of(frontier, start, trust_start=trust))
    [lease] = (await frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))).leases
    assert lease.task.typed is typed


async def test_a_host_may_have_a_lane_of_its_own() -> None:
    """By hand in the store; in a lane that nobody knows, its pages would lie for ever."""
    frontier = Watched()
    await frontier.open_job(JobSpec("job"))
    await set_for_hosts(frontier, "*.test", {"lane": "urgent"})
    await set_for_hosts(frontier, "b.test", {"lane": "elsewhere"})
    start = ["http://a.test/", "http://b.test/", Request("http://c.test/", lane="discovery")]
    await feed(feeder_of(frontier, start))
    assert await frontier.lanes() == {"urgent": 1, "normal": 1, "discovery": 1}
