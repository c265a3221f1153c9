"""What is opened, and what is refused with one line that says what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from shoal.errors import StoreError, StoreVersionError
from shoal.frontier.sqlite import SqliteFrontier, schema
from shoal.frontier.sqlite.presence import Presence, workers_folder
from shoal.frontier.sqlite.schema import VERSION, connect
from shoal.frontier.values import OWN_START, JobSpec, Source
from shoal.jobs.note import write_note
from shoal.settings import Settings
from shoal.testing.conformance.tools import counted, make_task
from stores.old_stores import FOUND, load_sqlite


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


# How a file of schema 5 looked.
TO_5 = """
DROP TABLE source; DROP TABLE past; DROP TABLE dropped; DROP TABLE counter; ALTER TABLE job DROP COLUMN rejected;
DROP TABLE passed; DROP TABLE recent; DROP TABLE merging; DROP VIEW pending; DROP TABLE body;
ALTER TABLE job DROP COLUMN waiting; DROP INDEX delayed_queue; ALTER TABLE delayed DROP COLUMN revisit;
ALTER TABLE job ADD COLUMN fed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN fed_all INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 5;
"""


def test_a_new_file_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "store.db"
    connect(str(path)).close()
    db = connect(str(path))
    assert db.pragma("user_version") == VERSION
    assert db.pragma("journal_mode") == "wal"
    assert db.pragma("synchronous") == 2, "FULL: what is committed survives a power cut"
    assert db.pragma("cache_size") == -65536, "not only the first of the pragmas"
    assert db.pragma("wal_autocheckpoint") == 16000
    assert db.pragma("temp_store") == 2
    assert db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1, "statements are not compiled at each call"
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


@pytest.mark.parametrize("name", ["schema5.sql", "schema6.sql", "schema7.sql", "schema8.sql", "schema9.sql"])
async def test_a_file_of_an_earlier_version_is_brought_up_to_date(path: Path, name: str) -> None:
    load_sqlite(name, path)
    for _ in range(2):  # the second time there is nothing to do
        async with SqliteFrontier(path) as frontier:
            job = await counted(frontier)
            assert (job.counters.admitted, job.counters.done, job.counters.dead) == (13, 1, 1)
            assert (await frontier.find("job", make_task(FOUND))).place == "pending"
            assert await frontier.journal_length("job", "rows.jsonl") == 9
            assert job.counts == {}


async def test_schema_4_is_brought_up_to_date_in_one_go(path: Path) -> None:
    load_sqlite("schema5.sql", path)
    db = apsw.Connection(str(path))
    db.execute(
        "DROP TABLE merged; ALTER TABLE job DROP COLUMN merged; ALTER TABLE job DROP COLUMN links_cut;"
        "PRAGMA user_version = 4"
    )
    db.close()
    async with SqliteFrontier(path) as frontier:
        job = await counted(frontier)
        assert (job.counters.admitted, job.counters.merged) == (13, 0)


async def test_a_step_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_sqlite("schema5.sql", path)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", VERSION + 1)
        broken = "CREATE TABLE half(x); INSERT INTO nowhere VALUES (1)"
        patch.setattr(schema, "STEPS", {**dict.fromkeys(range(5, VERSION), ""), VERSION: broken})
        with pytest.raises(StoreError, match="nowhere"):
            connect(str(path))
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == 5
    assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall()
    db.close()


async def test_a_file_that_is_in_use_is_not_upgraded(path: Path) -> None:
    """The process that holds the lock speaks the old version, and would go on to do so."""
    load_sqlite("schema5.sql", path)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 4)
    db.close()
    old = Presence(workers_folder(str(path)))
    old.announce("old-1")
    error = refusal(path)
    assert isinstance(error, StoreVersionError)
    assert "in use by 1 process(es) of an older version of Shoal (schema 4" in str(error)
    old.leave(frozenset())


async def test_nothing_is_written_to_a_file_that_was_upgraded_under_us(path: Path) -> None:
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(JobSpec("job"))
        db = apsw.Connection(str(path))
        db.pragma("user_version", VERSION + 1)
        with pytest.raises(
            StoreVersionError, match=f"upgraded to schema {VERSION + 1} while this was running"
        ):
            await frontier.add("job", [make_task("http://a.test/")])
        db.pragma("user_version", VERSION)
        assert (await counted(frontier)).counters.admitted == 0
        db.close()


async def test_the_one_cursor_of_earlier_versions_goes_to_whom_it_belonged(path: Path) -> None:
    fed_by = {"coordinated": "coordinator", "listed": "submit", "crawled": "crawl", "through": "submit"}
    async with SqliteFrontier(path) as frontier:
        for name, by in fed_by.items():
            note = write_note(b"rows.jsonl", Settings(depth=3), by)  # type: ignore[arg-type]
            await frontier.open_job(JobSpec(name, settings=note))
    db = apsw.Connection(str(path))
    db.execute(TO_5)
    db.execute("UPDATE job SET fed = 150; UPDATE job SET fed = 400, fed_all = 1 WHERE name = 'through'")
    db.close()
    async with SqliteFrontier(path) as frontier:
        jobs = {job.spec.name: job for job in await frontier.jobs()}
        assert jobs["coordinated"].sources == {OWN_START: Source(150)}
        assert jobs["through"].sources == {OWN_START: Source(400, fed_all=True)}
        # Whose lists they were is not known: the same commands read them again, from the beginning.
        assert jobs["listed"].sources == jobs["crawled"].sources == {}
        assert not jobs["listed"].fed_all
        job = await frontier.open_job(JobSpec("listed"), "urls.txt")
        assert (job.state, job.unfed) == ("running", ["urls.txt"])


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
