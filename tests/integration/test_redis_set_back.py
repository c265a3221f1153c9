"""The server goes back to what it had stored a moment ago, as after a power cut, under those who have it open."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.clients import Client
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.link import Link, Script
from shoal.frontier.values import OWN_START, Claim, Claimed, Cursor
from shoal.model import Done, Moved, Row, Settlement
from shoal.sink.jsonl import JsonLines
from shoal.testing.conformance import tools
from shoal.testing.conformance.tools import balanced, make_task, settle, spec
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyCluster, ValkeyServer
from shoal.valve import Valve

CLOCK = ManualClock()  # of every frontier here
HUSH = 3.0  # seconds for which a store that went back lets nobody ask a host


async def claim(frontier: Frontier, limit: int = 100, *, worker: str = "w1") -> Claimed:
    CLOCK.advance(HUSH)
    return await tools.claim(frontier, limit, worker=worker)


def opened(server: ValkeyServer) -> RedisFrontier:
    return RedisFrontier(server.url, CLOCK)


class Server(ValkeyServer):
    """Remembers a moment, and goes back to it."""

    def remember(self) -> None:
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        shutil.copytree(self.folder / "appendonlydir", self.folder / "copy")

    async def go_back(self) -> None:
        self.kill()
        shutil.rmtree(self.folder / "appendonlydir")
        shutil.copytree(self.folder / "copy", self.folder / "appendonlydir")
        await asyncio.to_thread(self.start)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, appendonly=True, fsync="always") as server:
        yield server


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "others", appendonly=True, fsync="always") as server:
        yield server


async def test_the_epoch_changes_with_every_start_of_the_server(server: Server) -> None:
    async with opened(server) as one, opened(server) as two:
        epochs = [one.epoch]
        assert two.epoch == one.epoch != ""
        for _ in range(2):
            server.restart()
            await one.now()
            epochs.append(one.epoch)
            await two.now()
            assert two.epoch == one.epoch
    assert len(set(epochs)) == 3


async def test_who_waited_looks_and_waits_anew(server: Server) -> None:
    """Whom the store told to look, and when, may be what it has lost."""
    async with opened(server) as one, opened(server) as two:
        await one.open_job(spec())
        for frontier in (one, two):
            assert not (await claim(frontier)).leases
        assert server.command("HLEN", "{shoal:0}:watch") == 1
        server.restart()
        async with asyncio.timeout(20):
            await one.now()
            assert server.command("KEYS", "{shoal:0}:watch") == []
            assert await one.wait(60)
            assert await two.wait(60)


async def test_a_second_fall_to_the_same_moment_is_told_apart(server: Server) -> None:
    async with opened(server) as frontier:
        server.remember()
        before = frontier.epoch
        seen = set()
        for _ in range(2):
            await server.go_back()
            await frontier.now()
            seen.add(frontier.epoch)
        assert len(seen) == 2
        assert before not in seen


async def test_numbers_given_in_the_lost_time_are_not_given_again(server: Server) -> None:
    """A late settlement must not end another page's lease, and a row must not be taken for another task's."""
    async with opened(server) as frontier:
        await frontier.open_job(spec())
        server.remember()
        await frontier.add("job", [make_task("http://lost.test/")])
        [lost] = (await claim(frontier)).leases
        await server.go_back()
        await frontier.add("job", [make_task("http://other.test/")])
        [other] = (await claim(frontier)).leases
        assert other.token != lost.token
        assert other.task.id != lost.task.id
        assert not await settle(frontier, lost)
        assert await settle(frontier, other)
        await frontier.open_job(spec("second"))
        await balanced(frontier)


async def test_no_call_takes_effect_before_the_caller_knows(server: Server) -> None:
    """Two processes: the one that learns later of the new epoch does so before its claim brings anything."""
    async with opened(server) as one, opened(server) as two:
        await one.open_job(spec())
        await one.add("job", [make_task(f"http://{host}.test/") for host in "ab"])
        server.remember()
        first = two.epoch
        await server.go_back()
        await one.now()
        assert len((await claim(one, 1)).leases) == 1
        assert two.epoch == first
        assert len((await claim(two, 1, worker="w2")).leases) == 1
        assert two.epoch == one.epoch != first


async def test_a_position_from_before_is_not_taken(server: Server) -> None:
    async with opened(server) as frontier:
        await frontier.open_job(spec())
        epoch = frontier.epoch
        await frontier.add("job", [make_task("http://a.test/")], Cursor(fed=1), epoch=epoch)
        server.remember()
        await frontier.add("job", [make_task("http://b.test/")], Cursor(fed=2), epoch=epoch)
        await server.go_back()
        added = await frontier.add("job", [make_task("http://c.test/")], Cursor(fed=3), epoch=epoch)
        assert added.outdated
        job = await balanced(frontier)
        assert (job.fed, job.counters.admitted) == (1, 1)
        added = await frontier.add("job", [make_task("http://b.test/")], Cursor(fed=2), epoch=frontier.epoch)
        assert added.new == 1


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("has_rows", [False, True])
async def test_a_settlement_from_before_is_not_taken(
    server: Server, others: Server, tmp_path: Path, several: bool, has_rows: bool
) -> None:
    journal = JsonLines(tmp_path / "rows.jsonl") if has_rows else None
    async with Halves(server, others) if several else opened(server) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://{name}.test/") for name in "abcd"])
        leases = (await claim(frontier)).leases
        batch = [Settlement(lease, Done(), rows=(Row(b"row\n"),)) for lease in leases]
        server.remember()
        before, epoch = await balanced(frontier), frontier.epoch
        await server.go_back()
        settled = await frontier.settle(batch, journal, epoch=epoch)
        # What another shard had taken before anybody here knew stays taken: it has not gone back.
        outdated = [place for place, taken in enumerate(settled.accepted) if not taken]
        assert settled.outdated == frozenset(outdated)
        assert len(outdated) >= 2 if several else len(outdated) == 4
        assert (await balanced(frontier)).counters.leased == len(outdated)
        assert before.counters.leased == 4
        again = await frontier.settle([batch[place] for place in outdated], journal, epoch=frontier.epoch)
        assert all(again.accepted)
        assert not again.outdated
        job = await balanced(frontier)
        assert (job.counters.done, job.counters.stale, job.counters.items) == (4, 0, 4)
    if has_rows:
        assert (tmp_path / "rows.jsonl").read_bytes() == b"row\n" * 4


async def test_a_settlement_that_was_taken_before_a_restart_is_told_so(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its answer was lost. It was done, and counts here as in the store."""
    evaluate, calls = Link._evaluate, []

    async def lose_an_answer(self: Link, client: Client, script: Script, *given: Any) -> Any:
        answer = await evaluate(self, client, script, *given)
        calls.append(script.name)
        if calls.count("settle") == 1 and script.name == "settle":
            await asyncio.to_thread(server.restart)
            raise ConnectionResetError
        return answer

    async with opened(server) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        monkeypatch.setattr(Link, "_evaluate", lose_an_answer)
        epoch = frontier.epoch
        settled = await frontier.settle([Settlement(lease, Done())], epoch=epoch)
        assert frontier.epoch != epoch
        assert (settled.accepted, settled.outdated) == ([True], frozenset())
        job = await balanced(frontier)
        assert (job.counters.done, job.counters.stale) == (1, 0)
    assert calls.count("settle") == 1


async def test_a_host_is_not_hit_sooner_for_what_was_forgotten(server: Server) -> None:
    async with opened(server) as frontier:
        await frontier.open_job(spec(valve=Valve(interval=30.0)))
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(3)])
        server.remember()
        assert len((await claim(frontier)).leases) == 1
        await server.go_back()
        await frontier.now()
        again = await claim(frontier)
        assert again.leases == []
        assert again.next_due == pytest.approx(30 - HUSH)
        CLOCK.advance(30 - HUSH)
        assert len((await claim(frontier)).leases) == 1


async def test_rows_of_pages_that_were_forgotten_are_cut_off(server: Server, tmp_path: Path) -> None:
    journal = JsonLines(tmp_path / "rows")
    async with opened(server) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://{host}.test/") for host in "ab"])
        one, two = (await claim(frontier, 2)).leases
        await frontier.settle([Settlement(one, Done(), rows=(Row(b"one\n", 1),))], journal)
        server.remember()
        await frontier.settle([Settlement(two, Done(), rows=(Row(b"two\n", 2),))], journal)
        await server.go_back()
        await frontier.settle([Settlement(two, Done(), rows=(Row(b"again\n", 2),))], journal)
    journal.close()
    assert (tmp_path / "rows").read_bytes() == b"one\nagain\n"


# -- several shards, of which one goes back. Two servers stand for two nodes: the second has the shards that go back.


class Halves(RedisFrontier):
    """A frontier of several shards, the odd ones of which live on another server."""

    def __init__(self, server: Server, others: Server, shards: int = 2) -> None:
        super().__init__(f"{server.url}?shards={shards}", CLOCK)
        self._away = RedisFrontier(f"{others.url}?shards={shards}")

    async def open(self) -> None:
        await self._away._link.open()
        here, away = self._link.run, self._away._link.run

        async def run(script, tag, args=(), **more):  # type: ignore[no-untyped-def]
            odd = int(tag.rpartition(":")[2].rstrip("}")) % 2
            return await (away if odd else here)(script, tag, args, **more)

        self._link.run = run  # type: ignore[method-assign]
        await super().open()

    async def close(self) -> None:
        await super().close()
        await self._away._link.close()


def hosts_of(frontier: RedisFrontier, shard: int) -> list[str]:
    return [host for n in range(40) if frontier._shards.of_host(host := f"h{n}.test") == shard]


async def test_links_that_crossed_to_a_shard_are_brought_again(server: Server, others: Server) -> None:
    async with Halves(server, others) as frontier:
        here, there = hosts_of(frontier, 0), hosts_of(frontier, 1)
        await frontier.open_job(spec())
        await frontier.add(
            "job", [make_task(f"http://{here[0]}/{n}") for n in range(4)], Cursor(fed_all=True)
        )
        leases = (await claim(frontier, 4)).leases
        pages = iter(leases)
        first = make_task(f"http://{there[0]}/")
        assert await settle(frontier, next(pages), Done(), first)
        others.remember()
        links = [make_task(f"http://{there[n]}/") for n in range(1, 4)]
        assert await settle(frontier, next(pages), Done(), *links[:2])
        moved = Moved(make_task(f"http://{there[4]}/moved"))
        assert await settle(frontier, next(pages), moved)
        await others.go_back()
        assert await settle(frontier, next(pages), Done(), *links[2:])  # this one comes behind what was lost
        job = await balanced(frontier)
        assert (job.counters.done, job.counters.pending, job.counters.duplicates) == (3, 5, 0)
        await others.go_back()  # once more, to before all of it
        assert (await balanced(frontier)).counters.pending == 5
        claimed = (await claim(frontier, 9)).leases
        assert sorted(lease.task.url for lease in claimed) == sorted(
            [first.url, *(link.url for link in links), f"http://{there[4]}/moved"]
        )


async def test_what_crosses_after_its_own_shard_went_back_arrives(server: Server, others: Server) -> None:
    """The sender's numbers fall back, and the receiver remembers higher ones."""
    async with Halves(server, others) as frontier:
        here, there = hosts_of(frontier, 0), hosts_of(frontier, 1)
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://{there[0]}/{n}") for n in range(3)])
        leases = (await claim(frontier, 3)).leases
        others.remember()
        assert await settle(frontier, leases[0], Done(), make_task(f"http://{here[0]}/"))
        assert await settle(frontier, leases[1], Done(), make_task(f"http://{here[1]}/"))
        await others.go_back()
        assert await settle(frontier, leases[0], Done(), make_task(f"http://{here[2]}/"))
        assert (await balanced(frontier)).counters.pending == 3


@pytest.mark.parametrize("source", [OWN_START, "list"])
async def test_a_source_is_where_it_was_when_another_shard_forgot(
    server: Server, others: Server, source: str
) -> None:
    """Also if it had been fed to its end. The spider's own start is to be fed again, by whoever has the spider."""
    async with Halves(server, others) as frontier:
        await frontier.open_job(spec(), source)
        tasks = [make_task(f"http://h{n}.test/") for n in range(40)]
        epoch = frontier.epoch
        await frontier.add("job", tasks[:20], Cursor(source, fed=20), epoch=epoch)
        CLOCK.advance(5)
        await frontier.extend("w1", 600)  # every shard knows the time
        others.remember()
        await frontier.add("job", tasks[20:], Cursor(source, fed=40, fed_all=True), epoch=epoch)
        await others.go_back()
        await frontier.reap()  # asks all shards
        again = await frontier.add("job", [], Cursor(source, fed=40, fed_all=True), epoch=epoch)
        assert again.outdated
        job = await balanced(frontier)
        assert (job.fed, job.fed_all) == (20, source != OWN_START)
        await frontier.add("job", tasks[20:], Cursor(source, fed=40, fed_all=True), epoch=frontier.epoch)
        job = await balanced(frontier)
        assert (job.fed, job.fed_all, job.counters.pending) == (40, True, 40)


@pytest.mark.parametrize("ago", [30.0, 90.0])
async def test_a_job_that_finished_long_ago_is_not_fed_again(
    server: Server, others: Server, ago: float
) -> None:
    """Nobody has written to the other shard since, so all that time counts as lost when it is started anew."""
    async with Halves(server, others) as frontier:
        await frontier.open_job(spec(), OWN_START)
        host = hosts_of(frontier, 0)[0]
        await frontier.add("job", [make_task(f"http://{host}/")], Cursor(fed=1, fed_all=True))
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease)
        assert await frontier.finish("job")
        CLOCK.advance(ago)
        others.restart()
        await frontier.reap()  # asks all shards
        job = await balanced(frontier)
        assert (job.fed_all, job.state) == ((False, "running") if ago < 60 else (True, "finished"))


async def test_a_job_is_in_all_shards_or_in_none(server: Server, others: Server) -> None:
    """Made, and paused, in the time that was lost: by the shards, or by the home shard."""
    async with Halves(server, others) as frontier:
        there = hosts_of(frontier, 1)[0]
        server.remember()
        others.remember()
        await frontier.open_job(spec())
        await others.go_back()
        assert (await frontier.add("job", [make_task(f"http://{there}/")])).new == 1
        await frontier.set_state("job", "paused")
        await others.go_back()
        assert (await claim(frontier)).leases == []
        await frontier.set_state("job", "running")
        assert (await frontier.add("job", [make_task(f"http://{there}/")])).new == 1
        assert len((await claim(frontier)).leases) == 1
        await server.go_back()
        assert await frontier.job("job") is None
        await frontier.open_job(spec())
        assert (await balanced(frontier)).counters.admitted == 0
        assert (await frontier.add("job", [make_task(f"http://{there}/")])).new == 1


async def test_handlers_keep_their_numbers(server: Server, others: Server) -> None:
    async with Halves(server, others) as frontier, Halves(server, others) as second:
        there = hosts_of(frontier, 1)
        await frontier.open_job(spec())
        server.remember()
        await frontier.add("job", [make_task(f"http://{there[0]}/", handler="one")])
        await server.go_back()
        await second.add("job", [make_task(f"http://{there[1]}/", handler="two")])
        await second.add("job", [make_task(f"http://{there[2]}/", handler="one")])
        await frontier.now()  # as with its heartbeats
        claimed = (await claim(second, 3)).leases
        assert sorted(lease.task.handler for lease in claimed) == ["one", "one", "two"]


async def test_a_finished_job_goes_on_if_a_shard_has_lost_its_end(server: Server, others: Server) -> None:
    async with Halves(server, others) as frontier:
        there = hosts_of(frontier, 1)[0]
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://{there}/")], Cursor(fed_all=True))
        [lease] = (await claim(frontier)).leases
        others.remember()
        await settle(frontier, lease)
        await frontier.set_state("job", "finished")
        await others.go_back()
        await frontier.reap()  # asks all shards
        job = await balanced(frontier)
        assert (job.state, job.counters.leased) == ("running", 1)


async def test_the_page_budget_holds_whoever_goes_back(server: Server, others: Server) -> None:
    async with Halves(server, others) as frontier:
        here, there = hosts_of(frontier, 0), hosts_of(frontier, 1)
        await frontier.open_job(spec(max_pages=10))
        tasks = [make_task(f"http://{host}/") for host in (*here[:15], *there[:15])]
        await frontier.add("job", tasks, Cursor(fed_all=True))
        for gone in (server, others, server):
            server.remember()
            others.remember()
            CLOCK.advance(HUSH)
            for lease in (await frontier.claim(Claim("w1", ["job"], {"normal": 2}, 2, 600.0))).leases:
                await settle(frontier, lease)
            await gone.go_back()
        await frontier.release(await frontier.held("w1"))
        done = 0
        while leases := (await claim(frontier, 30)).leases:
            for lease in leases:
                assert await settle(frontier, lease)
            done = (await balanced(frontier)).counters.done
        assert done == 10


async def test_a_replica_that_lags_takes_over_in_a_cluster(tmp_path: Path) -> None:
    with ValkeyCluster(tmp_path, replicas=True) as cluster:
        async with RedisFrontier(f"{cluster.url}?shards=6", CLOCK) as frontier:
            await frontier.open_job(spec())
            hosts = hosts_of(frontier, 1)[:3]
            await frontier.add("job", [make_task(f"http://{hosts[0]}/")])
            [lease] = (await claim(frontier)).leases
            assert await frontier.durable(5.0) is True
            primary = cluster.node_of(frontier._shards.tags[1])
            replica = cluster.nodes[cluster.nodes.index(primary) + 3]
            replica.command("CONFIG", "SET", "masterauth", "wrong")
            replica.command("CLIENT", "KILL", "TYPE", "master")
            lost, epoch = make_task(f"http://{hosts[1]}/"), frontier.epoch
            assert all((await frontier.settle([Settlement(lease, Done(), (lost,))], epoch=epoch)).accepted)
            assert (await balanced(frontier)).counters.admitted == 2

            primary.kill()
            replica.command("CLUSTER", "FAILOVER", "TAKEOVER")
            again = await frontier.settle([Settlement(lease, Done())], epoch=epoch)
            assert again.outdated == {0}
            assert frontier.epoch != epoch
            assert (await balanced(frontier)).counters.admitted == 1
            settled = await frontier.settle([Settlement(lease, Done(), (lost,))], epoch=frontier.epoch)
            assert (settled.accepted, settled.found.new) == ([True], 1)
