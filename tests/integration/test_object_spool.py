"""Rows that wait on the disk for an object store: a real server that speaks S3."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.errors import OutputTaken, SinkAway
from shoal.model import Row
from shoal.sink.objects.object_parts import MANIFEST, Manifest, read_name
from shoal.sink.objects.object_spool import SpooledObjects
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import FileClaim, Owner, claim
from shoal.testing.servers.s3 import S3Front

pytest.importorskip("obstore")
JOB = Owner("shop", 1.5)


def opened(tmp_path: Path, segment: int = 100) -> SpooledObjects:
    def encode(rows: object) -> bytes:
        assert isinstance(rows, list)
        return b"".join(row.data for row in rows)

    store = ObjectStore("s3://bucket/rows.jsonl", "-o")
    spool = SpooledObjects(tmp_path / "rows.jsonl", store, encode, ".jsonl", segment=segment)
    claim(spool.path, FileClaim(JOB, committed=0))
    spool.claim(FileClaim(JOB))
    spool.owner = JOB
    return spool


def rows(*numbers: int) -> list[Row]:
    return [Row(b"%d\n" % number) for number in numbers]


def listed(spool: SpooledObjects) -> list[int]:
    """The rows that the manifest leads to; nothing else may be there."""
    manifest = msgspec.json.decode(spool.store.get(MANIFEST) or b"", type=Manifest)
    parts = [spool.store.get(part.name) or b"" for part in manifest.parts]
    assert {part.name for part in manifest.parts} == {key for key in spool.store.sizes() if read_name(key)}
    found = [int(line) for part in parts for line in part.splitlines()]
    assert manifest.rows == len(found)
    return found


def test_rows_are_shipped_while_others_come_and_the_rest_at_the_end(
    s3_front: S3Front, tmp_path: Path
) -> None:
    spool, committed = opened(tmp_path), 0
    for number in range(100):
        committed = spool.append(committed, rows(number))
    spool.finish(committed)
    assert listed(spool) == list(range(100))
    spool.close()
    # A later run goes on: what was shipped of the last segment is replaced.
    again = opened(tmp_path)
    for number in range(100, 120):
        committed = again.append(committed, rows(number))
    again.finish(committed)
    again.finish(committed)
    assert listed(again) == list(range(120))
    again.close()


def test_what_was_not_committed_is_never_shipped(s3_front: S3Front, tmp_path: Path) -> None:
    spool, committed = opened(tmp_path, segment=40), 0
    for number in range(50):
        spool.append(committed, rows(1000 + number))  # the transaction fails
        committed = spool.append(committed, rows(number))
    spool.finish(committed)
    assert listed(spool) == list(range(50))
    spool.close()


def test_what_the_store_forgot_is_taken_back(s3_front: S3Front, tmp_path: Path) -> None:
    spool, ends = opened(tmp_path, segment=40), [0]
    for number in range(30):
        ends.append(spool.append(ends[-1], rows(number)))
    spool.finish(ends[-1])
    end = spool.append(ends[20], rows(77))
    spool.finish(end)
    assert listed(spool) == [*range(20), 77]
    spool.close()


def test_an_object_store_that_is_away_takes_the_rows_later(
    s3_front: S3Front, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool, committed = opened(tmp_path), 0
    s3_front.status = 403
    for number in range(100):
        committed = spool.append(committed, rows(number))
    assert spool.tend() > 0
    with pytest.raises(SinkAway, match=r"do not allow it: 403 Forbidden \(SlowDown\); nothing is lost"):
        spool.finish(committed)
    spool.close()
    s3_front.status = 0
    again = opened(tmp_path)
    again.finish(committed)
    assert listed(again) == list(range(100))
    assert again.tend() == 0
    assert "not-shown" not in caplog.text
    again.close()


def test_another_job_may_not_write_there(s3_front: S3Front, tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.finish(spool.append(0, rows(1)))
    with pytest.raises(OutputTaken, match="holds 1 part of another job, 'shop'"):
        spool.claim(FileClaim(Owner("other", 2.0)))
    spool.close()
