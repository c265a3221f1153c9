"""settle: verdicts, links, rows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, Whereabouts
from shoal.model import Dead, Done, Failure, FetchOptions, Moved, Retry, Row, Settlement, Snapshot
from shoal.testing.conformance.tools import (
    FAILED,
    ListJournal,
    claim,
    counted,
    make_task,
    settle,
    spec,
    start_job,
    urls_of,
)
from shoal.testing.manual_clock import ManualClock


class Settling:
    async def test_done_and_links_take_effect_together(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        links = [make_task("http://a.test/x"), make_task("http://b.test/y"), make_task("http://a.test/")]
        settled = await frontier.settle([Settlement(lease, Done(), tuple(links))])
        assert (settled.found.new, settled.found.duplicates) == (2, 1)
        job = await counted(frontier)
        assert (job.counters.done, job.counters.pending, job.counters.leased) == (1, 2, 0)

    async def test_a_lease_settles_once(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        twice = [Settlement(lease, Done()), Settlement(lease, Done(), (make_task("http://a.test/late"),))]
        assert list((await frontier.settle(twice)).accepted) == [True, False]
        assert not await settle(frontier, lease, Done(), make_task("http://a.test/later"))
        job = await counted(frontier)
        assert (job.counters.done, job.counters.admitted, job.counters.stale) == (1, 1, 2)

    async def test_a_settlement_of_this_epoch_is_taken(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        settled = await frontier.settle([Settlement(lease, Done())], epoch=frontier.epoch)
        assert (list(settled.accepted), settled.outdated) == ([True], frozenset())

    async def test_a_stale_settlement_is_refused_and_the_rest_goes_through(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/1"), make_task("http://a.test/2")])
        late, _ = (await claim(frontier, lease_seconds=10)).leases
        clock.advance(11)
        again = (await claim(frontier, worker="w2")).leases
        assert len(again) == 2
        batch = [Settlement(late, Done(), (make_task("http://a.test/x"),)), Settlement(again[0], Done())]
        assert list((await frontier.settle(batch)).accepted) == [False, True]
        job = await counted(frontier)
        assert (job.counters.done, job.counters.leased, job.counters.admitted) == (1, 1, 2)

    async def test_a_retry_waits_for_its_time(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Retry(30.0, FAILED))
        job = await counted(frontier)
        assert (job.counters.delayed, job.counters.retried, job.exhausted) == (1, 1, False)
        early = await claim(frontier)
        assert early.leases == []
        assert abs(early.next_due - 30) < 0.01
        clock.advance(30.01)
        [again] = (await claim(frontier)).leases
        assert again.task.attempt == 2
        assert again.task.history == (FAILED,)
        assert again.token != lease.token

    async def test_a_retry_may_take_another_lane(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Retry(1.0, FAILED, lane="browser", pool="residential"))
        clock.advance(2)
        assert (await claim(frontier)).leases == []
        [again] = (await claim(frontier, lanes=["browser"])).leases
        assert (again.task.lane, again.task.pool, again.task.attempt) == ("browser", "residential", 2)
        await settle(frontier, again)
        await counted(frontier)

    async def test_an_attempt_that_does_not_count_is_given_back(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(max_attempts=1))
        await frontier.add(
            "job", [make_task("http://a.test/", pool="dc", options=FetchOptions(session="me"))]
        )
        for _ in range(4):
            [lease] = (await claim(frontier)).leases
            assert lease.task.attempt == 1
            assert len(lease.task.history) <= 1, "of such attempts only the last is told"
            waits = Failure("proxy_wait", "no proxy", via="dc/one:1")
            await settle(frontier, lease, Retry(5, waits, counts=False))
            clock.advance(6)
        [lease] = (await claim(frontier)).leases
        assert (lease.task.attempt, lease.task.history[-1].via) == (1, "dc/one:1")
        assert (lease.task.pool, lease.task.session) == ("dc", "me")
        assert (await counted(frontier)).counters.retried == 0, "it has waited, and not failed"

    async def test_a_task_waits_on_its_last_attempt_without_being_buried(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Whether the limit is the task's own or that of its job, and in whatever lane it waits."""
        await frontier.open_job(spec(max_attempts=2))
        urls = {"http://a.test/own": 3, "http://a.test/job": 0}
        await frontier.add("job", [make_task(url, max_attempts=most) for url, most in urls.items()])
        waits = Failure("origin_wait", "the host is cooling down")
        for attempt in (1, 2, 3):
            for lane in ("normal", "browser"):
                leases = (await claim(frontier, lanes=[lane])).leases
                assert [lease.task.attempt for lease in leases] == [attempt] * (2 if attempt < 3 else 1)
                other = "browser" if lane == "normal" else "normal"
                for lease in leases:
                    assert await settle(frontier, lease, Retry(1.0, waits, lane=other, counts=False))
                clock.advance(2)
            leases = (await claim(frontier)).leases
            settled = await frontier.settle([Settlement(lease, Retry(1.0, FAILED)) for lease in leases])
            clock.advance(2)
            assert settled.buried == (0 if attempt == 1 else 1)
        job = await counted(frontier)
        assert (job.counters.retried, job.counters.dead) == (3, 2)
        assert {letter.task.url for letter in await frontier.dead(DeadFilter())} == set(urls)

    async def test_the_last_attempt_ends_in_the_dead_letters(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")], max_attempts=2)
        for _ in range(2):
            [lease] = (await claim(frontier)).leases
            snapshot = Snapshot(status=503, body=b"busy")
            settled = await frontier.settle([Settlement(lease, Retry(1.0, FAILED), snapshot=snapshot)])
            clock.advance(2)
        assert settled.buried == 1
        [letter] = await frontier.dead(DeadFilter())
        assert letter.kind == "timeout"
        assert len(letter.task.history) == 2
        assert letter.snapshot == Snapshot(status=503, body=b"busy")
        assert (await counted(frontier)).counters.dead == 1

    async def test_text_that_is_half_a_character_stops_nothing(self, frontier: Frontier) -> None:
        """A header that is no UTF-8 brings it, or an error about what a page holds. Stores may write U+FFFD."""
        await start_job(frontier, [make_task("http://a.test/", cookies=("a=\udcff",))])
        failed = Failure("handler", "half \ud800")
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Retry(0.0, failed))
        [lease] = (await claim(frontier)).leases
        snapshot = Snapshot(404, {"X-Half": "\udcff"}, b"\xff", "half \ud800")
        await frontier.settle([Settlement(lease, Dead(failed, snapshot))])
        [letter] = await frontier.dead(DeadFilter())
        assert letter.snapshot is not None
        assert letter.snapshot.body == b"\xff"
        assert letter.task.history[0].detail.startswith("half ")

    async def test_a_redirect_goes_on_at_the_other_hosts_queue(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        to = replace(make_task("http://b.test/new"), hops=("http://a.test/",))
        assert await settle(frontier, lease, Moved(to))
        [moved] = (await claim(frontier)).leases
        assert (moved.task.url, moved.task.host, moved.task.id) == (to.url, "b.test", lease.task.id)
        assert moved.task.attempt == 1
        assert moved.task.origin == "http://a.test/"
        assert (await counted(frontier)).counters.admitted == 1

    async def test_a_redirect_to_a_known_page_is_merged_into_it(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_pages=1))
        old, hop, new = (make_task(f"http://{host}/") for host in ("a.test", "b.test", "c.test"))
        await frontier.add("job", [old, replace(new, lane="urgent")])
        for to in (hop, new):
            [lease] = (await claim(frontier)).leases
            await settle(frontier, lease, Moved(replace(to, trail=lease.task.pages)))
        c = (await counted(frontier)).counters
        assert (c.merged, c.duplicates, c.done, c.pending) == (1, 1, 0, 1), "it is no page of the budget"
        for task in (old, hop):
            assert await frontier.find("job", task) == Whereabouts("merged", into=new.url)
        assert urls_of((await claim(frontier, lanes=["urgent"])).leases) == [new.url]
        await frontier.drop_job("job")
        await frontier.open_job(spec())
        assert await frontier.find("job", old) == Whereabouts("unknown")

    async def test_a_redirect_with_another_handler_or_meta_is_not_merged(self, frontier: Frontier) -> None:
        """It is, with one of the same: each was admitted with it, or came there by a redirect."""
        await frontier.open_job(spec())
        page = make_task("http://a.test/page", variant=1)
        starts = [make_task(f"http://a.test/{n}") for n in range(5)]
        await frontier.add("job", [page, *starts])
        leases = [one for one in (await claim(frontier)).leases if one.task.url != page.url]
        for lease, variant in zip(leases, (1, 2, 2, 3, None), strict=True):
            await settle(frontier, lease, Moved(replace(page, variant=variant, trail=lease.task.pages)))
        again = (await claim(frontier)).leases
        assert [lease.task.id for lease in again] == [leases[1].task.id, leases[3].task.id]
        assert (await counted(frontier)).counters.merged == 3

    async def test_links_that_were_too_many_are_counted(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/"), make_task("http://b.test/")])
        leases = (await claim(frontier)).leases
        await frontier.settle([Settlement(lease, Done(), links_cut=40) for lease in leases])
        assert (await counted(frontier)).counters.links_cut == 80

    async def test_a_redirect_to_itself_is_followed(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Moved(make_task("http://a.test/", cookies=("seen=1",))))
        [again] = (await claim(frontier)).leases
        assert again.task.cookies == ("seen=1",)

    async def test_a_redirect_to_another_spelling_of_the_page_is_followed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        task = make_task("http://a.test/?a=1&b=2")
        await frontier.add("job", [task])
        [lease] = (await claim(frontier)).leases
        there = make_task("http://a.test/there", hops=(task.url,), trail=(lease.task.fingerprint,))
        await settle(frontier, lease, Moved(there))
        [lease] = (await claim(frontier)).leases
        insisted = replace(task, url="http://a.test/?b=2&a=1", hops=(task.url, there.url))
        await settle(frontier, lease, Moved(insisted))
        assert urls_of((await claim(frontier)).leases) == [insisted.url]
        await counted(frontier)

    async def test_a_redirect_back_to_an_earlier_hop_is_followed(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Moved(make_task("http://a.test/consent", hops=("http://a.test/",))))
        [wall] = (await claim(frontier)).leases
        back = make_task("http://a.test/", hops=("http://a.test/", "http://a.test/consent"))
        await settle(frontier, wall, Moved(back))
        assert urls_of((await claim(frontier)).leases) == ["http://a.test/"]
        await counted(frontier)

    async def test_rows_reach_the_journal_with_the_settlement_only(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        journal = ListJournal()
        await frontier.open_job(spec())
        assert await frontier.journal_length("job", journal.key) is None
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier, lease_seconds=10)).leases
        await frontier.settle([Settlement(one, Done(), rows=(Row(b"one\n"),))], journal)
        clock.advance(11)
        [again] = (await claim(frontier)).leases
        late = Settlement(two, Done(), rows=(Row(b"late\n"),))
        await frontier.settle([late, Settlement(again, Done(), rows=(Row(b"two\n"),))], journal)
        assert journal.data == b"one\ntwo\n"
        assert await frontier.journal_length("job", journal.key) == 8
        assert (await counted(frontier)).counters.items == 2

    async def test_records_of_the_archive_follow_the_rows_and_are_not_counted(
        self, frontier: Frontier
    ) -> None:
        journal = ListJournal()
        await start_job(frontier, [make_task("http://a.test/"), make_task("http://b.test/")])
        leases = (await claim(frontier)).leases
        record = (Row(b"warc\n", table="_archive"),)
        await frontier.settle(
            [Settlement(leases[0], Done(), rows=(Row(b"one\n"),), archived=record)], journal
        )
        # A page without rows, and a settlement that comes too late.
        late = Settlement(leases[0], Done(), archived=record)
        await frontier.settle([late, Settlement(leases[1], Done(), archived=record)], journal)
        assert journal.data == b"one\nwarc\nwarc\n"
        assert await frontier.journal_length("job", journal.key) == len(journal.data)
        assert (await counted(frontier)).counters.items == 1

    async def test_all_journals_of_a_job_can_be_listed(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://h{n}.test/") for n in range(8)])
        assert await frontier.journals("job") == {}
        journals = {key: ListJournal(key) for key in "abc"}
        for lease, key in zip((await claim(frontier)).leases, "aabbbbac", strict=True):
            await frontier.settle([Settlement(lease, Done(), rows=(Row(b"row\n"),))], journals[key])
        assert await frontier.journals("job") == {"a": 12, "b": 16, "c": 4}
        await frontier.drop_job("job")
        await start_job(frontier, [make_task("http://h.test/")])
        assert await frontier.journals("job") == {}

    async def test_what_a_crash_left_behind_the_committed_length_is_cut(self, frontier: Frontier) -> None:
        journal = ListJournal()
        await start_job(frontier, [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier)).leases
        await frontier.settle([Settlement(one, Done(), rows=(Row(b"one\n"),))], journal)
        journal.data += b"half a ro"
        await frontier.settle([Settlement(two, Done(), rows=(Row(b"two\n"),))], journal)
        assert journal.data == b"one\ntwo\n"

    async def test_a_failing_journal_undoes_the_settlement(self, frontier: Frontier) -> None:
        class Broken(ListJournal):
            def append(self, committed: int, rows: Sequence[Row]) -> int:
                raise OSError("disk on fire")

        await start_job(frontier, [make_task("http://a.test/1")])
        [lease] = (await claim(frontier)).leases
        links = (make_task("http://new.test/x"),)
        try:
            await frontier.settle([Settlement(lease, Done(), links, (Row(b"one\n"),))], Broken())
        except OSError:
            pass
        else:
            raise AssertionError("the journal's failure was swallowed")
        assert (await counted(frontier)).counters.leased == 1
        # The same settlement goes through once the journal works again, and its links are admitted only now.
        settled = await frontier.settle([Settlement(lease, Done(), links, (Row(b"one\n"),))], ListJournal())
        assert list(settled.accepted) == [True]
        assert settled.found.new == 1

    async def test_a_keyed_row_is_written_once_per_job(self, frontier: Frontier) -> None:
        journal = ListJournal()
        await start_job(frontier, [make_task(f"http://a.test/{i}") for i in range(3)])
        leases = (await claim(frontier)).leases
        for lease in leases:
            await frontier.settle(
                [Settlement(lease, Done(), rows=(Row(b"same\n", 42), Row(b"free\n")))], journal
            )
        assert journal.data.count(b"same\n") == 1
        assert journal.data.count(b"free\n") == 3
