"""Several processes may make the same new store at the same moment, and it is for its owner alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.schema import connect
from shoal.frontier.values import JobSpec
from shoal.testing.conformance.tools import claim, make_task

ROUNDS, PROCESSES = 20, 4

# A process of its own, without threads, so that it may fork: all its children open the file at the same moment.
RACE = """
import os, sys, time
from shoal.frontier.sqlite.schema import connect

failed = 0
for number in range(int(sys.argv[2])):
    start = time.monotonic() + 0.02
    children = []
    for _ in range(int(sys.argv[3])):
        child = os.fork()
        if child == 0:
            while time.monotonic() < start:
                pass
            try:
                connect(f"{sys.argv[1]}/{number}.db").close()
            except Exception as error:
                print(error, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed += sum(os.waitpid(child, 0)[1] != 0 for child in children)
sys.exit(failed > 0)
"""


@pytest.mark.slow
def test_several_processes_make_a_new_store_at_once(tmp_path: Path) -> None:
    race = [sys.executable, "-c", RACE, str(tmp_path), str(ROUNDS), str(PROCESSES)]
    done = subprocess.run(race, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """The one by which everybody may read what one makes."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))
    }


@pytest.mark.usefixtures("usual_umask")
async def test_a_new_store_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    async with SqliteFrontier(tmp_path / ".shoal" / "shoal.db") as frontier:
        await frontier.open_job(JobSpec("job"))
        await frontier.add("job", [make_task("http://a.test/")])
        await claim(frontier, 1)
        found = rights(tmp_path)
    assert {mode for name, mode in found.items() if (tmp_path / name).is_dir()} <= {0o700}
    assert found[".shoal"] == found[".shoal/shoal.db-workers"] == 0o700
    files = {name: mode for name, mode in found.items() if mode != 0o700}
    assert set(files.values()) == {0o600}, found
    assert {".shoal/shoal.db", ".shoal/shoal.db-wal", ".shoal/shoal.db-shm"} < set(files)
    assert any(name.startswith(".shoal/shoal.db-workers/") for name in files)


@pytest.mark.usefixtures("usual_umask")
def test_what_is_there_keeps_its_rights(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(0o750)
    path = folder / "shoal.db"
    path.touch(mode=0o640)
    connect(str(path)).close()
    assert rights(tmp_path) == {"shared": 0o750, "shared/shoal.db": 0o640}
