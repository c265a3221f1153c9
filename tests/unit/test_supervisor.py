"""What the parent of several processes tells its children, and hears from them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec

from shoal import Spider
from shoal.observe.machine import memory_available
from shoal.observe.tally import TallyReport
from shoal.plan import Plan
from shoal.settings import Settings
from shoal.source import SpiderSource
from shoal.supervisor import Child, Team, Word


def team_of(**settings: object) -> Team:
    plan = Plan(Spider("team", "http://a.test/"), Settings(**settings), "job", output=Path("rows.jsonl"))  # type: ignore[arg-type]
    return Team(plan, SpiderSource("team"), "rows.jsonl")


async def hears(child: Child, *words: Word) -> str:
    stdout = asyncio.StreamReader()
    for word in words:
        stdout.feed_data(msgspec.json.encode(word) + b"\n")
    stdout.feed_eof()
    return await child._listen(cast(asyncio.subprocess.Process, SimpleNamespace(stdout=stdout)))


def test_children_share_slots_and_memory() -> None:
    team = team_of(processes=3, concurrency=64)
    parts = [child._part.settings for child in team._children]
    assert [part.concurrency for part in parts] == [22, 22, 22]
    assert [part.memory_limit for part in parts] == [int(memory_available() * 0.8 / 3)] * 3


def test_a_memory_limit_is_that_of_each_process() -> None:
    [first, _] = team_of(processes=2, memory_limit=1 << 30)._children
    assert first._part.settings.memory_limit == 1 << 30


async def test_one_child_under_pressure_pauses_the_feeding() -> None:
    team = team_of(processes=2)
    child = team._children[1]
    report = TallyReport(pages=1)
    await hears(child, Word(report=report, feeding_paused=True))
    assert team.feeding_paused
    await hears(child, Word(report=report))
    assert not team.feeding_paused


async def test_a_dead_child_holds_nothing_back() -> None:
    team = team_of(processes=2)
    child = team._children[0]
    await hears(child, Word(report=TallyReport(pages=1), feeding_paused=True))
    child._bank()
    assert not team.feeding_paused
    assert [report.pages for report in team.reports()] == [1]
