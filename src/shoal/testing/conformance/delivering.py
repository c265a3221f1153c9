"""Deliveries to webhooks: admitted with the page that found a change, tried again, given up, and never a page."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.model import Dead, Done, Failure, ItemNote, Lease, Retry, Settlement, Task, webhook_host
from shoal.model.built_in import WEBHOOK
from shoal.testing.conformance.tools import claim, counted, make_task, start_job
from shoal.testing.manual_clock import ManualClock
from shoal.valve import DELIVERING, Valve

_REFUSED = Failure("webhook", "webhook 1: HTTP 503", status=503, attempt=1)


def make_delivery(page: Task, number: int = 0) -> Task:
    return Task(
        page.url,
        WEBHOOK,
        job=page.job,
        host=webhook_host(1),
        lane="urgent",
        parent=page.id,
        body=b'{"n":%d}' % number,
        meta={"webhook": 1, "delivery": f"d{number}"},
        item=ItemNote(table="changes", handler=WEBHOOK),
    )


async def delivering(frontier: Frontier, count: int, **fields: object) -> None:
    """A job whose one page has found so many changes."""
    await start_job(frontier, [make_task("http://a.test/")], None, **fields)
    [lease] = (await claim(frontier)).leases
    found = tuple(make_delivery(lease.task, number) for number in range(count))
    await frontier.settle([Settlement(lease, Done(), found)])


async def take(frontier: Frontier) -> list[Lease]:
    return list((await claim(frontier, lanes=("normal", "urgent"))).leases)


class Delivering:
    async def test_a_delivery_waits_neither_for_its_site_nor_for_a_budget(self, frontier: Frontier) -> None:
        await delivering(frontier, 20, valve=Valve(interval=1000.0), max_pages_per_host=1)
        names, all_of_it = set(), 0
        while leases := await take(frontier):
            assert len(leases) == DELIVERING.cap, "not all at once"
            all_of_it += len(leases)
            names |= {lease.task.host for lease in leases}
            await frontier.settle([Settlement(lease, Done()) for lease in leases])
        assert (all_of_it, names) == (20, {webhook_host(1)})
        assert [record.name async for record in frontier.hosts()] == ["a.test"], "nobody sets limits for it"
        assert (await counted(frontier)).counters.over_budget == 0

    async def test_a_delivery_is_no_page(self, frontier: Frontier) -> None:
        await delivering(frontier, 1)
        job = await counted(frontier)
        assert (job.counters.done, job.counters.pending, job.counters.admitted) == (1, 1, 2)
        [lease] = await take(frontier)
        await frontier.settle([Settlement(lease, Done(), counts=(("webhooks: sent", 1),))])
        after = await counted(frontier)
        assert (after.counters.done, after.counters.admitted, after.counters.open) == (1, 1, 0)
        assert after.counts == {"webhooks: sent": 1}

    async def test_a_delivery_that_failed_comes_again_as_it_was_settled(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await delivering(frontier, 1)
        for tries in range(1, 8):
            [lease] = await take(frontier)
            assert (lease.task.body, lease.task.attempt) == (b'{"n":0}', 1), "an attempt does not count"
            meta = {"webhook": 1, "delivery": "d0", "tries": tries}
            again = replace(lease, task=replace(lease.task, meta=meta))
            await frontier.settle([Settlement(again, Retry(3600.0, _REFUSED, counts=False))])
            assert await take(frontier) == []
            clock.advance(3601)
        [lease] = await take(frontier)
        assert lease.task.meta == {"webhook": 1, "delivery": "d0", "tries": 7}
        assert (await counted(frontier)).counters.retried == 0, "retries of the crawl have a budget"

    async def test_a_delivery_that_was_given_up_is_replayed(self, frontier: Frontier) -> None:
        await delivering(frontier, 1)
        [lease] = await take(frontier)
        await frontier.settle([Settlement(lease, Dead(_REFUSED))])
        job = await counted(frontier)
        assert (job.counters.dead, job.counters.rejected) == (1, 0)
        [letter] = await frontier.dead(DeadFilter(kind="webhook"))
        assert (letter.task.body, letter.task.url) == (b'{"n":0}', "http://a.test/")
        assert await frontier.replay(DeadFilter(kind="webhook")) == 1
        [lease] = await take(frontier)
        assert lease.task.meta == {"webhook": 1, "delivery": "d0"}, "the receiver knows it by this"
        await frontier.settle([Settlement(lease, Done())])
        after = (await counted(frontier)).counters
        assert (after.done, after.dead, after.admitted) == (1, 0, 1)
