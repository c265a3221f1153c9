"""The frontier's conformance suite: what every home must do, told in queue words.

A home proves itself by a subclass that provides two fixtures:

    class TestMyFrontier(FrontierConformance):
        @pytest.fixture
        def clock(self): return ManualClock()

        @pytest.fixture
        async def frontier(self, clock):
            async with MyFrontier(clock=clock) as frontier:
                yield frontier
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec.structs import replace

from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.protocol import (
    FOREVER,
    Claim,
    Claimed,
    DeadFilter,
    Frontier,
    Job,
    JobSpec,
    Valve,
)
from shoal.model import Dead, Done, Failure, Lease, Moved, Retry, Row, Settlement, Snapshot, Task, Verdict
from shoal.testing.clock import ManualClock

OPEN = Valve(interval=0.0, cap=100)  # a valve that lets everything through
FAILED = Failure("timeout", "no answer")


def make_task(url: str, **fields: object) -> Task:
    task = Task(url, handler="page", host=host_key(url), fingerprint=fingerprint(url))
    return replace(task, **fields)


def spec(name: str = "job", valve: Valve = OPEN, **fields: object) -> JobSpec:
    return replace(JobSpec(name, valve=valve), **fields)


def urls_of(leases: Sequence[Lease]) -> list[str]:
    return [lease.task.url for lease in leases]


async def counted(frontier: Frontier, name: str = "job") -> Job:
    """The job, after checking that its counters add up."""
    job = await frontier.job(name)
    assert job is not None
    c = job.counters
    assert c.admitted == c.pending + c.delayed + c.leased + c.done + c.dead, c
    return job


async def claim(
    frontier: Frontier,
    limit: int = 100,
    *,
    worker: str = "w1",
    jobs: Sequence[str] = ("job",),
    lanes: Sequence[str] = ("normal",),
    lease_seconds: float = 60.0,
) -> Claimed:
    return await frontier.claim(Claim(worker, jobs, dict.fromkeys(lanes, limit), limit, lease_seconds))


async def settle(frontier: Frontier, lease: Lease, verdict: Verdict | None = None, *found: Task) -> bool:
    settled = await frontier.settle([Settlement(lease, verdict or Done(), tuple(found))])
    return settled.accepted[0]


class ListJournal:
    """A journal in memory that behaves like a file: it may hold more than was committed."""

    def __init__(self, key: str = "list") -> None:
        self.key = key
        self.data = b""

    def append(self, committed: int, rows: Sequence[bytes]) -> int:
        self.data = self.data[:committed] + b"".join(rows)
        return len(self.data)


class AddingAndClaiming:
    async def test_a_task_comes_back_as_it_went_in(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        task = make_task(
            "http://a.test/1",
            priority=3,
            depth=2,
            method="POST",
            headers={"X": "y"},
            body=b"\x00\xff",
            meta={"n": [1, "two"]},
            pool="dc",
            parent=7,
            max_attempts=9,
            hops=("http://a.test/0",),
            cookies=("k=v; Path=/",),
        )
        assert (await frontier.add("job", [task])).new == 1
        [lease] = (await claim(frontier)).leases
        got = lease.task
        assert got.id > 0
        assert got.job == "job"
        assert got.attempt == 1
        assert replace(got, id=0, job="", attempt=0, created_at=0.0) == task

    async def test_the_same_url_is_admitted_once_per_job(self, frontier: Frontier) -> None:
        await frontier.open_job(spec("one"))
        await frontier.open_job(spec("two"))
        twice = [make_task("http://a.test/1"), make_task("http://a.test/1")]
        added = await frontier.add("one", twice)
        assert (added.new, added.duplicates) == (1, 1)
        assert (await frontier.add("one", twice)).new == 0
        assert (await frontier.add("two", twice)).new == 1
        assert (await counted(frontier, "one")).counters.duplicates == 3

    async def test_a_task_without_fingerprint_is_never_a_duplicate(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        task = make_task("http://a.test/1", fingerprint=None)
        assert (await frontier.add("job", [task, task])).new == 2

    async def test_higher_priority_goes_first_then_older(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        order = [("low", -1), ("first", 0), ("second", 0), ("top", 5)]
        await frontier.add("job", [make_task(f"http://a.test/{name}", priority=p) for name, p in order])
        got = [urls_of((await claim(frontier, 1)).leases)[0].rsplit("/", 1)[1] for _ in order]
        assert got == ["top", "first", "second", "low"]

    async def test_only_the_asked_lanes_are_claimed_and_no_more_than_asked(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(5)])
        await frontier.add("job", [make_task(f"http://a.test/u{i}", lane="urgent") for i in range(5)])
        got = await frontier.claim(Claim("w", ["job"], {"urgent": 2, "normal": 10}, 4))
        assert [lease.task.lane for lease in got.leases] == ["urgent", "urgent", "normal", "normal"]
        assert (await claim(frontier, lanes=["browser"])).leases == []

    async def test_a_claim_takes_a_fair_share_from_every_due_host(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://big.test/{i}") for i in range(1000)])
        await frontier.add("job", [make_task(f"http://h{i}.test/") for i in range(9)])
        got = await claim(frontier, 50)
        hosts = {lease.task.host for lease in got.leases}
        assert len(got.leases) == 50
        assert len(hosts) == 10

    async def test_the_host_that_waited_longest_is_served_first(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://h{h}.test/{i}") for i in range(3) for h in range(3)])
        rounds = [{(await claim(frontier, 1)).leases[0].task.host for _ in range(3)} for _ in range(3)]
        assert all(len(hosts) == 3 for hosts in rounds)

    async def test_jobs_that_are_not_running_are_left_alone(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        await frontier.set_state("job", "paused")
        assert (await claim(frontier)).leases == []
        await frontier.set_state("job", "running")
        assert len((await claim(frontier)).leases) == 1

    async def test_a_claim_with_nothing_to_do_says_so(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        got = await claim(frontier)
        assert got.leases == []
        assert got.next_due == FOREVER


class Valves:
    async def test_requests_to_a_host_keep_their_interval(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=0.5, cap=10)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(4)])
        times: list[float] = []
        for _ in range(4):
            got = await claim(frontier)
            assert len(got.leases) == 1
            times.append(clock.monotonic())
            again = await claim(frontier)
            assert again.leases == []
            if len(times) < 4:
                assert abs(again.next_due - 0.5) < 1e-6
                clock.advance(again.next_due)
        assert all(b - a >= 0.5 - 1e-6 for a, b in itertools.pairwise(times))

    async def test_a_burst_is_allowed_after_a_quiet_spell(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=1.0, burst=3, cap=10)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(10)])
        clock.advance(100)
        assert len((await claim(frontier)).leases) == 3
        assert (await claim(frontier)).leases == []
        clock.advance(1.0)
        assert len((await claim(frontier)).leases) == 1

    async def test_a_host_at_its_cap_waits_for_a_settlement(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(cap=2)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(3)])
        first = await claim(frontier)
        assert len(first.leases) == 2
        clock.advance(10)
        blocked = await claim(frontier)
        assert blocked.leases == []
        assert blocked.next_due > 10  # nothing but the leases' own deadline
        await settle(frontier, first.leases[0])
        assert len((await claim(frontier)).leases) == 1

    async def test_politeness_is_shared_by_jobs_and_lanes(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        valve = Valve(interval=1.0, cap=1)
        for name in ("one", "two"):
            await frontier.open_job(spec(name, valve))
            await frontier.add(
                name,
                [
                    make_task(f"http://a.test/{name}{i}", lane=lane)
                    for i, lane in enumerate(["normal", "urgent"])
                ],
            )
        total = 0
        for _ in range(4):
            got = await claim(frontier, jobs=["one", "two"], lanes=["normal", "urgent"])
            assert len(got.leases) == 1
            total += 1
            await settle(frontier, got.leases[0])
            assert (await claim(frontier, jobs=["one", "two"], lanes=["normal", "urgent"])).leases == []
            clock.advance(1.0)
        assert total == 4

    async def test_update_host_is_compare_and_set(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        record = await frontier.host("a.test")
        assert record is not None
        assert await frontier.update_host(replace(record, state=b"first"))
        assert not await frontier.update_host(replace(record, state=b"second"))
        now = await frontier.host("a.test")
        assert now is not None
        assert (now.state, now.version) == (b"first", record.version + 1)
        assert await frontier.host("b.test") is None

    async def test_a_lease_tells_the_host_version(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        record = await frontier.host("a.test")
        assert record is not None
        assert (await claim(frontier, 1)).leases[0].host_version == record.version
        await frontier.update_host(record)
        assert (await claim(frontier, 1)).leases[0].host_version == record.version + 1

    async def test_a_blocked_host_is_due_when_the_block_ends(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://b.test/1")])
        record = await frontier.host("a.test")
        assert record is not None
        until = clock.time() + 40
        assert await frontier.update_host(replace(record, valve=replace(record.valve, blocked_until=until)))
        got = await claim(frontier)
        assert urls_of(got.leases) == ["http://b.test/1"]
        assert abs(got.next_due - 40) < 0.01
        clock.advance(40.01)
        assert urls_of((await claim(frontier)).leases) == ["http://a.test/1"]

    async def test_a_longer_interval_counts_from_the_last_request(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=1.0, cap=5)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(3)])
        await claim(frontier)
        record = await frontier.host("a.test")
        assert record is not None
        await frontier.update_host(replace(record, valve=replace(record.valve, interval=10.0)))
        clock.advance(9.9)
        assert (await claim(frontier)).leases == []
        clock.advance(0.2)
        assert len((await claim(frontier)).leases) == 1

    async def test_hosts_lists_every_host_of_a_job(self, frontier: Frontier) -> None:
        await frontier.open_job(spec("one"))
        await frontier.open_job(spec("two"))
        await frontier.add("one", [make_task(f"http://h{i}.test/") for i in range(5)])
        await frontier.add("two", [make_task("http://other.test/")])
        assert len([record async for record in frontier.hosts()]) == 6
        assert {record.name async for record in frontier.hosts("two")} == {"other.test"}


class Settling:
    async def test_done_and_links_take_effect_together(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        links = [make_task("http://a.test/x"), make_task("http://b.test/y"), make_task("http://a.test/")]
        settled = await frontier.settle([Settlement(lease, Done(), tuple(links))])
        assert (settled.found.new, settled.found.duplicates) == (2, 1)
        job = await counted(frontier)
        assert (job.counters.done, job.counters.pending, job.counters.leased) == (1, 2, 0)

    async def test_a_lease_settles_once(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        twice = [Settlement(lease, Done()), Settlement(lease, Done(), (make_task("http://a.test/late"),))]
        assert list((await frontier.settle(twice)).accepted) == [True, False]
        assert not await settle(frontier, lease, Done(), make_task("http://a.test/later"))
        job = await counted(frontier)
        assert (job.counters.done, job.counters.admitted, job.counters.stale) == (1, 1, 2)

    async def test_a_stale_settlement_is_refused_and_the_rest_goes_through(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        late, _ = (await claim(frontier, lease_seconds=10)).leases
        clock.advance(11)
        again = (await claim(frontier, worker="w2")).leases
        assert len(again) == 2
        batch = [Settlement(late, Done(), (make_task("http://a.test/x"),)), Settlement(again[0], Done())]
        assert list((await frontier.settle(batch)).accepted) == [False, True]
        job = await counted(frontier)
        assert (job.counters.done, job.counters.leased, job.counters.admitted) == (1, 1, 2)

    async def test_a_retry_waits_for_its_time(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
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

    async def test_the_last_attempt_ends_in_the_dead_letters(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(max_attempts=2))
        await frontier.add("job", [make_task("http://a.test/")])
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

    async def test_a_redirect_goes_on_at_the_other_hosts_queue(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        to = replace(make_task("http://b.test/new"), hops=("http://a.test/",))
        assert await settle(frontier, lease, Moved(to))
        [moved] = (await claim(frontier)).leases
        assert (moved.task.url, moved.task.host, moved.task.id) == (to.url, "b.test", lease.task.id)
        assert moved.task.attempt == 1
        assert moved.task.origin == "http://a.test/"
        assert (await counted(frontier)).counters.admitted == 1

    async def test_a_redirect_to_a_known_page_is_done(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/old"), make_task("http://a.test/new")])
        [lease] = (await claim(frontier, 1)).leases
        await settle(frontier, lease, Moved(make_task("http://a.test/new")))
        assert urls_of((await claim(frontier)).leases) == ["http://a.test/new"]
        assert (await counted(frontier)).counters.done == 1

    async def test_a_redirect_to_itself_is_followed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Moved(make_task("http://a.test/", cookies=("seen=1",))))
        [again] = (await claim(frontier)).leases
        assert again.task.cookies == ("seen=1",)

    async def test_a_redirect_back_to_an_earlier_hop_is_followed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
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

    async def test_what_a_crash_left_behind_the_committed_length_is_cut(self, frontier: Frontier) -> None:
        journal = ListJournal()
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier)).leases
        await frontier.settle([Settlement(one, Done(), rows=(Row(b"one\n"),))], journal)
        journal.data += b"half a ro"
        await frontier.settle([Settlement(two, Done(), rows=(Row(b"two\n"),))], journal)
        assert journal.data == b"one\ntwo\n"

    async def test_a_failing_journal_undoes_the_settlement(self, frontier: Frontier) -> None:
        class Broken(ListJournal):
            def append(self, committed: int, rows: Sequence[bytes]) -> int:
                raise OSError("disk on fire")

        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1")])
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
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(3)])
        leases = (await claim(frontier)).leases
        for lease in leases:
            await frontier.settle(
                [Settlement(lease, Done(), rows=(Row(b"same\n", 42), Row(b"free\n")))], journal
            )
        assert journal.data.count(b"same\n") == 1
        assert journal.data.count(b"free\n") == 3


class Leases:
    async def test_an_expired_lease_is_given_to_another_with_one_more_attempt(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier, lease_seconds=60)).leases
        clock.advance(59)
        assert (await claim(frontier, worker="w2")).leases == []
        clock.advance(2)
        [again] = (await claim(frontier, worker="w2")).leases
        assert again.task.attempt == 2
        assert again.token != lease.token
        assert [failure.kind for failure in again.task.history] == ["worker_lost"]

    async def test_heartbeats_keep_a_lease(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier, lease_seconds=60)).leases
        for _ in range(5):
            clock.advance(40)
            assert await frontier.extend("w1", 60) == 1
            assert await frontier.reap() == 0
        assert await settle(frontier, lease)
        assert await frontier.extend("w1", 60) == 0

    async def test_a_page_that_kills_every_worker_is_buried(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(max_attempts=3))
        await frontier.add("job", [make_task("http://a.test/poison")])
        for attempt in (1, 2, 3):
            [lease] = (await claim(frontier, worker=f"w{attempt}", lease_seconds=10)).leases
            assert lease.task.attempt == attempt
            clock.advance(11)
        assert (await claim(frontier)).leases == []
        [letter] = await frontier.dead(DeadFilter(kind="worker_lost"))
        assert len(letter.task.history) == 3
        assert (await counted(frontier)).counters.dead == 1

    async def test_released_tasks_are_pending_again_and_unharmed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        leases = (await claim(frontier)).leases
        assert await frontier.release(leases) == 1
        assert await frontier.release(leases) == 0
        assert not await settle(frontier, leases[0])
        [again] = (await claim(frontier)).leases
        assert again.task.attempt == 1
        await counted(frontier)

    async def test_wall_clock_jumps_change_nothing(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier)).leases
        await settle(frontier, one, Retry(600.0, FAILED))
        for jump in (3600.0, -7200.0):
            clock.jump_wall(jump)
            assert await frontier.reap() == 0
            assert (await claim(frontier)).leases == []
        assert await settle(frontier, two)


class JobsAndLetters:
    async def test_a_job_is_exhausted_when_fed_and_empty(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")], fed=1)
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease)
        assert not (await counted(frontier)).exhausted
        await frontier.add("job", [], fed=2, fed_all=True)
        job = await counted(frontier)
        assert (job.exhausted, job.fed, job.fed_all) == (True, 2, True)

    async def test_the_page_budget_is_never_exceeded(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_pages=3))
        await frontier.add("job", [make_task(f"http://h{i}.test/") for i in range(10)])
        first = (await claim(frontier)).leases
        assert len(first) == 3
        assert (await claim(frontier)).leases == []
        await settle(frontier, first[0], Dead(FAILED))  # a page that was not had does not count
        more = (await claim(frontier)).leases
        assert len(more) == 1
        for lease in [*first[1:], *more]:
            await settle(frontier, lease)
        job = await counted(frontier)
        assert (job.counters.done, job.exhausted) == (3, True)
        await frontier.set_state("job", "finished")
        assert (await frontier.open_job(spec(max_pages=5))).state == "running"
        assert len((await claim(frontier)).leases) == 2

    async def test_the_host_budget_bounds_admissions(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_pages_per_host=2))
        tasks = [make_task(f"http://a.test/{i}") for i in range(5)]
        added = await frontier.add("job", tasks)
        assert (added.new, added.over_budget) == (2, 3)
        again = await frontier.add(
            "job", [tasks[0], make_task("http://a.test/9"), make_task("http://b.test/")]
        )
        assert (again.new, again.duplicates, again.over_budget) == (1, 1, 1)

    async def test_opening_a_finished_job_again_leaves_it_finished(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [], fed_all=True)
        await frontier.set_state("job", "finished")
        assert (await frontier.open_job(spec())).state == "finished"

    async def test_a_dropped_job_leaves_nothing_behind(self, frontier: Frontier) -> None:
        journal = ListJournal()
        await frontier.open_job(spec(valve=Valve(cap=1)))
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        [lease] = (await claim(frontier)).leases
        await frontier.settle([Settlement(lease, Dead(FAILED), rows=(Row(b"x\n", 1),))], journal)
        await claim(frontier)  # leaves a lease in flight
        await frontier.drop_job("job")
        assert await frontier.job("job") is None
        assert await frontier.dead(DeadFilter()) == []
        await frontier.open_job(spec())
        assert await frontier.journal_length("job", journal.key) is None
        assert (await frontier.add("job", [make_task("http://a.test/1")])).new == 1
        assert len((await claim(frontier)).leases) == 1  # the host's place is free again

    async def test_dead_letters_are_found_by_host_kind_and_time(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://h{i}.test/") for i in range(3)])
        for number, lease in enumerate((await claim(frontier)).leases):
            await settle(frontier, lease, Dead(Failure(f"http_40{number}")))
            clock.advance(10)
        letters = await frontier.dead(DeadFilter(job="job"))
        assert [letter.kind for letter in letters] == ["http_400", "http_401", "http_402"]
        assert len(await frontier.dead(DeadFilter(host=letters[1].task.host))) == 1
        assert len(await frontier.dead(DeadFilter(kind="http_402"))) == 1
        assert len(await frontier.dead(DeadFilter(since=letters[1].at))) == 2
        assert len(await frontier.dead(DeadFilter(until=letters[1].at))) == 1
        assert len(await frontier.dead(DeadFilter(ids=[letters[0].task.id]))) == 1
        assert len(await frontier.dead(DeadFilter(limit=2))) == 2
        assert await frontier.dead(DeadFilter(job="no such job")) == []

    async def test_replay_gives_a_fresh_set_of_attempts(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_attempts=1))
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")], fed_all=True)
        for lease in (await claim(frontier)).leases:
            await settle(frontier, lease, Retry(1.0, FAILED))
        await frontier.set_state("job", "finished")
        first = (await frontier.dead(DeadFilter()))[0].task.id
        assert await frontier.replay(DeadFilter(ids=[first])) == 1
        job = await counted(frontier)
        assert (job.state, job.counters.dead, job.counters.pending) == ("running", 1, 1)
        [lease] = (await claim(frontier)).leases
        assert (lease.task.id, lease.task.attempt) == (first, 1)
        assert await frontier.drop(DeadFilter(job="job")) == 1
        assert await frontier.dead(DeadFilter()) == []

    async def test_the_longest_queues_are_told(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(3)])
        await frontier.add("job", [make_task("http://b.test/")])
        assert list(await frontier.queues("job")) == [("a.test", 3), ("b.test", 1)]
        assert list(await frontier.queues(limit=1)) == [("a.test", 3)]


class FrontierConformance(AddingAndClaiming, Valves, Settling, Leases, JobsAndLetters):
    """Everything above, for one home."""
