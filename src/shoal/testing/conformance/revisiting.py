"""Pages that are visited again and again: a visit ends, and the task waits for the next one."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.model import Dead, Done, Moved, Retry, Revisit
from shoal.model.page_record import KeptRow, PageRecord
from shoal.testing.conformance.tools import FAILED, OPEN, claim, counted, make_task, settle, spec, start_job
from shoal.testing.manual_clock import ManualClock

_RECORD = PageRecord(
    visits=1,
    checked_at=1.5,
    interval=60.0,
    etag='"a"',
    modified="Wed, 18 Nov 2026 03:00:00 GMT",
    body=b"12345678",
    rows=(KeptRow("product", "7", b"digest", b"\x00data"),),
    rate=b"\xff\x00",
)
_ONE = replace(OPEN, cap=1)


class Revisiting:
    async def test_a_visited_page_waits_for_its_next_visit(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Retry(1.0, FAILED))
        clock.advance(2)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Revisit(40.0, _RECORD), make_task("http://a.test/next"))
        job = await counted(frontier)
        counters = job.counters
        assert (counters.waiting, counters.delayed, counters.done, counters.pending) == (1, 1, 0, 1)
        [other] = (await claim(frontier)).leases
        await settle(frontier, other)
        early = await claim(frontier)
        assert early.leases == []
        assert abs(early.next_due - 40) < 0.01
        clock.advance(40.01)
        [again] = (await claim(frontier)).leases
        assert (again.task.attempt, again.task.history) == (1, ())
        assert (again.task.url, again.task.record) == (lease.task.url, _RECORD)
        counters = (await counted(frontier)).counters
        assert (counters.waiting, counters.delayed, counters.leased) == (0, 0, 1)

    async def test_a_job_with_a_page_that_waits_does_not_end(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        for _ in range(3):
            [lease] = (await claim(frontier)).leases
            await settle(frontier, lease, Revisit(10.0, _RECORD))
            assert not await frontier.finish("job")
            clock.advance(11)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Done())
        job = await counted(frontier)
        assert (job.counters.waiting, job.counters.done, job.exhausted) == (0, 1, job.fed_all)

    async def test_a_failed_visit_keeps_the_record(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/")], max_attempts=2)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Revisit(10.0, _RECORD))
        clock.advance(11)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Retry(5.0, FAILED))
        counters = (await counted(frontier)).counters
        assert (counters.waiting, counters.delayed) == (0, 1), "it waits for a retry"
        clock.advance(6)
        [lease] = (await claim(frontier)).leases
        assert (lease.task.attempt, lease.task.record) == (2, _RECORD)
        await settle(frontier, lease, Revisit(10.0, _RECORD))
        assert (await counted(frontier)).counters.dead == 0

    async def test_a_replayed_page_has_its_record(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Revisit(10.0, _RECORD))
        clock.advance(11)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Dead(FAILED))
        assert await frontier.replay(DeadFilter("job")) == 1
        [lease] = (await claim(frontier)).leases
        assert lease.task.record == _RECORD

    async def test_a_page_that_is_said_to_have_changed_is_hastened(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        names = ("news", "checked", "unnamed", "retried")
        tasks = {name: make_task(f"http://a.test/{name}") for name in names}
        await start_job(frontier, list(tasks.values()))
        leases = {lease.task.url.rpartition("/")[2]: lease for lease in (await claim(frontier)).leases}
        now = await frontier.now()
        for name in names[:3]:
            await settle(frontier, leases[name], Revisit(1000.0, replace(_RECORD, checked_at=now)))
        await settle(frontier, leases["retried"], Retry(1000.0, FAILED))
        said = {"news": now + 5, "checked": now - 5, "retried": now + 5}
        wanted = {task.fingerprint or 0: said[name] for name, task in tasks.items() if name in said}
        clock.advance(10)
        assert await frontier.hasten("job", "b.test", wanted) == 0
        assert await frontier.hasten("job", "a.test", wanted) == 1
        assert await frontier.hasten("job", "a.test", wanted) == 0, "it is due already"
        [lease] = (await claim(frontier)).leases
        assert (lease.task.url, lease.task.attempt) == ("http://a.test/news", 1)
        counters = (await counted(frontier)).counters
        assert (counters.waiting, counters.delayed, counters.leased) == (2, 3, 1)

    async def test_a_page_that_leads_elsewhere_each_time_is_not_merged(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """/latest redirects to a page that has a task of its own: it is still asked for again."""
        await start_job(frontier, [make_task("http://a.test/latest"), make_task("http://a.test/today")])
        leases = (await claim(frontier)).leases
        latest, today = sorted(leases, key=lambda lease: lease.task.url)
        await settle(frontier, today)
        begins = replace(_RECORD, start="http://a.test/latest")
        await settle(frontier, latest, Moved(make_task("http://a.test/today", record=begins)))
        [there] = (await claim(frontier)).leases
        await settle(frontier, there, Revisit(10.0, begins))
        clock.advance(11)
        [again] = (await claim(frontier)).leases
        await settle(frontier, again, Moved(make_task("http://a.test/latest", record=begins)))
        [lease] = (await claim(frontier)).leases
        assert (lease.task.url, lease.task.id) == ("http://a.test/latest", again.task.id)
        counters = (await counted(frontier)).counters
        assert (counters.merged, counters.leased, counters.done) == (0, 1, 1)

    async def test_pages_that_are_always_due_and_new_pages_both_have_their_turns(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """With room for one request at a time, and more revisits than it has room for."""
        await start_job(
            frontier, [make_task(f"http://a.test/old{number}") for number in range(3)], valve=_ONE
        )
        visits: Counter[str] = Counter()
        for turn in range(24):
            await frontier.add("job", [make_task(f"http://a.test/new{turn}")] if turn % 3 == 0 else [])
            [lease] = (await claim(frontier)).leases
            url = lease.task.url
            visits[url] += 1
            await settle(frontier, lease, Revisit(0.5, _RECORD) if "old" in url else Done())
            clock.advance(1)
        new = [url for url in visits if "new" in url]
        assert len(new) >= 6, "of 8: they wait for those that came before them, and no longer"
        assert min(visits[f"http://a.test/old{number}"] for number in range(3)) >= 4
        assert max(visits[url] for url in new) == 1

    async def test_a_page_that_has_not_been_visited_yet_goes_before_a_revisit_that_is_due_later(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(
            frontier, [make_task(f"http://a.test/{name}") for name in ("again", "new")], valve=_ONE
        )
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Revisit(5.0, _RECORD))
        clock.advance(10)
        [lease] = (await claim(frontier)).leases
        assert lease.task.url == "http://a.test/new", "the new page waits longer"

    async def test_a_request_without_a_fingerprint_is_known_by_its_first_id(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/", fingerprint=None)])
        [first] = (await claim(frontier)).leases
        lease = first
        for _ in range(2):
            await settle(frontier, lease, Revisit(5.0, lease.task.record or _RECORD))
            clock.advance(10)
            [lease] = (await claim(frontier)).leases
            assert lease.task.record is not None
            assert lease.task.record.first == first.task.id

    async def test_a_dropped_job_leaves_no_page_that_waits(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Revisit(10.0, _RECORD))
        await frontier.open_job(spec("other"))
        await frontier.add("other", [make_task("http://a.test/")])
        [kept] = (await claim(frontier, jobs=["other"])).leases
        await settle(frontier, kept, Revisit(10.0, _RECORD))
        await frontier.drop_job("job")
        [queue] = await frontier.host_queues("a.test")
        assert (queue.job, queue.delayed) == ("other", 1)
        await start_job(frontier, [])
        clock.advance(11)
        assert len((await claim(frontier, jobs=["other"])).leases) == 1
        assert (await claim(frontier)).leases == []
        assert (await counted(frontier)).counters.waiting == 0
