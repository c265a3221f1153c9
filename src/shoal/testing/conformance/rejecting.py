"""Rejected items: kept with their page, replayed through the queue, dropped."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, Job
from shoal.model import (
    REJECTED,
    Dead,
    DeadLetter,
    Done,
    Failure,
    ItemNote,
    Lease,
    Row,
    Settlement,
    Task,
    items_of,
)
from shoal.testing.conformance.tools import ListJournal, claim, counted, make_task, start_job
from shoal.testing.manual_clock import ManualClock
from shoal.valve import Valve

ALL = DeadFilter(kind=REJECTED)


def make_item(page: Task, number: int = 0) -> Task:
    return Task(
        page.url,
        page.handler,
        host=items_of(page.host),
        lane=page.lane,
        parent=page.id,
        body=b'{"n":%d}' % number,
        meta={"page": 7},
        history=(Failure(REJECTED, "Expected `str`, got `int`", at=5.0),),
        item=ItemNote("product", at=3.0, hooked=True),
    )


async def reject(frontier: Frontier, lease: Lease, count: int = 1) -> bool:
    items = tuple(make_item(lease.task, number) for number in range(count))
    settled = await frontier.settle([Settlement(lease, Done(), rejected=items)])
    return settled.accepted[0]


async def rejected_job(frontier: Frontier, urls: Sequence[str], each: int = 1, **fields: object) -> Job:
    """A finished job whose pages had so many items each that were rejected."""
    await start_job(frontier, [make_task(url) for url in urls], None, **fields)
    while leases := (await claim(frontier)).leases:
        for lease in leases:
            assert await reject(frontier, lease, each)
    return await counted(frontier)


def bodies(letters: Sequence[DeadLetter]) -> set[bytes | None]:
    return {letter.task.body for letter in letters}


class Rejecting:
    async def test_rejected_items_are_kept_with_their_page(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        journal, row = ListJournal(), Row(b"good\n")
        items = tuple(make_item(lease.task, number) for number in range(2))
        await frontier.settle([Settlement(lease, Done(), rows=(row,), rejected=items)], journal)
        job = await counted(frontier)
        assert (job.counters.done, job.counters.dead, job.counters.rejected) == (1, 0, 2)
        assert (job.counters.items, job.counters.admitted) == (1, 1), "a rejected item is no page"
        letters = await frontier.dead(ALL)
        assert bodies(letters) == {b'{"n":0}', b'{"n":1}'}
        for letter in letters:
            item = items[int(letter.task.body[5:6])]  # type: ignore[index]
            assert letter.kind == REJECTED
            assert letter.at == await frontier.now()
            given = {"id": letter.task.id, "job": "job", "created_at": letter.task.created_at}
            assert letter.task == replace(item, **given)
        assert len({letter.task.id for letter in letters} | {lease.task.id}) == 3

    async def test_items_of_a_settlement_that_came_too_late_are_not_kept(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [late] = (await claim(frontier, lease_seconds=10)).leases
        clock.advance(11)
        [lease] = (await claim(frontier, worker="w2")).leases
        assert not await reject(frontier, late)
        assert await reject(frontier, lease)
        assert len(await frontier.dead(ALL)) == 1

    async def test_rejected_items_are_not_among_dead_pages(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/1"), make_task("http://a.test/2")])
        good, bad = (await claim(frontier)).leases
        await reject(frontier, good)
        await frontier.settle([Settlement(bad, Dead(Failure("http_404")))])
        [page] = await frontier.dead(DeadFilter())
        [item] = await frontier.dead(ALL)
        assert (page.kind, item.kind) == ("http_404", REJECTED)
        assert await frontier.dead(DeadFilter(ids=[item.task.id])) == []
        assert [one.task.id for one in await frontier.dead(replace(ALL, ids=[item.task.id]))] == [
            item.task.id
        ]
        assert await frontier.dead(DeadFilter(host="a.test")) == [page]
        assert await frontier.dead(replace(ALL, host=items_of("a.test"))) == [item]
        assert await frontier.replay(DeadFilter()) == 1
        assert (await counted(frontier)).counters.rejected == 1

    async def test_a_replayed_item_is_no_page(self, frontier: Frontier) -> None:
        before = await rejected_job(frontier, ["http://a.test/"], each=2)
        assert await frontier.replay(ALL) == 2
        job = await counted(frontier)
        assert (job.counters.rejected, job.counters.pending, job.counters.admitted) == (0, 2, 3)
        leases = (await claim(frontier)).leases
        assert {lease.task.body for lease in leases} == {b'{"n":0}', b'{"n":1}'}
        for lease in leases:
            assert lease.task.item == ItemNote("product", at=3.0, hooked=True)
            assert (lease.task.attempt, lease.task.url) == (1, "http://a.test/")
        journal = ListJournal()
        good = Settlement(leases[0], Done(), rows=(Row(b"mended\n"),))
        bad = Settlement(leases[1], Done(), rejected=(make_item(leases[1].task, 5),))
        await frontier.settle([good, bad], journal)
        assert journal.data == b"mended\n"
        after = (await counted(frontier)).counters
        assert after == replace(before.counters, rejected=1, items=1)
        assert bodies(await frontier.dead(ALL)) == {b'{"n":5}'}

    async def test_replayed_items_do_not_wait_for_their_host(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        slow = Valve(interval=100.0)
        await rejected_job(frontier, ["http://a.test/"], each=5, valve=slow)
        await frontier.add("job", [make_task("http://a.test/next")])
        await frontier.replay(ALL)
        assert [record.name async for record in frontier.hosts()] == ["a.test"], "nobody sets limits for them"
        leases = (await claim(frontier)).leases
        assert [lease.task.item is not None for lease in leases] == [True] * 5
        assert all(lease.interval == 0 for lease in leases)
        for lease in leases:
            await frontier.settle([Settlement(lease, Done())])
        assert (await claim(frontier)).leases == [], "the page waits for its host"
        clock.advance(101)
        [page] = (await claim(frontier)).leases
        assert page.task.url == "http://a.test/next"

    async def test_replayed_items_use_up_no_page_budget(self, frontier: Frontier) -> None:
        await rejected_job(frontier, ["http://a.test/", "http://b.test/"], each=3, max_pages=3)
        assert await frontier.replay(ALL) == 6
        items = 0
        while leases := (await claim(frontier)).leases:
            assert len(leases) == 1, "a lease may turn out to be a page"
            items += 1
            await frontier.settle([Settlement(lease, Done()) for lease in leases])
        assert items == 6
        await frontier.add("job", [make_task("http://a.test/3"), make_task("http://b.test/4")])
        [page] = (await claim(frontier)).leases
        await frontier.settle([Settlement(page, Done())])
        assert (await claim(frontier)).leases == []
        assert (await counted(frontier)).counters.done == 3

    async def test_items_of_a_worker_that_died_come_back(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await rejected_job(frontier, ["http://a.test/"])
        await frontier.replay(ALL)
        [lost] = (await claim(frontier, lease_seconds=10)).leases
        clock.advance(11)
        [again] = (await claim(frontier, worker="w2")).leases
        assert again.task.body == lost.task.body
        late, held = [Settlement(one, Done(), rows=(Row(b"row\n"),)) for one in (lost, again)]
        journal = ListJournal()
        assert list((await frontier.settle([late, held], journal)).accepted) == [False, True]
        assert journal.data == b"row\n"
        assert (await counted(frontier)).counters.admitted == 1

    async def test_a_replayed_item_that_dies_is_a_dead_letter_like_any_other(
        self, frontier: Frontier
    ) -> None:
        await rejected_job(frontier, ["http://a.test/"])
        await frontier.replay(ALL)
        [lease] = (await claim(frontier)).leases
        await frontier.settle([Settlement(lease, Dead(Failure("handler", "a hook failed")))])
        assert (await counted(frontier)).counters.dead == 1
        [letter] = await frontier.dead(DeadFilter())
        assert letter.task.item is not None
        assert await frontier.replay(DeadFilter()) == 1
        [again] = (await claim(frontier)).leases
        await frontier.settle([Settlement(again, Done())])
        job = await counted(frontier)
        assert (job.counters.admitted, job.counters.done, job.counters.dead) == (1, 1, 0)

    async def test_dropped_items_are_gone(self, frontier: Frontier) -> None:
        await rejected_job(frontier, ["http://a.test/", "http://b.test/"], each=2)
        assert await frontier.drop(replace(ALL, host=items_of("a.test"))) == 2
        assert (await counted(frontier)).counters.rejected == 2
        assert await frontier.drop(DeadFilter()) == 0
        await frontier.drop_job("job")
        assert await frontier.dead(ALL) == []

    async def test_items_of_many_hosts_are_read_page_by_page(self, frontier: Frontier) -> None:
        await rejected_job(frontier, [f"http://h{n}.test/" for n in range(12)], each=3)
        whole = list(await frontier.dead(ALL))
        assert len(whole) == 36
        paged: list[DeadLetter] = []
        query = replace(ALL, limit=7)
        while page := await frontier.dead(query):
            paged += page
            query = replace(query, before=(page[-1].at, page[-1].task.id))
        assert paged == whole
        assert await frontier.replay(ALL) == 36
        assert len((await claim(frontier)).leases) == 36
