"""What is opened, and what is refused with one line that says what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from shoal.errors import StoreError, StoreVersionError
from shoal.frontier.protocol import JobSpec
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.schema import VERSION, connect
from shoal.testing.conformance.tools import make_task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def refusal(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        connect(str(path))
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return caught.value


def test_a_new_file_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "store.db"
    connect(str(path)).close()
    db = connect(str(path))
    assert db.pragma("user_version") == VERSION
    assert db.pragma("journal_mode") == "wal"
    assert db.pragma("synchronous") == 2, "FULL: what is committed survives a power cut"
    db.close()


@pytest.mark.parametrize(("version", "age"), [(VERSION + 1, "a newer"), (3, "an older")])
def test_another_version_is_refused(path: Path, version: int, age: str) -> None:
    db = connect(str(path))
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    error = refusal(path)
    assert isinstance(error, StoreVersionError)
    assert f"{age} version of Shoal" in str(error)
    assert f"schema {version}, this one uses {VERSION}" in str(error)
    assert "--store" in str(error)


async def test_a_file_of_the_version_before_is_brought_up_to_date(path: Path) -> None:
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(JobSpec("job"))
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(3)])
    db = apsw.Connection(str(path))
    db.execute(
        "DROP TABLE merged; ALTER TABLE job DROP COLUMN merged; ALTER TABLE job DROP COLUMN links_cut;"
        "PRAGMA user_version = 4"
    )
    db.close()
    for _ in range(2):  # the second time there is nothing to do
        async with SqliteFrontier(path) as frontier:
            job = await frontier.job("job")
            assert job is not None
            assert (job.counters.admitted, job.counters.pending, job.counters.merged) == (3, 3, 0)
            assert (await frontier.find("job", make_task("http://a.test/1"))).place == "pending"


def test_a_refused_file_is_left_as_it_was(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE mine(x); INSERT INTO mine VALUES (1)")
    db.close()
    refusal(path)
    db = apsw.Connection(str(path))
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    db.close()


def test_somebody_elses_database_is_refused(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA application_id = 1234; CREATE TABLE mine(x)")
    db.close()
    assert "not one of Shoal's" in str(refusal(path))


def test_what_is_no_database_is_refused(path: Path) -> None:
    path.write_text("These are my notes, and they are longer than the header of a database file. " * 20)
    assert "is not a Shoal store" in str(refusal(path))
    assert path.read_text().startswith("These are my notes")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "cannot open the store" in str(refusal(tmp_path))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot use the store" in str(refusal(tmp_path / "file" / "store.db"))


async def test_a_frontier_passes_the_refusal_on(path: Path) -> None:
    path.write_bytes(b"x" * 5_000)  # noqa: ASYNC240
    frontier = SqliteFrontier(path)
    with pytest.raises(StoreError, match="is not a Shoal store"):
        await frontier.open()
    await frontier.close()


async def test_two_processes_may_make_the_file_at_once(path: Path) -> None:
    frontiers = [SqliteFrontier(path) for _ in range(4)]
    await asyncio.gather(*(frontier.open() for frontier in frontiers))
    await frontiers[0].open_job(JobSpec("job"))
    assert [len(await frontier.jobs()) for frontier in frontiers] == [1, 1, 1, 1]
    await asyncio.gather(*(frontier.close() for frontier in frontiers))
