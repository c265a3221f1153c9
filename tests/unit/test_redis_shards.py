"""Several shards are one frontier: what crosses from one to another is neither lost nor doubled."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable

import pytest
from msgspec.structs import replace

from shoal.frontier.redis import outbox
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.keys import shard_of
from shoal.frontier.redis.shards import Shards
from shoal.frontier.values import Added, Cursor
from shoal.model import Dead, Done, Lease, Moved, Row, Settlement
from shoal.testing.conformance.tools import (
    FAILED,
    ListJournal,
    balanced,
    claim,
    counted,
    make_task,
    settle,
    spec,
)
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyServer

SHARDS = 4
_number = itertools.count()


def host_in(shard: int, nth: int = 0) -> str:
    names = (f"h{n}.test" for n in itertools.count())
    return next(itertools.islice((name for name in names if shard_of(name, SHARDS) == shard), nth, None))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def frontier(valkey_server: ValkeyServer, clock: ManualClock) -> AsyncIterator[RedisFrontier]:
    async with RedisFrontier(
        f"{valkey_server.url}?prefix=m{next(_number)}&shards={SHARDS}", clock
    ) as frontier:
        await frontier.open_job(spec())
        yield frontier


async def lease_in(frontier: RedisFrontier, shard: int) -> Lease:
    await frontier.add("job", [make_task(f"http://{host_in(shard)}/")])
    [lease] = (await claim(frontier, 1)).leases
    return lease


class Died(Exception):
    pass


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The worker dies after its settlement, before what it found for other shards is brought there."""

    async def die(shards: Shards, source: int, targets: Iterable[int]) -> Added:
        raise Died

    monkeypatch.setattr(outbox, "deliver", die)
    return monkeypatch


async def test_what_a_dead_worker_did_not_bring_is_brought_by_another(
    frontier: RedisFrontier, clock: ManualClock, dying: pytest.MonkeyPatch
) -> None:
    lease = await lease_in(frontier, 1)
    await frontier.add("job", [], Cursor(fed_all=True))
    found = tuple(make_task(f"http://{host_in(shard)}/x", fingerprint=None) for shard in (0, 1, 2, 2))
    with pytest.raises(Died):
        await frontier.settle([Settlement(lease, Done(), found)])
    dying.undo()
    job = await balanced(frontier)
    assert (job.counters.done, job.counters.pending, job.exhausted) == (1, 4, False)
    assert len((await claim(frontier)).leases) == 1  # the one that stayed in its shard
    clock.advance(6)
    assert len((await claim(frontier)).leases) == 3
    assert (await counted(frontier)).counters.admitted == 5


async def test_what_was_brought_once_is_not_taken_in_again(
    frontier: RedisFrontier, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever brings it may die before the sender forgets it; then it is brought again."""
    run_many = Shards.run_many

    async def lose_the_receipt(self: Shards, name: str, *args: object, **more: object) -> object:
        if name == "sent":
            raise Died
        return await run_many(self, name, *args, **more)  # type: ignore[arg-type]

    lease = await lease_in(frontier, 1)
    monkeypatch.setattr(Shards, "run_many", lose_the_receipt)
    found = (make_task(f"http://{host_in(2)}/x", fingerprint=None),)
    with pytest.raises(Died):
        await frontier.settle([Settlement(lease, Done(), found)])
    monkeypatch.undo()
    clock.advance(6)
    await frontier.reap()
    job = await counted(frontier)
    assert (job.counters.pending, job.counters.admitted) == (1, 2)
    assert len((await claim(frontier)).leases) == 1


async def test_a_redirect_to_another_shard_is_open_all_the_way(
    frontier: RedisFrontier, clock: ManualClock, dying: pytest.MonkeyPatch
) -> None:
    lease = await lease_in(frontier, 0)
    await frontier.add("job", [], Cursor(fed_all=True))
    to = replace(make_task(f"http://{host_in(3)}/new"), hops=(lease.task.url,))
    with pytest.raises(Died):
        await frontier.settle([Settlement(lease, Moved(to))])
    dying.undo()
    job = await balanced(frontier)
    assert (job.counters.pending, job.exhausted) == (1, False)
    clock.advance(6)
    [moved] = (await claim(frontier)).leases
    assert (moved.task.id, moved.task.url, moved.task.attempt) == (lease.task.id, to.url, 1)
    await settle(frontier, moved)
    assert (await counted(frontier)).exhausted


async def test_a_redirect_to_a_page_known_in_another_shard_is_merged(frontier: RedisFrontier) -> None:
    url = f"http://{host_in(3)}/known"
    await frontier.add("job", [make_task(url)])
    [known] = (await claim(frontier)).leases
    lease = await lease_in(frontier, 0)
    await settle(frontier, lease, Moved(make_task(url)))
    job = await counted(frontier)
    assert (job.counters.merged, job.counters.duplicates, job.counters.leased) == (1, 1, 1)
    assert await settle(frontier, known)


async def test_the_page_budget_holds_over_all_shards(valkey_server: ValkeyServer) -> None:
    store = f"{valkey_server.url}?prefix=m{next(_number)}&shards={SHARDS}"
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec(max_pages=30))
        await one.add("job", [make_task(f"http://h{n}.test/") for n in range(100)])
        failed = 0
        for turn in itertools.count():
            got = await asyncio.gather(*(claim((one, two)[n % 2], 5, worker=f"w{n}") for n in range(6)))
            leases = [lease for part in got for lease in part.leases]
            job = await counted(one)
            assert job.counters.done + job.counters.leased <= 30
            if not leases:
                break
            for n, lease in enumerate(leases):
                verdict = Dead(FAILED) if (n + turn) % 3 == 0 else Done()
                failed += isinstance(verdict, Dead)
                assert await settle(two, lease, verdict)
        job = await counted(two)
        assert (job.counters.done, job.counters.dead, job.exhausted) == (30, failed, True)
        assert (await one.open_job(spec(max_pages=40))).state == "running"
        assert len((await claim(two)).leases) == 10


async def test_a_keyed_row_is_written_once_whichever_shard_its_page_is_in(frontier: RedisFrontier) -> None:
    journal = ListJournal()
    leases = [await lease_in(frontier, shard) for shard in range(SHARDS)]
    batch = [Settlement(lease, Done(), rows=(Row(b"same\n", 42), Row(b"free\n"))) for lease in leases]
    assert all((await frontier.settle(batch[:3], journal)).accepted)
    assert all((await frontier.settle(batch[3:], journal)).accepted)
    assert journal.data.count(b"same\n") == 1
    assert journal.data.count(b"free\n") == 4
    assert (await counted(frontier)).counters.items == 5


async def test_a_keyed_row_whose_page_was_lost_can_still_be_written(
    frontier: RedisFrontier, clock: ManualClock
) -> None:
    class Broken(ListJournal):
        def append(self, committed: int, rows: object) -> int:
            raise OSError("disk on fire")

    lease = await lease_in(frontier, 2)
    settlement = Settlement(lease, Done(), rows=(Row(b"row\n", 42),))
    with pytest.raises(OSError, match="fire"):
        await frontier.settle([settlement], Broken())
    journal = ListJournal()
    assert (await frontier.settle([settlement], journal)).accepted == [True]
    assert journal.data == b"row\n"


async def test_a_job_is_never_believed_to_be_empty_while_a_task_changes_places(
    valkey_server: ValkeyServer,
) -> None:
    """Tasks hop between shards while somebody keeps asking whether the job has anything left."""
    store = f"{valkey_server.url}?prefix=m{next(_number)}&shards={SHARDS}"
    async with RedisFrontier(store) as worker, RedisFrontier(store) as observer:
        await worker.open_job(spec())
        await worker.add("job", [make_task(f"http://{host_in(0)}/0")], Cursor(fed_all=True))
        ended = False

        async def watch() -> int:
            looks = 0
            while not ended:
                job = await observer.job("job")
                assert job is not None
                assert ended or not job.exhausted
                looks += 1
            return looks

        watching = asyncio.create_task(watch())
        for hop in range(1, 60):
            [lease] = (await claim(worker)).leases
            link = make_task(f"http://{host_in(hop % SHARDS)}/{hop}")
            assert await settle(worker, lease, Done(), link)
        ended = True
        assert await watching > 5
        [lease] = (await claim(worker)).leases
        await settle(worker, lease)
        assert (await counted(observer)).exhausted


async def test_hosts_take_turns_over_all_shards(frontier: RedisFrontier) -> None:
    hosts = [host_in(shard, nth) for shard in range(SHARDS) for nth in range(2)]
    await frontier.add("job", [make_task(f"http://{host}/{n}") for host in hosts for n in range(3)])
    for _ in range(3):
        served = [(await claim(frontier, 2)).leases for _ in range(4)]
        assert sorted(lease.task.host for leases in served for lease in leases) == sorted(hosts)
