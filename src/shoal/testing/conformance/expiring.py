"""dedupe_expires: a page that was done a while ago may be found anew. A home may remember it for a quarter longer."""

from __future__ import annotations

from shoal.frontier.protocol import Frontier
from shoal.model import Dead, Done, Moved, Retry, Revisit, Row, Settlement
from shoal.model.page_record import PageRecord
from shoal.testing.conformance.tools import FAILED, ListJournal, claim, counted, make_task, settle, start_job
from shoal.testing.manual_clock import ManualClock

WEEK = 604_800.0
_LONGER = WEEK * 1.25 + 1
_PAGE = "http://a.test/"


class Expiring:
    async def test_a_page_that_was_done_is_known_for_that_time_and_then_found_anew(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task(_PAGE)], dedupe_expires=WEEK)
        clock.advance(WEEK / 2)
        for _ in range(3):
            [lease] = (await claim(frontier)).leases
            await settle(frontier, lease)
            clock.advance(WEEK - 1)
            assert (await frontier.add("job", [make_task(_PAGE)])).duplicates == 1
            clock.advance(WEEK / 4 + 2)
            added = await frontier.add("job", [make_task(_PAGE), make_task(_PAGE)])
            assert (added.new, added.duplicates) == (1, 1)
        counters = (await counted(frontier)).counters
        assert (counters.admitted, counters.done, counters.pending) == (4, 3, 1)

    async def test_without_the_setting_a_page_stays_known(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task(_PAGE)])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease)
        clock.advance(100 * WEEK)
        assert (await frontier.add("job", [make_task(_PAGE)])).new == 0

    async def test_a_page_with_an_open_task_gets_no_second_one(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Pending, leased, delayed, or waiting for its next visit."""
        pages = [make_task(f"http://a.test/{name}") for name in ("pending", "held", "retried", "followed")]
        await start_job(frontier, pages[1:], dedupe_expires=WEEK)
        leases = {lease.task.url[14:]: lease for lease in (await claim(frontier, lease_seconds=1e9)).leases}
        await frontier.add("job", pages[:1])
        await settle(frontier, leases["retried"], Retry(100 * WEEK, FAILED))
        await settle(frontier, leases["followed"], Revisit(100 * WEEK, PageRecord(visits=1)))
        for _ in range(4):
            clock.advance(_LONGER)
            assert (await frontier.add("job", pages)).new == 0
        await settle(frontier, leases["held"])
        clock.advance(WEEK - 1)
        assert (await frontier.add("job", pages)).new == 0
        clock.advance(_LONGER - WEEK)
        assert (await frontier.add("job", pages)).new == 1

    async def test_links_of_pages_and_redirects_are_found_anew_too(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        target = "http://b.test/target"
        await start_job(frontier, [make_task(_PAGE), make_task(target)], dedupe_expires=WEEK)
        for lease in (await claim(frontier)).leases:
            await settle(frontier, lease, Moved(make_task(target)) if lease.task.url == _PAGE else Done())
        assert (await counted(frontier)).counters.merged == 1
        clock.advance(_LONGER)
        await frontier.add("job", [make_task("http://a.test/new")])
        [lease] = (await claim(frontier)).leases
        settlement = Settlement(lease, Done(), (make_task(_PAGE), make_task(target)))
        assert (await frontier.settle([settlement])).accepted == [True]
        leases = {lease.task.url: lease for lease in (await claim(frontier)).leases}
        assert leases.keys() == {_PAGE, target}
        await settle(frontier, leases[target])
        clock.advance(_LONGER)
        await frontier.extend("w1", 60.0)
        await settle(frontier, leases[_PAGE], Moved(make_task(target)))
        [lease] = (await claim(frontier)).leases
        assert lease.task.url == target, "it was done long ago, so the redirect is followed"

    async def test_a_dead_page_is_found_anew(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task(_PAGE)], dedupe_expires=WEEK)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Dead(FAILED))
        assert (await frontier.add("job", [make_task(_PAGE)])).new == 0
        clock.advance(_LONGER)
        assert (await frontier.add("job", [make_task(_PAGE)])).new == 1

    async def test_a_row_may_be_written_again_after_that_time(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        journal, row = ListJournal(), Row(b"row\n", key=7)
        await start_job(frontier, [make_task(_PAGE), make_task("http://b.test/")], dedupe_expires=WEEK)
        for lease in (await claim(frontier)).leases:
            await frontier.settle([Settlement(lease, Done(), rows=(row,))], journal)
        assert journal.data == b"row\n"
        clock.advance(_LONGER)
        await frontier.add("job", [make_task(_PAGE), make_task("http://b.test/")])
        for lease in (await claim(frontier)).leases:
            await frontier.settle([Settlement(lease, Done(), rows=(row,))], journal)
        assert journal.data == b"row\nrow\n"
        assert (await counted(frontier)).counters.items == 2

    async def test_a_bloom_filter_forgets_as_well(self, frontier: Frontier, clock: ManualClock) -> None:
        pages = [make_task(f"http://a.test/{n}") for n in range(20)]
        await start_job(frontier, pages, dedupe_expires=WEEK, dedupe="bloom", capacity=1000)
        for lease in (await claim(frontier)).leases:
            await settle(frontier, lease)
        clock.advance(WEEK - 1)
        assert (await frontier.add("job", pages)).new == 0
        clock.advance(WEEK / 4 + 2)
        assert (await frontier.add("job", pages)).new == 20

    async def test_a_dropped_job_knows_nothing_afterwards(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        for _ in range(2):
            await start_job(frontier, [make_task(_PAGE)], dedupe_expires=WEEK)
            [lease] = (await claim(frontier)).leases
            await settle(frontier, lease)
            clock.advance(WEEK / 2)
            await frontier.drop_job("job")
