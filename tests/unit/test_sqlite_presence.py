"""A worker that dies is known to be dead at once, and only then."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import shoal
from shoal.frontier.loss import Loss
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.presence import Presence
from shoal.frontier.values import JobSpec
from shoal.testing.conformance.tools import claim, counted, make_task, settle
from shoal.valve import Valve

OPEN = JobSpec("job", valve=Valve(interval=0.0, cap=100))

ANNOUNCE = """
import sys
from pathlib import Path
from shoal.frontier.sqlite.presence import Presence
presence = Presence(Path(sys.argv[1]))
presence.announce("theirs")
print("here", flush=True)
sys.stdin.read()
"""

CLAIM = """
import asyncio, sys
from shoal.frontier.sqlite import SqliteFrontier
from shoal.testing.conformance.tools import claim

async def main():
    frontier = SqliteFrontier(sys.argv[1])
    await frontier.open()
    leases = (await claim(frontier, worker="theirs", lease_seconds=3600)).leases
    print(len(leases), flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another process, once it has said its first line; killed at the end."""
    environment = {"PYTHONPATH": str(Path(shoal.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as other:
        try:
            yield other
        finally:
            other.kill()


def first_line(other: subprocess.Popen[str]) -> str:
    assert other.stdout is not None
    return other.stdout.readline().strip()


def test_alive_until_killed(tmp_path: Path) -> None:
    mine = Presence(tmp_path / "workers")
    with process(ANNOUNCE, tmp_path / "workers") as other:
        assert first_line(other) == "here"
        assert not mine.is_dead("theirs")
        other.kill()
        other.wait()
        assert mine.is_dead("theirs")


def test_who_never_was_here_is_not_known_to_be_dead(tmp_path: Path) -> None:
    """It may live on a machine that shares the file but not the locks: its leases simply run out."""
    assert not Presence(tmp_path / "workers").is_dead("stranger")


def test_nobody_takes_himself_for_dead(tmp_path: Path) -> None:
    presence = Presence(tmp_path / "workers")
    presence.announce("mine")
    presence.announce("mine")
    assert not presence.is_dead("mine")
    presence.leave(frozenset())


def test_who_leaves_takes_the_file_along(tmp_path: Path) -> None:
    one, two = Presence(tmp_path / "workers"), Presence(tmp_path / "workers")
    one.announce("one")
    two.announce("two")
    one.leave(frozenset())
    assert [path.name for path in (tmp_path / "workers").iterdir()] == ["two"]
    two.leave(frozenset())
    assert not (tmp_path / "workers").exists()


def test_a_store_in_memory_has_nobody_else() -> None:
    presence = Presence(None)
    presence.announce("mine")
    assert not presence.is_dead("mine")
    assert not presence.is_dead("other")
    presence.leave(frozenset())


async def test_leases_of_a_killed_process_are_taken_back_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(OPEN)
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(3)])
        with process(CLAIM, path) as other:
            assert await asyncio.to_thread(first_line, other) == "3"
            assert await frontier.reap() == 0, "it is alive, however long that takes"
            assert (await claim(frontier)).leases == []
            other.kill()
            other.wait()
            assert await frontier.reap() == 3
        again = (await claim(frontier)).leases
        assert [lease.task.attempt for lease in again] == [2, 2, 2]
        assert again[0].task.history[-1].kind == "worker_lost"
        await counted(frontier)


async def test_a_claim_finds_the_dead_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(OPEN)
        await frontier.add("job", [make_task("http://a.test/")])
        with process(CLAIM, path) as other:
            assert await asyncio.to_thread(first_line, other) == "1"
        [lease] = (await claim(frontier)).leases
        assert await settle(frontier, lease)


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
async def test_two_frontiers_of_one_process_see_each_other_alive(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SqliteFrontier(path) as one, SqliteFrontier(path) as two:
        await one.open_job(OPEN)
        await one.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(one, worker="one")).leases
        assert await two.reap() == 0
        assert await settle(one, lease)


async def test_workers_that_left_or_died_are_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "frontier.db"
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(OPEN)
        await frontier.add("job", [make_task("http://a.test/")])
        async with SqliteFrontier(path) as polite:
            await claim(polite, 0, worker="polite")
            await polite.extend("polite", 3600)
            assert [record.name for record in await frontier.workers()] == ["polite"]
        assert await frontier.workers() == []
        with process(CLAIM, path) as other:
            assert first_line(other) == "1"
            await frontier.extend("theirs", 3600)
            assert [record.name for record in await frontier.workers()] == ["theirs"]
            other.kill()
            other.wait()
            assert await frontier.workers() == []
        assert await frontier.reap() == 1, "looking at the workers has not hidden the dead one's lease"


@pytest.mark.parametrize("name", ["../precious", "a/../../precious", "/{}", "..", ".", "", "x\0y"])
def test_a_name_from_the_store_leads_nowhere(tmp_path: Path, name: str) -> None:
    """Whoever can write to the store can write any name into a lease."""
    folder, precious = tmp_path / "workers", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("mine")
    assert not Presence(folder).is_dead(name.format(precious))
    assert precious.read_text() == "mine"


async def test_word_that_was_left_of_a_dead_worker_names_the_page_that_hung(tmp_path: Path) -> None:
    """Whoever takes the leases back reads it, whichever process that is."""
    path = tmp_path / "store.db"
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(OPEN)
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(3)])
        with process(CLAIM, path) as other:
            assert await asyncio.to_thread(first_line, other) == "3"
            guilty = (await frontier.held("theirs"))[1]
            words = Loss("theirs", guilty.token, 3.0, "its stack").encode()
            await asyncio.to_thread(Path(frontier.loss_file("theirs")).write_bytes, words)
            other.kill()
            other.wait()
            assert await frontier.reap() == 3
        again = (await claim(frontier)).leases
        assert [lease.task.attempt for lease in again] == [1, 1], (
            "the others are unharmed, the guilty one waits"
        )
        assert (await counted(frontier)).counters.delayed == 1
