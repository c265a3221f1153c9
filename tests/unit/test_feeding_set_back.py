"""Feeding a store that goes back: it is given again what it has forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from shoal import Spider
from shoal.admit import Admission
from shoal.engine.feeder import LASTS, Feeder, RecentlyFed
from shoal.engine.tally import Tally
from shoal.errors import StoreError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import OWN_START, Cursor, Job, JobSpec
from shoal.jobs.note import write_note
from shoal.model import Task
from shoal.runtime.coordinator import Feeders
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.testing.conformance.tools import make_task
from shoal.testing.simulation.virtual import SimulatedClock, VirtualLoop

FEW = 10


def urls(count: int, first: int = 0) -> list[str]:
    return [f"http://a.test/{number}" for number in range(first, first + count)]


def play(story: Callable[[MemoryFrontier], Coroutine[Any, Any, None]]) -> None:
    """In virtual time, with a store that may go back."""

    async def with_a_store() -> None:
        frontier = MemoryFrontier(SimulatedClock(asyncio.get_running_loop()))
        note = write_note(b"", Settings(), "coordinator")
        await frontier.open_job(JobSpec("job", spider="feeding", settings=note), OWN_START)
        frontier.epoch = "0"
        await story(frontier)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(with_a_store())


def spider_of(start: object) -> Spider:
    spider = Spider("feeding", start)  # type: ignore[arg-type]
    spider.add_handler(lambda page: None, name="page")
    return spider


def feeder_of(
    frontier: MemoryFrontier, start: object, tally: Tally | None = None, **settings: object
) -> Feeder:
    spider, limits = spider_of(start), Settings(**settings)  # type: ignore[arg-type]
    admission = Admission(limits, spider.start_urls_known())
    return Feeder(spider, frontier, admission, limits, tally or Tally(), job="job")


async def job_of(frontier: MemoryFrontier) -> Job:
    job = await frontier.job("job")
    assert job is not None
    return job


async def slow(*parts: list[str], pause: float = 5.0) -> AsyncIterator[str]:
    for part in parts:
        for url in part:
            yield url
        await asyncio.sleep(pause)


def test_what_was_given_in_the_last_seconds_is_given_again_while_the_source_waits() -> None:
    """Without asking the source: it may be a queue that gives nothing twice."""
    begun = 0

    def source() -> AsyncIterator[str]:
        nonlocal begun
        begun += 1
        return slow(urls(3), urls(2, 3))

    async def story(frontier: MemoryFrontier) -> None:
        feeding = asyncio.create_task(feeder_of(frontier, source).feed())
        saved = frontier.saved()
        await asyncio.sleep(1.0)
        assert (await job_of(frontier)).fed == 3
        frontier.go_back(saved)
        await asyncio.sleep(1.0)
        assert (await job_of(frontier)).fed == 3
        assert (await job_of(frontier)).counters.admitted == 3
        await feeding
        assert (await job_of(frontier)).counters.admitted == 5

    play(story)
    assert begun == 1


def test_it_stays_until_the_store_will_not_forget_the_last_of_it() -> None:
    async def story(frontier: MemoryFrontier) -> None:
        saved = frontier.saved()
        feeding = asyncio.create_task(feeder_of(frontier, urls(4)).feed())
        await asyncio.sleep(1.0)
        assert (await job_of(frontier)).fed_all
        for _ in range(2):
            frontier.go_back(saved)
        await feeding
        assert (await job_of(frontier)).fed_all
        assert (await job_of(frontier)).counters.admitted == 4

    play(story)


@pytest.mark.parametrize("after", [10.0, 10 * LASTS])
def test_a_crawl_feeds_again_what_it_had_fed_to_the_end(after: float) -> None:
    """From memory, or from the source if that is long ago."""

    async def story(frontier: MemoryFrontier) -> None:
        saved = frontier.saved()
        feeding = asyncio.create_task(feeder_of(frontier, urls(4)).feed(stays=True))
        for _ in range(2):
            await asyncio.sleep(after)
            assert (await job_of(frontier)).fed_all
            frontier.go_back(saved)
            await frontier.now()
        await asyncio.sleep(2.0)
        assert not feeding.done()
        assert (await job_of(frontier)).fed_all
        assert (await job_of(frontier)).counters.admitted == 4
        feeding.cancel()

    play(story)


def test_a_store_that_never_goes_back_is_not_waited_for() -> None:
    async def story(frontier: MemoryFrontier) -> None:
        frontier.epoch = ""
        await feeder_of(frontier, urls(4)).feed(stays=True)
        assert asyncio.get_running_loop().time() == 0.0

    play(story)


def test_a_batch_on_its_way_when_the_store_goes_back_commits_no_later_position() -> None:
    """The rest of the source was read meanwhile. Its end was committed with the old batch, and not the rest of it."""

    async def story(frontier: MemoryFrontier) -> None:
        real, adds = frontier.add, []

        async def add(job: str, tasks: list[Task], cursor: Cursor, **named: Any) -> Any:
            adds.append(cursor.fed)
            if len(adds) == 1:
                frontier.go_back(frontier.saved())
                await asyncio.sleep(1.0)
            return await real(job, tasks, cursor, **named)

        frontier.add = add  # type: ignore[method-assign]
        await feeder_of(frontier, lambda: slow(urls(2), urls(3, 2), pause=0.3)).feed()
        assert adds == [2, 2, 5]

    play(story)


@pytest.mark.parametrize("fails", [True, False])
def test_a_look_at_the_job_before_a_batch_loses_nothing(fails: bool) -> None:
    """Whether it fails or takes long: what is read meanwhile is not committed with a batch that it is not in."""

    async def story(frontier: MemoryFrontier) -> None:
        real, looks, adds = frontier.job, 0, []

        async def job(name: str) -> Job | None:
            nonlocal looks
            looks += 1
            if looks == 3:
                await asyncio.sleep(0.4)
                if fails:
                    raise StoreError("not now")
            return await real(name)

        add = frontier.add

        async def noted(job: str, tasks: list[Task], cursor: Cursor, **named: Any) -> Any:
            adds.append((len(tasks), cursor.fed))
            return await add(job, tasks, cursor, **named)

        frontier.job, frontier.add = job, noted  # type: ignore[method-assign]
        feeding = feeder_of(frontier, lambda: slow(*([url] for url in urls(8)), pause=0.15)).feed()
        if fails:
            with pytest.raises(StoreError, match="not now"):
                await feeding
        else:
            await feeding
        given = 0
        for count, fed in adds:
            given += count
            assert given == fed, adds

    play(story)


@pytest.mark.parametrize("kind", ["list", "file", "function"])
def test_what_is_too_much_to_be_remembered_is_read_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.engine.feeder._MOST", FEW)
    tally = Tally()
    given = [*urls(FEW * 3), "gopher://a.test/", *urls(FEW, FEW * 3)]
    path = tmp_path / "urls.txt"
    path.write_text("\n".join(given))
    source: object = {"list": given, "file": path, "function": lambda: slow(given, pause=0.0)}[kind]

    async def story(frontier: MemoryFrontier) -> None:
        saved = frontier.saved()
        feeding = asyncio.create_task(feeder_of(frontier, source, tally, high_water=1000).feed())
        await asyncio.sleep(0.5)
        assert (await job_of(frontier)).fed_all
        frontier.go_back(saved)
        await feeding
        assert (await job_of(frontier)).counters.admitted == 4 * FEW

    monkeypatch.setattr("shoal.engine.feeder._BATCH", FEW)
    play(story)
    assert tally.report().refused == {"scheme": 1}, "what is read again is not counted again"


def test_standard_input_that_was_forgotten_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lines() -> AsyncIterator[str]:
        for url in urls(4 * FEW):
            yield url

    monkeypatch.setattr("shoal.engine.feeder._MOST", FEW)
    monkeypatch.setattr("shoal.engine.feeder._BATCH", FEW)
    monkeypatch.setattr("shoal.spider.spider.lines_of_stdin", lines)

    async def story(frontier: MemoryFrontier) -> None:
        saved = frontier.saved()
        feeding = asyncio.create_task(feeder_of(frontier, [Path("-")]).feed())
        await asyncio.sleep(0.5)
        frontier.go_back(saved)
        said = "knows 0 of the 40 start URLs it was given; give it all of them once more"
        with pytest.raises(StoreError, match=said):
            await feeding

    play(story)


def test_a_job_that_was_forgotten_is_to_be_made_again() -> None:
    async def story(frontier: MemoryFrontier) -> None:
        saved = MemoryFrontier().saved()
        feeding = asyncio.create_task(feeder_of(frontier, lambda: slow(urls(3), urls(2, 3))).feed())
        await asyncio.sleep(1.0)
        frontier.go_back(saved)
        with pytest.raises(StoreError, match="before job job was made; run the same command again"):
            await feeding

    play(story)


def test_a_coordinator_feeds_again_what_it_had_fed_to_the_end() -> None:
    """Also if nobody looked between the end and the set-back: a feeder waited for somebody to see the end, for ever."""

    async def story(frontier: MemoryFrontier) -> None:
        feeders = Feeders(
            frontier, WorkerPlan((), "memory"), {"feeding": spider_of(urls(3))}, name="me", lease=5
        )
        saved = frontier.saved()
        feeders.tend(await frontier.jobs())
        for _ in range(3):
            await asyncio.sleep(4.0)
            assert (await job_of(frontier)).fed_all
            frontier.go_back(saved)
            feeders.tend(await frontier.jobs())
            feeders.tend(await frontier.jobs())
        await feeders.stop()

    play(story)


# -- what is remembered


def test_what_is_remembered_is_bounded_by_time() -> None:
    recent = RecentlyFed(5, anew=False)
    recent.add([make_task("http://a.test/1")], 6, 0.0)
    recent.add([make_task("http://a.test/2")], 7, LASTS)
    assert recent.since(4) is None
    assert [len(recent.since(fed) or ()) for fed in (5, 6, 7)] == [2, 1, 0], "no more than is forgotten"
    recent.forget(LASTS + 0.1)
    assert recent.since(5) is None
    assert [len(recent.since(fed) or ()) for fed in (6, 7)] == [1, 0]
    recent.forget(2 * LASTS + 0.1)
    assert not recent
    assert recent.since(7) == []


def test_a_position_of_another_time_says_nothing_about_a_source_that_is_read_anew() -> None:
    """A start function gave 9 URLs to a process that died. The next one has given 2, and the store forgets that."""
    recent = RecentlyFed(0, anew=True)
    recent.add([make_task("http://a.test/1")], 1, 0.0)
    recent.add([make_task("http://a.test/2")], 2, 1.0)
    assert len(recent.since(9) or ()) == 2
    recent.forget(LASTS + 0.5)
    assert recent.since(9) is None
