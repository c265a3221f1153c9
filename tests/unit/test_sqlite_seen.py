"""The seen-set in two tables: the same answers as one set gives, and small moves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.frontier.clock import Timebase
from shoal.frontier.sqlite import SqliteFrontier, seen
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.schema import connect
from shoal.frontier.sqlite.seen import forget, is_seen, merge_some, see
from shoal.frontier.values import JobSpec
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

Mark = tuple[int, int, int]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(seen, "RECENT", 200)
    monkeypatch.setattr(seen, "SLICE", 20)
    session = Session(connect(":memory:"), Timebase(ManualClock()))
    yield session
    session.close()


def add(session: Session, marks: list[Mark]) -> int:
    new = sum(see(session, mark) for mark in marks)
    merge_some(session, new)
    return new


def tables(session: Session) -> tuple[set[Mark], set[Mark]]:
    """What is in `recent` and in `seen`. Nothing is in both, and the count is right."""
    recent, older = (set(session.all(f"SELECT job, host, hash FROM {table}")) for table in ("recent", "seen"))
    assert not recent & older
    assert session.value("SELECT recent FROM merging") == len(recent)
    return recent, older  # type: ignore[return-value]


def some(dice: random.Random, count: int) -> list[Mark]:
    return [(dice.randrange(1, 3), dice.randrange(1, 6), dice.getrandbits(63)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_it_answers_as_one_set(session: Session, seed: int) -> None:
    dice, known = random.Random(seed), set[Mark]()
    for _ in range(60):
        marks = some(dice, dice.choice((1, 5, 60, 500))) + dice.sample(sorted(known), min(20, len(known)))
        dice.shuffle(marks)
        assert add(session, marks) == len(set(marks) - known)
        known |= set(marks)
        if dice.random() < 0.3:
            gone = dice.sample(sorted(known), min(30, len(known)))
            forget(session, gone)
            known -= set(gone)
            assert not any(is_seen(session, mark) for mark in gone)
        recent, older = tables(session)
        assert recent | older == known
    assert all(is_seen(session, mark) for mark in known)
    assert not any(is_seen(session, mark) for mark in some(dice, 100))
    assert older


def test_a_transaction_moves_hardly_more_than_it_adds(session: Session) -> None:
    dice, before = random.Random(0), 0
    for count in (100, 3, 50, 50, 1, 40, 40, 7, 90) * 4:
        add(session, some(dice, count))
        recent, older = tables(session)
        assert len(older) - before < count + seen.SLICE
        assert len(recent) < seen.RECENT + seen.SLICE
        before = len(older)


def test_neighbours_move_and_the_next_ones_after_them(session: Session) -> None:
    add(session, [(1, 1, number) for number in range(220)])
    assert tables(session)[1] == {(1, 1, number) for number in range(20)}
    add(session, [(1, 1, number) for number in range(1000, 1030)])
    assert tables(session)[1] == {(1, 1, number) for number in range(50)}


def test_a_move_goes_round(session: Session) -> None:
    session.db.execute("UPDATE merging SET job = 1, host = 1, hash = 210")
    add(session, [(1, 1, number) for number in range(220)])
    assert tables(session)[1] == {(1, 1, number) for number in (*range(11), *range(211, 220))}


async def test_a_job_that_is_dropped_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "RECENT", 20)
    monkeypatch.setattr(seen, "SLICE", 5)
    async with SqliteFrontier(tmp_path / "s.db") as frontier:
        for job in ("job", "other"):
            await frontier.open_job(JobSpec(job))
            await frontier.add(job, [make_task(f"http://a.test/{n}") for n in range(50)])
        await frontier.drop_job("job")
        recent, older = await frontier._writer.do(tables)
        assert {job for job, _, _ in recent | older} == {2}
        assert len(recent | older) == 50


async def test_a_failed_add_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "RECENT", 20)
    monkeypatch.setattr(seen, "SLICE", 5)

    def fail(session: Session) -> None:
        add(session, [(1, 1, number) for number in range(100, 140)])
        assert len(tables(session)[1]) > 20
        raise ZeroDivisionError

    async with SqliteFrontier(tmp_path / "s.db") as frontier:
        await frontier.open_job(JobSpec("job"))
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(40)])
        before = await frontier._writer.do(tables)
        with pytest.raises(ZeroDivisionError):
            await frontier._writer.do(fail)
        assert await frontier._writer.do(tables) == before
        again = await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(41)])
        assert (again.new, again.duplicates) == (1, 40)
