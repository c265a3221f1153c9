"""What the parent of several processes tells its children, and hears from them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from shoal.engine.tally import TallyReport
from shoal.engine.vitals import Vitals, memory_available
from shoal.errors import ShoalError
from shoal.runtime.supervisor import Child, ChildMessage, Supervisor, framed
from shoal.runtime.worker_plan import CrawlPlan, WorkerPlan
from shoal.settings import Settings
from shoal.spider.loading import SpiderSource


def supervisor_of(count: int, **settings: object) -> Supervisor:
    crawl = CrawlPlan(SpiderSource("team"), Settings(**settings), "job", "rows.jsonl")  # type: ignore[arg-type]
    return Supervisor(WorkerPlan((), "store.db", crawl=crawl), count)


def settings_of(child: Child) -> Settings:
    return child._plan.settings()


async def hears(child: Child, *messages: ChildMessage) -> str:
    line = asyncio.StreamReader()
    for message in messages:
        line.feed_data(framed(message))
    line.feed_eof()
    return await child._listen(line)


def test_children_share_slots_and_memory() -> None:
    supervisor = supervisor_of(3, concurrency=64)
    parts = [settings_of(child) for child in supervisor.children]
    assert [part.concurrency for part in parts] == [22, 22, 22]
    assert [part.memory_limit for part in parts] == [int(memory_available() * 0.8 / 3)] * 3


def test_a_memory_limit_is_that_of_each_process() -> None:
    [first, _] = supervisor_of(2, memory_limit=1 << 30).children
    assert settings_of(first).memory_limit == 1 << 30


async def test_one_child_under_pressure_pauses_the_feeding() -> None:
    supervisor = supervisor_of(2)
    child = supervisor.children[1]
    report = TallyReport(pages=1)
    await hears(child, ChildMessage(report=report, feeding_paused=True))
    assert supervisor.feeding_paused()
    await hears(child, ChildMessage(report=report))
    assert not supervisor.feeding_paused()


async def test_a_dead_child_holds_nothing_back() -> None:
    supervisor = supervisor_of(2)
    child = supervisor.children[0]
    await hears(child, ChildMessage(report=TallyReport(pages=1), feeding_paused=True))
    child._bank()
    assert not supervisor.feeding_paused()
    assert supervisor.report().pages == 1


async def test_a_dead_child_stays_counted_and_is_no_longer_there() -> None:
    [child, _] = supervisor_of(2).children
    for pages in (3, 4):
        vitals = Vitals(stale=1, cpu=2.0, processes=1, slots=8)
        await hears(child, ChildMessage(report=TallyReport(pages=pages, in_flight=5), vitals=vitals))
        assert child.vitals().processes == 1
        child._bank()
    assert child.vitals() == Vitals(stale=2, cpu=4.0)
    assert [(report.pages, report.in_flight) for report in child.reports] == [(7, 0)]


async def test_a_child_that_falls_silent_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    child = supervisor_of(2).children[1]
    assert child.hangs() == ""  # it does not run yet
    child._process = cast(asyncio.subprocess.Process, SimpleNamespace(returncode=None))
    await hears(child, ChildMessage(report=TallyReport(), trouble="the engine has not moved for 61 s"))
    assert child.hangs() == "worker 2: the engine has not moved for 61 s"
    await hears(child, ChildMessage(report=TallyReport()))
    assert child.hangs() == ""
    monkeypatch.setattr(child, "_heard_at", asyncio.get_running_loop().time() - 31)
    assert child.hangs() == "worker 2: silent for 31 s"
    child._process = cast(asyncio.subprocess.Process, SimpleNamespace(returncode=-9))
    assert child.hangs() == ""


async def test_the_error_of_one_ends_the_others_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the time to hand their pages back; killed, they would lose an attempt of each."""
    supervisor = supervisor_of(2)
    failing, other = supervisor.children
    told, ended = asyncio.Event(), False

    async def fail() -> None:
        raise ShoalError("cannot write rows.csv")

    async def work() -> None:
        nonlocal ended
        await told.wait()
        await asyncio.sleep(0.01)
        ended = True

    monkeypatch.setattr(failing, "run", fail)
    monkeypatch.setattr(other, "run", work)
    monkeypatch.setattr(other, "force", told.set)
    with pytest.raises(ShoalError, match=r"rows\.csv"):
        await supervisor.run()
    assert ended
