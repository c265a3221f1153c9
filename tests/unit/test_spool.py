"""The spool: rows that wait to be shipped, exactly once, whatever crashes and wherever the store goes back to."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from shoal.errors import OutputTaken, SinkError
from shoal.model import Row
from shoal.sink import spool as spool_module
from shoal.sink import spool_folder
from shoal.sink.ownership import FileClaim, Owner, claim, folder_of
from shoal.sink.spool import Part, Spool
from spool_world import STEPS, Step, World, crashing_os


class Shelf:
    """A shipper that keeps rows in memory: it outlives every process of a test."""

    def __init__(self) -> None:
        self.parts: dict[int, list[bytes]] = {}
        self.finished = 0
        self.error: Exception | None = None

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        if self.error is not None:
            raise self.error
        self.parts[part.number] = [row.data for row in rows]

    def unship(self, part: Part) -> None:
        self.parts.pop(part.number, None)

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        self.finished = position

    def rows(self) -> list[bytes]:
        return [row for number in sorted(self.parts) for row in self.parts[number]]


class AtOnce(Spool):
    """Ships when a segment is closed, without a thread: so that a test is the same every time."""

    def _ship_soon(self) -> None:
        self._ship_in_thread()


def row(number: int, table: str = "book") -> Row:
    return Row(b'{"n":%d}\n' % number, table=table)


def spool_at(path: Path, shelf: Shelf, segment: int = 60, kept: float = 0) -> Spool:
    return AtOnce(path, shelf, segment=segment, kept=kept)


def test_rows_are_shipped_in_parts_and_the_rest_at_the_end(tmp_path: Path) -> None:
    shelf = Shelf()
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    committed = 0
    for number in range(20):
        committed = spool.append(committed, [row(number)])
    assert len(shelf.parts) > 3
    assert shelf.rows() == [row(n).data for n in range(len(shelf.rows()))]
    spool.finish(committed)
    assert shelf.rows() == [row(n).data for n in range(20)]
    assert shelf.finished == committed
    committed = spool.append(committed, [row(20)])
    spool.finish(committed)
    assert shelf.rows() == [row(n).data for n in range(21)]


def test_few_segments_are_kept(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "rows.parquet", Shelf())
    committed = 0
    for number in range(100):
        committed = spool.append(committed, [row(number)])
    assert len(spool.folder.segments()) == 2
    assert spool.backlog() == 0


def test_a_segment_is_kept_while_it_is_young(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "rows.parquet", Shelf(), kept=3600)
    committed = 0
    for number in range(50):
        committed = spool.append(committed, [row(number)])
    assert spool.folder.segments()[0].number == 1


def test_the_kind_of_a_row_is_kept(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "rows.parquet", Shelf())
    end = spool.append(0, [row(1, 'a"b'), row(2, "ü")])
    assert [(one.table, one.data) for one in spool.rows(0, end)] == [
        ('a"b', row(1).data),
        ("ü", row(2).data),
    ]


def test_what_was_not_committed_is_undone(tmp_path: Path) -> None:
    shelf = Shelf()
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    first = spool.append(0, [row(1)])
    spool.append(first, [row(n) for n in range(100, 130)])
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    second = spool.append(first, [row(2)])
    spool.finish(second)
    assert shelf.rows() == [row(1).data, row(2).data]


def test_a_store_that_goes_back_is_followed_into_what_was_shipped(tmp_path: Path) -> None:
    shelf = Shelf()
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    ends = [0]
    for number in range(40):
        ends.append(spool.append(ends[-1], [row(number)]))
    oldest = spool.folder.segments()[0].start
    back = next(place for place, end in enumerate(ends) if end > oldest)
    assert back < 36
    assert len(shelf.rows()) > back
    committed = spool.append(ends[back], [row(1000)])
    assert len(shelf.rows()) <= back
    spool.finish(committed)
    assert shelf.rows() == [row(n).data for n in range(back)] + [row(1000).data]


def test_a_store_that_goes_back_too_far_is_told(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "rows.parquet", Shelf())
    ends = [0]
    for number in range(40):
        ends.append(spool.append(ends[-1], [row(number)]))
    with pytest.raises(SinkError, match=r"went back to byte .*rows.parquet.*--fresh"):
        spool.append(ends[2], [row(1)])
    with pytest.raises(SinkError, match="went back"):
        spool.check(ends[2])


@pytest.mark.parametrize("damage", ["folder", "shorter", "gap"])
def test_files_that_were_removed_are_told(tmp_path: Path, damage: str) -> None:
    shelf = Shelf()
    shelf.error = SinkError("away")
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    committed = 0
    for number in range(20):
        committed = spool.append(committed, [row(number)])
    spool.close()
    if damage == "folder":
        shutil.rmtree(spool.folder.path)
    elif damage == "shorter":
        os.truncate(spool.folder.path / spool.folder.segments()[-1].name, 1)
    else:
        spool.folder.remove(spool.folder.segments()[1])
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    with pytest.raises(SinkError, match=r"\.rows\.parquet\.parts .*(restore|--fresh)"):
        spool.check(committed)
    with pytest.raises(SinkError, match=r"\.rows\.parquet\.parts .*(restore|--fresh)"):
        spool.append(committed, [row(1)])


def test_a_damaged_segment_is_not_shipped(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "rows.parquet", Shelf())
    committed = spool.append(0, [row(1), row(2)])
    path = spool.folder.path / spool.folder.segments()[-1].name
    path.write_bytes(path.read_bytes().replace(b"book", b"bo\xff\xff"))
    with pytest.raises(SinkError, match="damaged"):
        spool.finish(committed)


def test_rows_wait_while_the_shipper_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.error = SinkError("bucket is away")
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    committed = 0
    for number in range(40):
        committed = spool.append(committed, [row(number)])
    assert spool.backlog() > 300
    assert caplog.text.count("bucket is away") == 1
    with pytest.raises(SinkError, match="bucket is away"):
        spool.finish(committed)
    shelf.error = None
    spool.finish(committed)
    assert shelf.rows() == [row(n).data for n in range(40)]
    assert spool.backlog() == 0


def test_a_thread_ships_while_rows_are_appended(tmp_path: Path) -> None:
    shelf, shipped = Shelf(), threading.Event()

    class Telling(Shelf):
        def ship(self, part: Part, rows: Iterator[Row]) -> None:
            shelf.ship(part, rows)
            if len(shelf.parts) >= 3:
                shipped.set()

    spool = Spool(tmp_path / "rows.parquet", Telling(), segment=60, kept=0)
    committed = number = 0
    while not shipped.is_set() and number < 100_000:
        committed = spool.append(committed, [row(number)])
        number += 1
    spool.close()
    spool.finish(committed)
    assert shipped.is_set()
    assert shelf.rows() == [row(n).data for n in range(number)]


def test_only_one_process_ships(tmp_path: Path) -> None:
    shelf = Shelf()
    spool = spool_at(tmp_path / "rows.parquet", shelf)
    committed = spool.append(0, [row(0)])
    with spool.folder.shipping(0) as free:
        assert free
        for number in range(1, 20):
            committed = spool.append(committed, [row(number)])
        assert not shelf.parts
    spool.append(committed, [])
    assert shelf.parts


def test_another_job_does_not_take_a_spool_that_holds_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    claim(path, FileClaim(Owner("a", 1.0)))
    spool = spool_at(path, Shelf())
    spool.owner = Owner("a", 1.0)
    committed = spool.append(0, [row(1)])
    with pytest.raises(OutputTaken, match="another job, 'a'"):
        claim(path, FileClaim(Owner("b", 1.0)))
    claim(path, FileClaim(Owner("a", 1.0), committed))
    # --fresh: what the earlier job of this name wrote stays beside it.
    claim(path, FileClaim(Owner("a", 2.0), replace=True))
    assert not spool.folder.path.exists()
    assert (tmp_path / ".rows.parquet.1.parts").exists()
    claim(path, FileClaim(Owner("b", 2.0)))


def test_a_file_that_may_be_replaced_takes_its_spool_with_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    claim(path, FileClaim(Owner("a", 1.0)))
    spool_at(path, Shelf()).append(0, [row(1)])
    claim(path, FileClaim(Owner("b", 1.0)), replace_any=True)
    assert not folder_of(path).exists()


# -- crashes


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_crashes_between_any_two_operations_lose_and_double_nothing(steps: list[Step]) -> None:
    shelf = Shelf()

    def shipped() -> list[int]:
        return [msgspec.json.decode(one)["n"] for one in shelf.rows()]

    with tempfile.TemporaryDirectory() as folder, crashing_os(spool_module, spool_folder) as crashing:
        path = Path(folder) / "rows.parquet"
        World(crashing, lambda: spool_at(path, shelf, segment=40), shipped, row).run(steps)


def test_a_full_disk_is_one_line_and_the_rows_come_later(tmp_path: Path) -> None:
    shelf = Shelf()
    with crashing_os(spool_module, spool_folder) as crashing:
        spool = spool_at(tmp_path / "rows.parquet", shelf)
        committed = spool.append(0, [row(1)])
        crashing.error = OSError(errno.ENOSPC, "No space left on device")
        crashing.left = 0
        with pytest.raises(SinkError, match=r"rows\.parquet: No space left on device; nothing is lost"):
            spool.append(committed, [row(2)])
        with pytest.raises(SinkError, match=r"rows\.parquet: No space left on device; nothing is lost"):
            spool.finish(committed)
        crashing.left = None
        committed = spool.append(committed, [row(2)])
        spool.finish(committed)
    assert shelf.rows() == [row(1).data, row(2).data]
