"""Jobs, budgets and dead letters."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Cursor, DeadFilter
from shoal.model import Dead, DeadLetter, Failure, Moved, Retry, Row, Settlement
from shoal.testing.conformance.tools import (
    FAILED,
    ListJournal,
    claim,
    counted,
    make_task,
    settle,
    spec,
    start_job,
)
from shoal.testing.manual_clock import ManualClock
from shoal.valve import Valve


class JobsAndLetters:
    async def test_a_job_is_exhausted_when_fed_and_empty(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")], Cursor(fed=1))
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease)
        assert not (await counted(frontier)).exhausted
        await frontier.add("job", [], Cursor(fed=2, fed_all=True))
        job = await counted(frontier)
        assert (job.exhausted, job.fed, job.fed_all) == (True, 2, True)

    async def test_a_job_that_was_made_anew_is_another_one(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """A worker that slept through it knows the first by that name: it gets nothing of the second, and changes
        nothing in it."""
        first = await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://b.test/")])
        known = {"job": first.created_at}
        [late, _] = (await claim(frontier, made=known)).leases
        clock.advance(1)
        await frontier.drop_job("job")
        second = await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/2")])
        assert (await claim(frontier, made=known)).leases == []
        assert not await settle(frontier, late, None, make_task("http://a.test/3"))
        assert (await counted(frontier)).counters.admitted == 1
        assert await frontier.release([late]) == 0
        [lease] = (await claim(frontier, made={"job": second.created_at})).leases
        assert lease.task.url == "http://a.test/2"
        assert await settle(frontier, lease)
        assert (await claim(frontier, made={**known, "never": 1.0})).leases == []

    async def test_the_page_budget_is_never_exceeded(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://h{i}.test/") for i in range(10)], max_pages=3)
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
        await start_job(frontier, [], Cursor(fed_all=True))
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
        await start_job(frontier, [make_task(f"http://h{i}.test/") for i in range(3)])
        for number, lease in enumerate((await claim(frontier)).leases):
            await settle(frontier, lease, Dead(Failure(f"http_40{number}")))
            clock.advance(10)
        letters = await frontier.dead(DeadFilter(job="job"))
        assert [letter.kind for letter in letters] == ["http_402", "http_401", "http_400"]
        assert len(await frontier.dead(DeadFilter(host=letters[1].task.host))) == 1
        assert len(await frontier.dead(DeadFilter(kind="http_402"))) == 1
        assert len(await frontier.dead(DeadFilter(since=letters[1].at))) == 2
        assert len(await frontier.dead(DeadFilter(until=letters[1].at))) == 1
        assert len(await frontier.dead(DeadFilter(ids=[letters[0].task.id]))) == 1
        assert len(await frontier.dead(DeadFilter(limit=2))) == 2
        assert await frontier.dead(DeadFilter(job="no such job")) == []

    async def test_dead_letters_of_all_jobs_come_newest_first(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec("one"))
        await frontier.open_job(spec("two"))
        for name in ("one", "two"):
            await frontier.add(name, [make_task(f"http://h{i}.test/") for i in range(2)])
        leases = list((await claim(frontier, jobs=["one", "two"])).leases)
        for lease in leases:
            await settle(frontier, lease, Dead(FAILED))
            clock.advance(10)
        order = [lease.task.id for lease in reversed(leases)]
        assert [letter.task.id for letter in await frontier.dead(DeadFilter())] == order
        assert [letter.task.id for letter in await frontier.dead(DeadFilter(limit=3))] == order[:3]
        assert await frontier.drop(DeadFilter(limit=1)) == 1
        assert await frontier.replay(DeadFilter(limit=2)) == 2
        assert [letter.task.id for letter in await frontier.dead(DeadFilter())] == order[3:]

    async def test_dead_letters_are_read_page_by_page(self, frontier: Frontier, clock: ManualClock) -> None:
        """Many die in the same moment, of two jobs; the pages end between them."""
        for name in ("one", "two"):
            await frontier.open_job(spec(name, valve=Valve(cap=50)))
            await frontier.add(name, [make_task(f"http://h{i % 3}.test/{i}") for i in range(24)])
        leases = list((await claim(frontier, 100, jobs=["one", "two"])).leases)
        for batch in (leases[:30], leases[30:]):
            dead = [Dead(Failure(kind)) for kind in ("timeout", "http_404")]
            await frontier.settle([Settlement(one, dead[n % 2]) for n, one in enumerate(batch)])
            clock.advance(10)
        everything = await frontier.dead(DeadFilter())
        assert [(one.at, one.task.id) for one in everything] == sorted(
            ((one.at, one.task.id) for one in everything), reverse=True
        )
        for query in (
            DeadFilter(),
            DeadFilter(job="two"),
            DeadFilter(kind="timeout"),
            DeadFilter(host="h1.test"),
        ):
            whole = list(await frontier.dead(query))
            assert len(whole) > 7
            read: list[DeadLetter] = []
            while page := await frontier.dead(replace(query, limit=7)):
                read += page
                query = replace(query, before=(page[-1].at, page[-1].task.id))
            assert read == whole

    async def test_replay_gives_a_fresh_set_of_attempts(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_attempts=1))
        await frontier.add(
            "job", [make_task("http://a.test/1"), make_task("http://a.test/2")], Cursor(fed_all=True)
        )
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
        await start_job(frontier, [make_task(f"http://a.test/{i}") for i in range(3)])
        await frontier.add("job", [make_task("http://b.test/")])
        assert list(await frontier.queues("job")) == [("a.test", 3), ("b.test", 1)]
        assert list(await frontier.queues(limit=1)) == [("a.test", 3)]

    async def test_what_is_pending_is_told_by_lane(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec())
        await frontier.open_job(spec("other"))
        assert await frontier.lanes() == await frontier.lanes("job") == {}
        await frontier.add("job", [make_task(f"http://h{i}.test/") for i in range(5)])
        await frontier.add("job", [make_task("http://h1.test/u", lane="urgent")])
        await frontier.add("other", [make_task("http://h1.test/"), make_task("http://h2.test/", lane="slow")])
        assert await frontier.lanes("job") == {"normal": 5, "urgent": 1}
        assert await frontier.lanes() == {"normal": 6, "urgent": 1, "slow": 1}
        with pytest.raises(UsageError, match="no job named 'nobody'"):
            await frontier.lanes("nobody")
        leases = list((await claim(frontier, 5)).leases)
        assert await frontier.lanes("job") == {"urgent": 1}
        await frontier.release([leases.pop()])
        elsewhere = make_task("http://h9.test/", lane="slow")
        await settle(frontier, leases.pop(), Moved(elsewhere), make_task("http://h8.test/", lane="urgent"))
        await settle(frontier, leases.pop(), Retry(10.0, FAILED, lane="browser"))
        await settle(frontier, leases.pop(), Dead(FAILED))
        assert await frontier.lanes("job") == {"normal": 1, "urgent": 2, "slow": 1}
        clock.advance(61)
        await frontier.reap()  # takes the fifth lease back, and the time of the retry has come
        await claim(frontier, 1, lanes=["urgent"])
        await frontier.replay(DeadFilter())
        assert await frontier.lanes("job") == {"normal": 3, "urgent": 1, "slow": 1, "browser": 1}
        await counted(frontier)
        await frontier.drop_job("job")
        assert await frontier.lanes() == {"normal": 1, "slow": 1}
        await frontier.open_job(spec())
        assert await frontier.lanes("job") == {}

    async def test_a_job_of_higher_priority_is_served_first(self, frontier: Frontier) -> None:
        for name, priority in (("low", 0), ("high", 5), ("middle", 1)):
            await frontier.open_job(spec(name, priority=priority))
            await frontier.add(name, [make_task(f"http://{name}{i}.test/") for i in range(2)])
        order = [
            (await claim(frontier, 1, jobs=("low", "high", "middle"))).leases[0].task.job for _ in range(6)
        ]
        assert order == ["high"] * 2 + ["middle"] * 2 + ["low"] * 2

    async def test_jobs_of_equal_priority_take_turns(self, frontier: Frontier) -> None:
        for name in ("one", "two"):
            await frontier.open_job(spec(name))
            await frontier.add(name, [make_task(f"http://{name}{i}.test/") for i in range(8)])
        served = {(await claim(frontier, 1, jobs=("one", "two"))).leases[0].task.job for _ in range(6)}
        assert served == {"one", "two"}

    async def test_jobs_are_told_by_their_state(self, frontier: Frontier) -> None:
        for name in ("one", "two", "three"):
            await frontier.open_job(spec(name))
        await frontier.set_state("two", "paused")
        assert [job.spec.name for job in await frontier.jobs()] == ["one", "two", "three"]
        assert [job.spec.name for job in await frontier.jobs("running")] == ["one", "three"]
        assert [job.spec.name for job in await frontier.jobs("paused")] == ["two"]
        assert await frontier.jobs("finished") == []

    async def test_a_pruned_job_leaves_its_past_and_nothing_else(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_pages=1))
        tasks = [make_task(f"http://h{n % 3}.test/{n}") for n in range(9)]
        await frontier.add("job", tasks, Cursor(fed=9, fed_all=True))
        journal = ListJournal("file")
        [lease] = (await claim(frontier, 1)).leases
        await frontier.settle([Settlement(lease, Dead(FAILED), rows=(Row(b"1\n", key=1),))], journal)
        [lease] = (await claim(frontier, 1)).leases
        await frontier.settle([Settlement(lease, Moved(make_task("http://h9.test/")))])
        [lease] = (await claim(frontier, 1)).leases
        await settle(frontier, lease)
        await frontier.set_state("job", "finished")
        job = await counted(frontier)
        assert await frontier.prune_job(job, b"how it went")
        assert await frontier.job("job") is None
        assert await frontier.jobs() == []
        assert await frontier.dead(DeadFilter()) == []
        assert await frontier.queues() == []
        assert await frontier.lanes() == {}
        assert not await frontier.prune_job(job, b"again")
        past = await frontier.past_job("job")
        assert past is not None
        assert (past.job, past.summary) == (job, b"how it went")
        assert list(await frontier.past_jobs()) == [past]
        assert [record.name async for record in frontier.hosts()] != []

        # What it has seen is forgotten, too.
        await frontier.open_job(spec())
        assert (await frontier.add("job", tasks, Cursor(fed_all=True))).new == 9
        assert await frontier.journal_length("job", "file") is None
        assert (await counted(frontier)).counters.open == 9
        assert await frontier.past_job("job") == past, "until the job of that name is pruned or forgotten"
        await frontier.drop_job("job")
        assert await frontier.past_job("job") is None

    async def test_a_job_that_somebody_went_on_with_is_not_pruned(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        assert not await frontier.prune_job(await counted(frontier)), "it runs"
        await frontier.set_state("job", "cancelled")
        ended = await counted(frontier)
        await frontier.set_state("job", "running")
        assert not await frontier.prune_job(ended)
        clock.advance(1)
        await frontier.set_state("job", "cancelled")
        assert not await frontier.prune_job(ended), "it ended later"
        assert (await claim(frontier)).leases == []
        assert (await counted(frontier)).counters.pending == 1
        assert await frontier.prune_job(await counted(frontier))
        await frontier.drop_job("job")
        assert list(await frontier.past_jobs()) == []

    async def test_pasts_are_kept_in_order_and_not_without_end(
        self, frontier: Frontier, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for home in ("memory.home", "sqlite.jobs", "redis.jobs"):
            monkeypatch.setattr(f"shoal.frontier.{home}.PAST_JOBS", 3)
        for name in "cabdc":
            job = await frontier.open_job(spec(name))
            await frontier.set_state(name, "finished")
            clock.advance(1)
            found = await frontier.job(name)
            assert found is not None
            assert found.created_at == job.created_at
            assert await frontier.prune_job(found)
        assert [past.job.spec.name for past in await frontier.past_jobs()] == ["b", "d", "c"]
        assert await frontier.past_job("a") is None

    async def test_a_note_that_is_dropped_was_never_written(self, frontier: Frontier) -> None:
        assert await frontier.set_note("leader", b"one", 0)
        await frontier.drop_note("leader")
        await frontier.drop_note("never there")
        assert await frontier.note("leader") is None
        assert await frontier.set_note("leader", b"two", 0)

    async def test_a_job_that_moves_is_seen_to(self, frontier: Frontier) -> None:
        """Whoever looks again and again sees every change, whatever is remembered on the way."""
        for name in ("one", "two"):
            await frontier.open_job(spec(name))
        assert [job.counters.admitted for job in await frontier.jobs()] == [0, 0]
        await frontier.add("two", [make_task("http://a.test/")], Cursor(fed=1))
        assert [job.counters.admitted for job in await frontier.jobs()] == [0, 1]
        [lease] = (await claim(frontier, jobs=["two"])).leases
        assert [job.counters.leased for job in await frontier.jobs("running")] == [0, 1]
        await frontier.add("two", [], Cursor(fed=2, fed_all=True))
        assert [job.fed for job in await frontier.jobs()] == [0, 2]
        await settle(frontier, lease)
        assert [job.exhausted for job in await frontier.jobs()] == [False, True]
        await frontier.set_state("two", "finished")
        assert [job.state for job in await frontier.jobs()] == ["running", "finished"]
        await frontier.open_job(spec("one", priority=7))
        assert [job.spec.priority for job in await frontier.jobs()] == [7, 0]

    async def test_notes_are_dropped_by_the_beginning_of_their_keys(self, frontier: Frontier) -> None:
        keys = ["session/a/x", "session/a/*", "session/ab/x", "session/a", "other"]
        for key in [*keys, *(f"session/a/{number}" for number in range(600))]:
            assert await frontier.set_note(key, b"v", 0)
        assert await frontier.drop_notes("session/a/") == 602
        assert await frontier.drop_notes("session/a/") == 0
        left = [key for key in keys if await frontier.note(key) is not None]
        assert left == ["session/ab/x", "session/a", "other"]

    async def test_a_note_is_written_by_whoever_saw_its_last_version(self, frontier: Frontier) -> None:
        assert await frontier.note("leader") is None
        assert not await frontier.set_note("leader", b"nobody", 7)
        assert await frontier.set_note("leader", b"one", 0)
        assert not await frontier.set_note("leader", b"two", 0)
        note = await frontier.note("leader")
        assert note is not None
        assert (note.value, note.version) == (b"one", 1)
        assert await frontier.set_note("leader", b"two", note.version)
        assert not await frontier.set_note("leader", b"late", note.version)
        assert await frontier.note("another") is None
