"""The end of a job whose processes write parts: several writers, one output or more; a real server that speaks S3."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from shoal.errors import SinkError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Journal
from shoal.frontier.values import Cursor
from shoal.model import Done, Lease, Row, Settlement
from shoal.runtime.object_endings import finish_objects, is_listed
from shoal.sink import make_journal
from shoal.sink.objects.in_objects import claim_objects
from shoal.sink.objects.object_parts import MANIFEST, Manifest, ObjectParts, read_name
from shoal.sink.objects.object_several import SeveralObjects
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import FileClaim, Owner
from shoal.testing.conformance.tools import claim, make_task, spec
from shoal.testing.servers.s3 import S3Front

pytest.importorskip("obstore")
PAGES = 12


class Fleet:
    """A job, and the processes that work on it."""

    def __init__(self, frontier: MemoryFrontier, output: Sequence[str]) -> None:
        self.frontier = frontier
        self.output = output
        self.leases: list[Lease] = []

    @classmethod
    async def start(cls, *output: str) -> Fleet:
        fleet = cls(MemoryFrontier(), output)
        await fleet.frontier.open_job(spec())
        tasks = [make_task(f"http://h{n}.test/") for n in range(PAGES)]
        await fleet.frontier.add("job", tasks, Cursor(fed_all=True))
        fleet.leases = list((await claim(fleet.frontier)).leases)
        assert len(fleet.leases) == PAGES
        return fleet

    async def process(self) -> ObjectParts | SeveralObjects:
        job = await self.frontier.job("job")
        assert job is not None
        journal = make_journal(self.output, job="job", local=False)
        claim_objects(journal, FileClaim(Owner("job", job.created_at)))
        assert isinstance(journal, ObjectParts | SeveralObjects)
        return journal

    async def settle(self, journal: Journal, table: str = "book") -> None:
        lease = self.leases.pop()
        row = Row(msgspec.json.encode({"url": lease.task.url}) + b"\n", table=table)
        await self.frontier.settle([Settlement(lease, Done(), rows=(row,))], journal)


def rows_of(url: str) -> set[str]:
    """By the manifest; there must be no other parts."""
    store = ObjectStore(url, "-o")
    manifest = msgspec.json.decode(store.get(MANIFEST) or b"", type=Manifest)
    assert {part.name for part in manifest.parts} == {key for key in store.sizes() if read_name(key)}
    lines = [line for part in manifest.parts for line in (store.get(part.name) or b"").splitlines()]
    found = [msgspec.json.decode(line)["url"] for line in lines]
    assert len(found) == len(set(found)) == manifest.rows
    return set(found)


async def test_the_parts_of_all_processes_are_listed_when_the_job_has_ended(s3_front: S3Front) -> None:
    url = "s3://bucket/rows.jsonl"
    fleet = await Fleet.start(url)
    one, two, dead = [await fleet.process() for _ in range(3)]
    dead.append(0, [Row(b'{"url": "lost"}\n')])
    for journal in (one, two, one):
        await fleet.settle(journal)
    await finish_objects(fleet.frontier, "job", one)
    with pytest.raises(msgspec.DecodeError):
        rows_of(url)  # the job has pages in hand: what looks lost may be about to count
    while fleet.leases:
        await fleet.settle(two)
    assert await fleet.frontier.finish("job")
    job = await fleet.frontier.job("job")
    assert job is not None
    assert not await is_listed(job, one)
    await finish_objects(fleet.frontier, "job", one)
    await finish_objects(fleet.frontier, "job", two)
    assert await is_listed(job, one)
    assert rows_of(url) == {f"http://h{n}.test/" for n in range(PAGES)}


async def test_several_outputs_of_a_fleet(s3_front: S3Front) -> None:
    fleet = await Fleet.start("book=s3://bucket/books.jsonl", "s3://bucket/by/{item}.jsonl")
    one, two = [await fleet.process() for _ in range(2)]
    assert isinstance(one, SeveralObjects)
    books = {lease.task.url for lease in fleet.leases[-4:]}
    authors = {lease.task.url for lease in fleet.leases[:-4]}
    lost = [Row(b'{"url": "lost"}\n', table="author"), Row(b'{"url": "lost"}\n', table="book")]
    one.append(0, lost)  # never committed
    for journal in (one, two, two, one):
        await fleet.settle(journal)
        journal.tidy()
    one.append((await fleet.frontier.journals("job"))[one.key], lost)
    while fleet.leases:
        await fleet.settle(one if len(fleet.leases) % 3 else two, "author")
    assert await fleet.frontier.finish("job")
    await finish_objects(fleet.frontier, "job", two)
    assert rows_of("s3://bucket/books.jsonl") == rows_of("s3://bucket/by/book.jsonl") == books
    assert rows_of("s3://bucket/by/author.jsonl") == authors
    assert len(ObjectStore("s3://bucket/_job.commits").sizes()) == 2, "the last commit of each process"


async def test_a_commit_that_is_gone_is_told(s3_front: S3Front) -> None:
    fleet = await Fleet.start("s3://bucket/a.jsonl", "s3://bucket/b.jsonl")
    one = await fleet.process()
    assert isinstance(one, SeveralObjects)
    while fleet.leases:
        await fleet.settle(one)
    assert await fleet.frontier.finish("job")
    one.commits.delete(list(one.commits.sizes()))
    with pytest.raises(SinkError, match="is missing, which says how far the outputs of this job are"):
        await finish_objects(fleet.frontier, "job", one)


@pytest.mark.parametrize("suffix", ["json.gz", "csv.zst", "xml", "parquet"])
async def test_a_part_is_a_whole_file_of_its_format(s3_front: S3Front, suffix: str) -> None:
    fleet = await Fleet.start(f"s3://bucket/rows.{suffix}")
    one = await fleet.process()
    assert isinstance(one, ObjectParts)
    await fleet.settle(one)
    [part] = [key for key in one.store.sizes() if read_name(key)]
    assert part.endswith(f"-1.{suffix}")
    data = one.store.get(part) or b""
    marks = {"json.gz": b"\x1f\x8b", "csv.zst": b"\x28\xb5\x2f\xfd", "xml": b"<?xml", "parquet": b"PAR1"}
    assert data.startswith(marks[suffix])
    if suffix == "parquet":
        assert data.endswith(b"PAR1")
