"""Turns at a result file, without a store. With real processes and signals: tests/crash/test_frozen_writer.py."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from shoal.errors import SinkError
from shoal.frontier.redis import filelock
from shoal.frontier.redis.filelock import FileTurns
from shoal.model import Row
from shoal.sink.jsonl import JsonLines


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelock, "_SILENCE", 0.2)


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    return tmp_path / ".rows.turn"


async def test_one_writes_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelock, "_SILENCE", 60.0)  # nobody is frozen, however slow the machine
    inside = 0

    async def write(turns: FileTurns) -> None:
        nonlocal inside
        for _ in range(5):
            async with turns.turn(JsonLines(tmp_path / "rows")):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0.01)
                inside -= 1

    await asyncio.gather(*(write(FileTurns()) for _ in range(3)))
    assert os.listdir(tmp_path) == []


async def test_a_silent_turn_is_over_and_writes_nothing(tmp_path: Path, beside: Path) -> None:
    one, two = JsonLines(tmp_path / "rows"), JsonLines(tmp_path / "rows")
    async with FileTurns().turn(one) as first:
        await first.append(0, [[Row(b"1\n")]])
        os.unlink(beside)  # as another does that has not seen a sign of life
        async with FileTurns().turn(two) as second:
            assert await first.append(0, [[Row(b"late\n")]]) is None
            assert await second.append(2, [[Row(b"2\n")]]) == [4]
        assert await first.append(0, [[Row(b"late\n")]]) is None
    assert (tmp_path / "rows").read_bytes() == b"1\n2\n"
    one.close()
    two.close()


async def test_a_name_is_kept_for_as_long_as_all_goes_well(tmp_path: Path) -> None:
    turns, journal, names = FileTurns(), JsonLines(tmp_path / "rows"), []
    for clean in (True, True, False, True):
        async with turns.turn(journal) as turn:
            names.append(turn.name)
            turn.clean = clean
    assert names[0] == names[1] == names[2] != names[3]


@pytest.mark.parametrize("kind", ["empty", "dangling link"])
async def test_what_a_crash_or_a_person_left_there_is_removed(
    tmp_path: Path, beside: Path, kind: str
) -> None:
    if kind == "empty":
        os.close(os.open(beside, os.O_CREAT))
    else:
        os.symlink("nowhere", beside)
    began = time.monotonic()
    async with FileTurns().turn(JsonLines(tmp_path / "rows")):
        assert 0.2 <= time.monotonic() - began < 5
    assert os.listdir(tmp_path) == []


async def test_a_folder_in_its_place_is_said(tmp_path: Path, beside: Path) -> None:
    os.mkdir(beside)
    with pytest.raises(
        SinkError, match=r"cannot write .*rows: .*its folder must be writable \(\.rows\.turn\)"
    ):
        async with asyncio.timeout(60), FileTurns().turn(JsonLines(tmp_path / "rows")):
            pass
