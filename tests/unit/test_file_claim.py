"""Whose a result file is."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.errors import OutputTaken, SinkError
from shoal.model import Row
from shoal.sink.file_sink import FileSink
from shoal.sink.jsonl import JsonLines
from shoal.sink.ownership import FileClaim, Owner, claim, identity_of

ONE, TWO = FileClaim(Owner("one", 1.5)), FileClaim(Owner("two", 2.0))
AGAIN = FileClaim(Owner("one", 9.0))


def opened(path: Path, asked: FileClaim) -> JsonLines:
    journal = JsonLines(path)
    asyncio.run(FileSink(journal).open(asked))
    return journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_a_file_with_rows_is_its_jobs_own(path: Path) -> None:
    claim(path, ONE)
    path.write_bytes(b"1\n")
    claim(path, ONE)
    for other in (TWO, AGAIN, FileClaim(TWO.owner, committed=0)):
        with pytest.raises(OutputTaken, match=r"belongs to another job, 'one', and holds 2 bytes: choose"):
            claim(path, other)
    assert path.read_bytes() == b"1\n"


@pytest.mark.parametrize("note", [None, b"", b"abc\n", b'abc\n{"job": 1}\n', b"\xff\xff\n\xff", b"x" * 9999])
def test_a_foreign_file_is_refused_whatever_lies_beside_it(path: Path, note: bytes | None) -> None:
    path.write_bytes(b"precious")
    if note is not None:
        (path.parent / ".rows.jsonl.id").write_bytes(note)
    with pytest.raises(OutputTaken, match=r"is not from this job, and holds 8 bytes"):
        claim(path, ONE)
    assert path.read_bytes() == b"precious"


def test_a_file_from_before_files_had_owners_is_known_by_its_length_in_the_store(path: Path) -> None:
    path.write_bytes(b"1\n2\n")
    name = identity_of(path)
    claim(path, FileClaim(ONE.owner, committed=2))
    assert identity_of(path) == name
    with pytest.raises(OutputTaken):
        claim(path, TWO)


def test_of_many_that_claim_an_empty_file_one_writes(path: Path) -> None:
    """The last one has it; the others are refused with their first row."""

    def write(number: int) -> bool:
        owner = Owner(f"job-{number}", float(number))
        journal = JsonLines(path)
        try:
            claim(path, FileClaim(owner))
            journal.owner = owner
            journal.append(0, [Row(b"%d\n" % number)])
        except OutputTaken:
            return False
        finally:
            journal.close()
        return True

    with ThreadPoolExecutor(16) as threads:
        wrote = [number for number, done in enumerate(threads.map(write, range(64))) if done]
    assert len(wrote) == 1
    assert path.read_bytes() == b"%d\n" % wrote[0]


def test_a_file_that_was_removed_and_made_again_is_not_the_one_that_was_claimed(path: Path) -> None:
    one = opened(path, ONE)
    path.unlink()
    two = opened(path, TWO)
    two.append(0, [Row(b"two\n")])
    with pytest.raises(SinkError):
        one.append(0, [Row(b"one\n")])
    with pytest.raises(OutputTaken):
        opened(path, ONE)
    assert path.read_bytes() == b"two\n"
    one.close()
    two.close()


def test_what_a_crash_left_is_cut_off_by_its_own_job_only(path: Path) -> None:
    one = opened(path, ONE)
    one.append(0, [Row(b"never committed\n")])
    one.close()
    with pytest.raises(OutputTaken):
        opened(path, TWO)
    one = opened(path, ONE)
    one.append(0, [Row(b"1\n")])
    one.close()
    assert path.read_bytes() == b"1\n"


def test_fresh_moves_a_namesakes_file_aside_and_no_other(path: Path) -> None:
    claim(path, ONE)
    fresh = FileClaim(AGAIN.owner, replace=True)
    for number in (1, 2):
        path.write_bytes(b"%d\n" % number)
        claim(path, FileClaim(Owner("one", 10.0 + number), replace=True))
        assert not path.exists()
        assert (path.parent / f"rows.jsonl.{number}").read_bytes() == b"%d\n" % number
    path.write_bytes(b"3\n")
    with pytest.raises(OutputTaken):
        claim(path, FileClaim(TWO.owner, replace=True))
    claim(path, fresh, replace_any=True)
    assert path.read_bytes() == b""


def test_what_is_no_file_gets_no_note(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for path in (folder, Path(os.devnull)):
        with pytest.raises(SinkError, match="not a regular file"):
            claim(path, ONE)
    assert list(tmp_path.iterdir()) == [folder]
    assert not Path("/dev/.null.id").exists()


def test_a_note_that_leads_elsewhere_is_not_followed(path: Path) -> None:
    """Whoever may put a link beside the file could have us write over any other."""
    victim = path.parent / "victim"
    victim.write_bytes(b"precious")
    (path.parent / ".rows.jsonl.id").symlink_to(victim)
    with pytest.raises(SinkError, match="cannot write"):
        claim(path, ONE)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("asked", [AGAIN, FileClaim(AGAIN.owner, replace=True)])
def test_the_log_of_a_database_goes_where_the_database_goes(tmp_path: Path, asked: FileClaim) -> None:
    """A process that was killed leaves rows in it."""
    path = tmp_path / "rows.sqlite"
    claim(path, ONE)
    path.write_bytes(b"database")
    (tmp_path / "rows.sqlite-wal").write_bytes(b"log")
    claim(path, asked, replace_any=not asked.replace)
    found = {one.name: one.read_bytes() for one in tmp_path.glob("rows*")}
    moved = {"rows.sqlite.1": b"database", "rows.sqlite.1-wal": b"log"}
    assert found == (moved if asked.replace else {"rows.sqlite": b""})
