"""add and claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import EARLIER, MOST_SOURCES, OWN_START, Claim, Cursor, Source
from shoal.testing.conformance.tools import (
    claim,
    counted,
    make_task,
    settle,
    spec,
    start_job,
    urls_of,
)
from shoal.testing.manual_clock import ManualClock
from shoal.valve import FOREVER, Valve


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
        await start_job(frontier, [make_task(f"http://a.test/{i}") for i in range(5)])
        await frontier.add("job", [make_task(f"http://a.test/u{i}", lane="urgent") for i in range(5)])
        got = await frontier.claim(Claim("w", ["job"], {"urgent": 2, "normal": 10}, 4))
        assert [lease.task.lane for lease in got.leases] == ["urgent", "urgent", "normal", "normal"]
        assert (await claim(frontier, lanes=["browser"])).leases == []

    async def test_what_a_lane_leaves_is_lent_to_the_others(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://a.test/{i}") for i in range(20)])
        await frontier.add("job", [make_task("http://a.test/u", lane="urgent")])
        shares, most = {"urgent": 6, "normal": 4}, {"urgent": 10, "normal": 8}
        got = await frontier.claim(Claim("w", ["job"], shares, 10, spare=most))
        assert Counter(lease.task.lane for lease in got.leases) == {"urgent": 1, "normal": 8}
        assert got.next_due > 0  # nothing more of what was asked for is due

    async def test_a_claim_takes_a_fair_share_from_every_due_host(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://big.test/{i}") for i in range(1000)])
        await frontier.add("job", [make_task(f"http://h{i}.test/") for i in range(9)])
        got = await claim(frontier, 50)
        hosts = {lease.task.host for lease in got.leases}
        assert len(got.leases) == 50
        assert len(hosts) == 10

    async def test_of_the_due_hosts_those_with_nothing_in_flight_go_first(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Else slow hosts, which are due again while they answer, would hold ever more of the slots."""
        await frontier.open_job(spec(valve=Valve(interval=1.0, cap=2)))
        await frontier.add("job", [make_task(f"http://slow.test/{i}") for i in range(3)])
        [slow] = (await claim(frontier, 1)).leases
        clock.advance(5)
        await frontier.add("job", [make_task(f"http://quick{i}.test/") for i in range(2)])
        clock.advance(5)
        order = [(await claim(frontier, 1)).leases[0].task.host for _ in range(3)]
        assert (sorted(order[:2]), order[2]) == (["quick0.test", "quick1.test"], slow.task.host)

    async def test_hosts_get_equal_shares_of_the_slots_time(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Of a slot, that is: a host that takes four times as long is asked a quarter as often, while others wait."""
        await frontier.open_job(spec(valve=Valve(cap=1)))
        seconds = {"quick.test": 1.0, "slow.test": 4.0, "other.test": 1.0}
        await frontier.add("job", [make_task(f"http://{host}/{i}") for host in seconds for i in range(60)])
        asked: Counter[str] = Counter()
        for _ in range(60):
            [lease] = (await claim(frontier, 1, lease_seconds=1000)).leases
            clock.advance(seconds[lease.task.host])
            asked[lease.task.host] += 1
            await settle(frontier, lease)
        assert asked["quick.test"] == pytest.approx(4 * asked["slow.test"], abs=8), asked
        assert asked["quick.test"] == pytest.approx(asked["other.test"], abs=2), asked

    async def test_a_host_that_was_away_gets_no_more_than_its_share(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Nor less: it joins the line where the first one stands."""
        await frontier.open_job(spec(valve=Valve(cap=1)))
        await frontier.add("job", [make_task(f"http://{h}.test/{i}") for h in "ab" for i in range(60)])
        for _ in range(20):
            [lease] = (await claim(frontier, 1, lease_seconds=1000)).leases
            clock.advance(1.0)
            await settle(frontier, lease)
        await frontier.add("job", [make_task(f"http://late.test/{i}") for i in range(60)])
        asked: Counter[str] = Counter()
        for _ in range(12):
            [lease] = (await claim(frontier, 1, lease_seconds=1000)).leases
            clock.advance(1.0)
            asked[lease.task.host] += 1
            await settle(frontier, lease)
        assert all(3 <= asked[f"{host}.test"] <= 5 for host in ("a", "b", "late")), asked

    async def test_a_host_known_to_be_quick_goes_before_those_never_heard_of(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Else it would wait with each of its pages for all names that somebody made up. They get what it leaves."""
        await frontier.open_job(spec(valve=Valve(interval=1.0, cap=1)))
        await frontier.add("job", [make_task(f"http://known.test/{i}") for i in range(20)])
        [lease] = (await claim(frontier, 1)).leases
        clock.advance(0.1)
        await settle(frontier, lease)
        await frontier.add("job", [make_task(f"http://new{i}.test/{j}") for i in range(40) for j in range(2)])
        assert len((await claim(frontier, 1)).leases) == 1  # one of them: the other is not due
        new: set[str] = set()
        for _ in range(15):
            clock.advance(1.0)
            [lease] = (await claim(frontier, 1, lease_seconds=1000)).leases
            assert lease.task.host == "known.test"
            clock.advance(0.1)
            await settle(frontier, lease)
            new |= {lease.task.host for lease in (await claim(frontier, 2, lease_seconds=1000)).leases}
        assert len(new) == 30, "each in its turn"

    @pytest.mark.parametrize("interval", [0.0, 0.1])
    async def test_hosts_never_heard_of_have_their_turn_while_quick_ones_want_every_slot(
        self, frontier: Frontier, clock: ManualClock, interval: float
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=interval, cap=1)))
        await frontier.add("job", [make_task(f"http://{h}.test/{i}") for h in "abcd" for i in range(60)])
        await _work(frontier, clock, {}, 8)
        await frontier.add("job", [make_task(f"http://new{i}.test/") for i in range(3)])
        asked = await _work(frontier, clock, {}, 60)
        assert {host for host in asked if host.startswith("new")} == {f"new{i}.test" for i in range(3)}, asked

    async def test_a_slow_host_is_not_left_behind_for_all_it_had_while_it_was_alone(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        seconds = {"slow.test": 4.0, "new.test": 1.0}
        await start_job(frontier, [make_task(f"http://slow.test/{i}") for i in range(60)], valve=Valve(cap=1))
        await _work(frontier, clock, seconds, 30)
        [slow] = (await claim(frontier, 1, lease_seconds=1000)).leases
        await frontier.add("job", [make_task(f"http://new.test/{i}") for i in range(60)])
        await _work(frontier, clock, seconds, 1)
        await settle(frontier, slow)
        asked = await _work(frontier, clock, seconds, 50)
        assert asked["slow.test"] > 1, asked

    async def test_the_host_that_waited_longest_is_served_first(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://h{h}.test/{i}") for i in range(3) for h in range(3)])
        rounds = [{(await claim(frontier, 1)).leases[0].task.host for _ in range(3)} for _ in range(3)]
        assert all(len(hosts) == 3 for hosts in rounds)

    async def test_jobs_that_are_not_running_are_left_alone(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        await frontier.set_state("job", "paused")
        assert (await claim(frontier)).leases == []
        await frontier.set_state("job", "running")
        assert len((await claim(frontier)).leases) == 1

    async def test_a_claim_with_nothing_to_do_says_so(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        got = await claim(frontier)
        assert got.leases == []
        assert got.next_due == FOREVER


async def _work(
    frontier: Frontier, clock: ManualClock, seconds: Mapping[str, float], pages: int
) -> Counter[str]:
    """Works on so many pages with one slot. `seconds`: how long each host takes, if not a tenth; answers how often it
    was asked."""
    asked: Counter[str] = Counter()
    for _ in range(pages):
        [lease] = (await claim(frontier, 1, lease_seconds=1000)).leases
        clock.advance(seconds.get(lease.task.host, 0.1))
        asked[lease.task.host] += 1
        await settle(frontier, lease)
    return asked


class Sources:
    """Where a job's start URLs come from: each source has a cursor of its own, and the job ends when all are fed."""

    async def test_a_job_without_sources_waits_for_one(self, frontier: Frontier) -> None:
        job = await frontier.open_job(spec())
        assert (job.fed, job.fed_all, job.sources, job.exhausted) == (0, False, {}, False)

    async def test_each_source_has_a_cursor_of_its_own(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), OWN_START)
        await frontier.open_job(spec(), "list")
        await frontier.add("job", [make_task("http://a.test/1")], Cursor(fed=1))
        await frontier.add("job", [make_task("http://a.test/2")], Cursor("list", fed=7))
        await frontier.add("job", [], Cursor("list", fed_all=True))
        job = await counted(frontier)
        assert job.sources == {OWN_START: Source(1), "list": Source(7, fed_all=True)}
        assert (job.fed, job.fed_all, job.unfed) == (8, False, [OWN_START])
        await frontier.add("job", [], Cursor(fed=2, fed_all=True))
        assert (await counted(frontier)).fed_all

    async def test_a_job_ends_when_all_sources_are_fed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), "half fed")
        await frontier.add("job", [make_task("http://a.test/1")], Cursor("half fed", fed=150))
        await frontier.open_job(spec(), "another")
        await frontier.add("job", [make_task("http://a.test/2")], Cursor("another", fed=1, fed_all=True))
        for _ in range(2):
            [lease] = (await claim(frontier, 1)).leases
            await settle(frontier, lease)
        job = await counted(frontier)
        assert (job.counters.open, job.exhausted) == (0, False)
        await frontier.add("job", [], Cursor("half fed", fed=400, fed_all=True))
        assert (await counted(frontier)).exhausted

    async def test_another_source_brings_a_finished_job_back(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), OWN_START)
        await frontier.add("job", [], Cursor(fed=3, fed_all=True))
        await frontier.set_state("job", "finished")
        assert (await frontier.open_job(spec(), OWN_START)).state == "finished"
        job = await frontier.open_job(spec(), "list")
        assert (job.state, job.fed_all, job.sources[OWN_START]) == ("running", False, Source(3, fed_all=True))

    async def test_a_source_that_is_opened_again_goes_on_or_begins_anew(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), "list")
        await frontier.add("job", [], Cursor("list", fed=5))
        job = await frontier.open_job(spec(), "list", again=True)
        assert job.sources == {"list": Source(5)}, "it was cut short: it goes on"
        await frontier.add("job", [], Cursor("list", fed=9, fed_all=True))
        assert (await frontier.open_job(spec(), "list")).sources == {"list": Source(9, fed_all=True)}
        assert (await frontier.open_job(spec(), "list", again=True)).sources == {"list": Source()}

    async def test_odd_names_are_names(self, frontier: Frontier) -> None:
        names = ["fed:", "a b\n1", "ü–…", "'; --", "1 1"]
        for number, name in enumerate(names):
            await frontier.open_job(spec(), name)
            await frontier.add("job", [], Cursor(name, fed=number))
        assert (await counted(frontier)).sources == {name: Source(n) for n, name in enumerate(names)}

    async def test_many_lists_are_summed_up(self, frontier: Frontier) -> None:
        """Whoever submits a URL every minute must not make the job's record long."""
        await frontier.open_job(spec(), OWN_START)
        await frontier.add("job", [], Cursor(fed=1, fed_all=True))
        await frontier.open_job(spec(), "unfed")
        many = 2 * MOST_SOURCES + 10
        for number in range(many):
            await frontier.open_job(spec(), f"list {number}")
            await frontier.add("job", [], Cursor(f"list {number}", fed=1, fed_all=True))
        job = await counted(frontier)
        assert len(job.sources) <= MOST_SOURCES
        assert (job.fed, job.unfed) == (many + 1, ["unfed"])
        assert job.sources[EARLIER].fed_all
        assert job.sources[OWN_START] == Source(1, fed_all=True)

    async def test_a_dropped_job_forgets_its_sources(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), "list")
        await frontier.drop_job("job")
        assert (await frontier.open_job(spec())).sources == {}
