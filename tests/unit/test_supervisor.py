"""What the parent of several processes tells its children, and hears from them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from shoal import Spider
from shoal.engine.tally import TallyReport
from shoal.engine.vitals import Vitals, memory_available
from shoal.runtime.channel import Word, framed
from shoal.runtime.plan import Plan
from shoal.runtime.processes import Child, Team
from shoal.settings import Settings
from shoal.spider.loading import SpiderSource


def team_of(**settings: object) -> Team:
    plan = Plan(Spider("team", "http://a.test/"), Settings(**settings), "job", output=Path("rows.jsonl"))  # type: ignore[arg-type]
    return Team(plan, SpiderSource("team"), "rows.jsonl")


async def hears(child: Child, *words: Word) -> str:
    line = asyncio.StreamReader()
    for word in words:
        line.feed_data(framed(word))
    line.feed_eof()
    return await child._listen(line)


def test_children_share_slots_and_memory() -> None:
    team = team_of(processes=3, concurrency=64)
    parts = [child._part.settings for child in team.children]
    assert [part.concurrency for part in parts] == [22, 22, 22]
    assert [part.memory_limit for part in parts] == [int(memory_available() * 0.8 / 3)] * 3


def test_a_memory_limit_is_that_of_each_process() -> None:
    [first, _] = team_of(processes=2, memory_limit=1 << 30).children
    assert first._part.settings.memory_limit == 1 << 30


async def test_one_child_under_pressure_pauses_the_feeding() -> None:
    team = team_of(processes=2)
    child = team.children[1]
    report = TallyReport(pages=1)
    await hears(child, Word(report=report, feeding_paused=True))
    assert team.feeding_paused
    await hears(child, Word(report=report))
    assert not team.feeding_paused


async def test_a_dead_child_holds_nothing_back() -> None:
    team = team_of(processes=2)
    child = team.children[0]
    await hears(child, Word(report=TallyReport(pages=1), feeding_paused=True))
    child._bank()
    assert not team.feeding_paused
    assert [report.pages for report in team.reports()] == [1]


async def test_a_dead_child_stays_counted_and_is_no_longer_there() -> None:
    [child, _] = team_of(processes=2).children
    for pages in (3, 4):
        vitals = Vitals(stale=1, cpu=2.0, processes=1, slots=8)
        await hears(child, Word(report=TallyReport(pages=pages, in_flight=5), vitals=vitals))
        assert child.vitals.processes == 1
        child._bank()
    assert child.vitals == Vitals(stale=2, cpu=4.0)
    assert [(report.pages, report.in_flight) for report in child.reports] == [(7, 0)]


async def test_a_child_that_falls_silent_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    child = team_of(processes=2).children[1]
    assert child.hangs == ""  # it does not run yet
    child._process = cast(asyncio.subprocess.Process, SimpleNamespace(returncode=None))
    await hears(child, Word(report=TallyReport(), trouble="the engine has not moved for 61 s"))
    assert child.hangs == "worker 2: the engine has not moved for 61 s"
    await hears(child, Word(report=TallyReport()))
    assert child.hangs == ""
    monkeypatch.setattr(child, "_heard_at", asyncio.get_running_loop().time() - 31)
    assert child.hangs == "worker 2: silent for 31 s"
    child._process = cast(asyncio.subprocess.Process, SimpleNamespace(returncode=-9))
    assert child.hangs == ""
