"""Rows as parts in an object store: a real server that speaks S3, with a front that refuses when told to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from shoal.errors import OutputTaken, SinkAway, SinkError
from shoal.model import Row
from shoal.sink.objects import object_parts
from shoal.sink.objects.object_parts import (
    MANIFEST,
    Manifest,
    ObjectParts,
    conclude,
    counted,
    positions_at,
    read_name,
)
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import FileClaim, Owner
from shoal.testing.servers.s3 import S3Front

pytest.importorskip("obstore")
URL = "s3://bucket/shop/rows.jsonl"
JOB = Owner("shop", 1.5)


@pytest.fixture
def store(s3_front: S3Front) -> ObjectStore:
    return ObjectStore(URL, "-o")


def plain(rows: Sequence[Row]) -> bytes:
    return b"".join(row.data for row in rows)


def writer(store: ObjectStore, owner: Owner = JOB, **asked: bool) -> ObjectParts:
    parts = ObjectParts(store, plain, ".jsonl")
    parts.claim(FileClaim(owner, **asked))
    return parts


def rows(*names: str) -> list[Row]:
    return [Row(f'"{name}"\n'.encode()) for name in names]


def finish_quietly(store: ObjectStore, positions: dict[str, int]) -> list[str]:
    keys = counted(store.sizes(), positions_at(URL, positions), URL)
    return [msgspec.json.decode(line) for key in keys for line in (store.get(key) or b"").splitlines()]


def finish(store: ObjectStore, positions: dict[str, int], owner: Owner = JOB) -> list[str]:
    """The rows that the manifest leads to."""
    conclude(store, owner, store.sizes(), positions_at(URL, positions))
    manifest = msgspec.json.decode(store.get(MANIFEST) or b"", type=Manifest)
    read = [(store.get(part.name) or b"", part) for part in manifest.parts]
    assert all(len(data) == part.bytes and data.count(b"\n") == part.rows for data, part in read)
    found = [msgspec.json.decode(line) for data, _ in read for line in data.splitlines()]
    assert manifest.rows == len(found)
    left = {key for key in store.sizes() if read_name(key)}
    assert left == {part.name for part in manifest.parts}, "nothing else is left"
    return found


def test_parts_of_several_writers_are_listed(store: ObjectStore) -> None:
    one, two = writer(store), writer(store)
    first = one.append(0, rows("a", "b"))
    second = one.append(first, rows("c"))
    third = two.append(0, rows("d"))
    assert 0 < first < second
    assert sorted(finish(store, {one.key: second, two.key: third})) == ["a", "b", "c", "d"]
    # The job goes on, and ends again.
    fourth = two.append(third, rows("e"))
    assert sorted(finish(store, {one.key: second, two.key: fourth})) == ["a", "b", "c", "d", "e"]


def test_small_parts_become_larger_ones(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, position = writer(store), 0
    monkeypatch.setattr(object_parts, "_LARGE", 500)
    for number in range(300):
        position = one.append(position, rows(str(number)))
        one.tidy()
        if number == 100:  # and one that is not committed takes others in
            one.append(position, rows("lost"))
    assert len([key for key in store.sizes() if read_name(key)]) >= 300, "the store may go back"
    monkeypatch.setattr(object_parts, "KEPT", -1.0)
    position = one.append(position, rows("last"))
    one.tidy()
    assert len([key for key in store.sizes() if read_name(key)]) < 30
    assert finish(store, {one.key: position}) == [*map(str, range(300)), "last"]


def test_a_store_that_goes_back_finds_the_parts_it_knew(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_parts, "WORTH_IT", 1)
    one, positions = writer(store), [0]
    for number in range(20):
        positions.append(one.append(positions[-1], rows(str(number))))
        one.tidy()
    for back in (13, 7):
        after = one.append(positions[back], rows("again"))
        one.tidy()
        assert finish_quietly(store, {one.key: after}) == [*map(str, range(back)), "again"]
    # What was replaced by parts that are forgotten now is still needed.
    with monkeypatch.context() as later:
        later.setattr(object_parts, "KEPT", -1.0)
        one.tidy()
    assert finish_quietly(store, {one.key: after}) == [*map(str, range(7)), "again"]


def test_what_was_not_committed_does_not_count(store: ObjectStore) -> None:
    one, dead = writer(store), writer(store)
    first = one.append(0, rows("a"))
    one.append(first, rows("lost"))
    one.append(first, rows("lost", "too"))
    second = one.append(first, rows("b"))
    dead.append(0, rows("never"))
    keys = [key for key in store.sizes() if read_name(key)]
    assert len(keys) == 3, "a writer removes its own, and another's are left"
    assert finish(store, {one.key: second}) == ["a", "b"]


def test_an_upload_that_arrives_late_replaces_nothing(store: ObjectStore) -> None:
    """A process is frozen while it uploads; its rows are written by another try; then it goes on."""
    one = writer(store)
    late: list[tuple[bytes, str]] = []

    class Frozen(ObjectStore):
        def put(self, part: object, key: str) -> str:
            assert isinstance(part, bytes)
            late.append((part, key))
            raise SinkAway(self.url, "frozen")

    one.store = Frozen(URL, "-o")
    with pytest.raises(SinkAway):
        one.append(0, rows("a", "late"))
    one.store = store
    first = one.append(0, rows("a"))
    [(data, key)] = late
    store.put(data, key)
    assert finish(store, {one.key: first}) == ["a"]


def test_a_missing_part_is_told(store: ObjectStore) -> None:
    one = writer(store)
    first = one.append(0, rows("a much longer row"))
    gone = [key for key in store.sizes() if read_name(key)]
    second = one.append(first, rows("b"))
    store.delete(gone)
    with pytest.raises(
        SinkError, match=f"a part with rows of this job is missing .part-…-{one.key[-8:]}-000001"
    ):
        list(counted(store.sizes(), positions_at(URL, {one.key: second}), URL))


def test_another_job_may_not_write_there(store: ObjectStore) -> None:
    writer(store, Owner("other", 1.0)).append(0, rows("theirs"))
    with pytest.raises(OutputTaken, match=r"holds 1 part of another job, 'other': choose another place"):
        writer(store)
    writer(store, Owner("other", 1.0))


def test_a_fresh_job_replaces_the_parts_of_its_namesake(store: ObjectStore) -> None:
    old = writer(store, Owner("shop", 1.0))
    finish(store, {old.key: old.append(0, rows("old"))}, Owner("shop", 1.0))
    with pytest.raises(OutputTaken):
        writer(store)
    new = writer(store, replace=True)
    first = new.append(0, rows("new"))
    writer(store, replace=True)  # another worker of the new job, a moment later
    assert finish(store, {new.key: first}) == ["new"]


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (503, "SlowDown", "503 Service Unavailable (SlowDown)"),
        (403, "InvalidAccessKeyId", "the keys in the environment do not allow it: 403 Forbidden"),
        (301, "PermanentRedirect", "the bucket is in another region: set AWS_REGION"),
    ],
)
def test_a_refusal_is_one_clear_line_without_secrets(
    store: ObjectStore, s3_front: S3Front, status: int, code: str, said: str
) -> None:
    one = writer(store)
    s3_front.status, s3_front.code = status, code
    with pytest.raises(SinkAway) as caught:
        one.append(0, rows("a"))
    assert said in str(caught.value)
    assert "not-shown" not in str(caught.value)
    s3_front.status = 0
    assert finish(store, {one.key: one.append(0, rows("a"))}) == ["a"]


def test_a_bucket_that_is_not_there(s3_front: S3Front) -> None:
    with pytest.raises(SinkAway, match=r"s3://none/rows.jsonl: there is no such bucket"):
        writer(ObjectStore("s3://none/rows.jsonl", "-o"))


def test_a_server_that_is_not_there(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(SinkAway, match=r"no connection to the server \(http://127.0.0.1:9\)"):
        writer(ObjectStore(URL, "-o"))
