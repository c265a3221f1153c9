"""A store of an older layout is upgraded whole, by one process at a time, and never under somebody's feet."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.errors import StoreError, StoreVersionError
from shoal.frontier import open_frontier
from shoal.frontier.redis import upgrading
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.keys import LAYOUT
from shoal.frontier.redis.link import Link, Script
from shoal.frontier.redis.shards import Shards
from shoal.frontier.redis.upgrading import STEPS, Upgrader
from shoal.frontier.values import HUSH, OWN_START, Source
from shoal.jobs.note import write_note
from shoal.model import Done, Settlement
from shoal.settings import Settings
from shoal.testing.conformance.tools import claim, counted, make_task, settle, spec
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyServer
from stores.old_stores import FOUND, HELD, SHARDS, URLS, fill, load_valkey

_number = itertools.count()


@pytest.fixture
def prefix() -> str:
    return f"up{next(_number)}"


@pytest.fixture
def old(valkey_server: ValkeyServer, prefix: str) -> str:
    """A store of layout 4, as the version before wrote it."""
    load_valkey(valkey_server, "layout4.json", prefix)
    return f"{valkey_server.url}?prefix={prefix}&shards={SHARDS}"


def layouts(server: ValkeyServer, prefix: str) -> list[str]:
    return [
        (server.command("HGET", f"{{{prefix}:{shard}}}:facts", "layout") or b"").decode()
        for shard in range(SHARDS)
    ]


@pytest.mark.parametrize("name", ["layout4.json", "layout5.json"])
async def test_nothing_is_lost_on_the_way(valkey_server: ValkeyServer, prefix: str, name: str) -> None:
    load_valkey(valkey_server, name, prefix)
    clock = ManualClock()
    clock.advance(60)
    async with RedisFrontier(f"{valkey_server.url}?prefix={prefix}&shards={SHARDS}", clock) as frontier:
        job = await counted(frontier)
        assert (job.counters.admitted, job.counters.done, job.counters.dead) == (13, 1, 1)
        assert (job.counters.leased, job.counters.delayed, job.counters.items) == (HELD, 1, 1)
        assert await frontier.journal_length("job", "rows.jsonl") == 9
        note = await frontier.note("note")
        assert note is not None
        assert note.value == b"kept"
        clock.advance(HUSH)  # to layout 5, the server that has the store now is another one
        await frontier.reap()
        served = set()
        while got := (await claim(frontier)).leases:
            for lease in got:
                served.add(lease.task.url)
                assert await settle(frontier, lease, Done())
        assert len(served) == 11
        assert served < {*URLS, FOUND}
        assert (await counted(frontier)).counters.pending == 0
    assert layouts(valkey_server, prefix) == [str(LAYOUT)] * SHARDS


async def test_scripts_of_the_version_before_change_nothing_any_more(
    old: str, valkey_server: ValkeyServer, prefix: str
) -> None:
    """A process that was stopped all the while wakes up, and goes on with what it was doing."""
    async with RedisFrontier(old):
        pass
    before = contents(valkey_server, prefix)
    with pytest.raises(Exception, match="WRONGTYPE"):  # how every script up to layout 4 begins
        valkey_server.command(
            "EVAL", "return redis.call('HMGET', KEYS[1] .. ':meta', 'time')", 1, f"{{{prefix}:0}}"
        )
    assert contents(valkey_server, prefix) == before


async def test_no_script_runs_on_another_layout(valkey_server: ValkeyServer, prefix: str) -> None:
    """The store is upgraded under a process that has it open: whatever that asks next is refused."""
    store = f"{valkey_server.url}?prefix={prefix}&shards={SHARDS}"
    async with RedisFrontier(store) as frontier:
        leases = await fill(frontier)
        for layout in (LAYOUT + 1, "upgrading"):
            for shard in range(SHARDS):
                valkey_server.command("HSET", f"{{{prefix}:{shard}}}:facts", "layout", layout)
            before = contents(valkey_server, prefix)
            for verb in (
                frontier.settle([Settlement(lease, Done()) for lease in leases]),
                frontier.extend("gone", 60.0, b""),
                frontier.add("job", [make_task("http://new.test/")]),
                frontier.release(leases),
                frontier.reap(),
                frontier.open_job(spec("another")),
                frontier.set_note("note", b"x", 1),
                claim(frontier),
                frontier.jobs(),
            ):
                with pytest.raises(StoreVersionError, match="upgraded to"):
                    await verb
            assert contents(valkey_server, prefix) == before


def contents(server: ValkeyServer, prefix: str) -> dict[str, bytes]:
    return {key: server.command("DUMP", key) for key in server.command("KEYS", f"{{{prefix}:*")}


async def test_living_workers_are_not_pulled_the_store_from_under_them(
    old: str, valkey_server: ValkeyServer, prefix: str
) -> None:
    valkey_server.command("ZADD", f"{{{prefix}:0}}:alive", "9999999999", "node-7:1")
    before = contents(valkey_server, prefix)
    with pytest.raises(
        StoreVersionError, match=rf"in use by .*node-7:1; layout 4, this one needs {LAYOUT}\): stop"
    ):
        async with RedisFrontier(old):
            pass
    assert contents(valkey_server, prefix) == before, "the others go on as if nobody had asked"
    valkey_server.command(
        "ZADD", f"{{{prefix}:0}}:alive", "1000000001", "node-7:1"
    )  # its last beat is long ago
    async with RedisFrontier(old):
        pass


async def test_who_only_looks_upgrades_nothing(old: str, valkey_server: ValkeyServer, prefix: str) -> None:
    before = contents(valkey_server, prefix)
    with pytest.raises(
        StoreVersionError, match=rf"older version.*layout 4, this one needs {LAYOUT}.*shoal store upgrade"
    ):
        async with open_frontier(old, create=False):
            pass
    assert contents(valkey_server, prefix) == before


@pytest.mark.parametrize(
    ("layout", "message"), [("99", "newer version.*layout 99"), ("2", "too old.*layout 2")]
)
async def test_other_layouts_are_refused(
    valkey_server: ValkeyServer, prefix: str, layout: str, message: str
) -> None:
    store = f"{valkey_server.url}?prefix={prefix}"
    async with RedisFrontier(store):
        pass
    valkey_server.command("HSET", f"{{{prefix}:0}}:facts", "layout", layout)
    with pytest.raises(StoreVersionError, match=message):
        async with RedisFrontier(store):
            pass


async def test_all_who_open_it_at_once_find_it_upgraded(
    old: str, monkeypatch: pytest.MonkeyPatch, valkey_server: ValkeyServer, prefix: str
) -> None:
    ran: list[int] = []

    async def slow(_: Upgrader, shard: int) -> None:
        ran.append(shard)
        await asyncio.sleep(0.1)

    monkeypatch.setattr(upgrading, "STEPS", {**STEPS, 4: (*STEPS[4], slow)})
    frontiers = [RedisFrontier(old) for _ in range(5)]
    await asyncio.gather(*(frontier.open() for frontier in frontiers))
    assert ran == [0, 1]
    for frontier in frontiers:
        assert (await counted(frontier)).counters.admitted == 13
        await frontier.close()


async def test_killed_after_any_script_and_begun_again(
    valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of several scripts is cut short after each of them in turn. The next process ends it."""
    monkeypatch.setattr(upgrading, "HOLD_SECONDS", 0.05)

    async def mark(upgrader: Upgrader, shard: int) -> None:
        for _ in range(2):
            await upgrader.run("upgraded", shard, 4, False)  # any script of an upgrade will do

    monkeypatch.setattr(upgrading, "STEPS", {**STEPS, 4: (*STEPS[4], mark)})
    for survived in itertools.count():
        prefix = f"kill{survived}"
        load_valkey(valkey_server, "layout4.json", prefix)
        store = f"{valkey_server.url}?prefix={prefix}&shards={SHARDS}"
        with monkeypatch.context() as patch:
            patch.setattr(Link, "run", dying_after(survived, Link.run))
            try:
                async with RedisFrontier(store):
                    pass
            except Killed:
                died = True
            else:
                died = False
        async with RedisFrontier(store) as frontier:
            job = await counted(frontier)
            assert (job.counters.admitted, job.counters.done, job.counters.pending) == (13, 1, 8)
        assert layouts(valkey_server, prefix) == [str(LAYOUT)] * SHARDS
        assert not valkey_server.command("KEYS", f"{{{prefix}:*upgrade")
        if not died:
            break
    assert survived > 12


class Killed(Exception):
    pass


def dying_after(calls: int, run: Any) -> Any:
    """As a kill looks from outside: so many scripts took effect, and then none any more."""
    left = [calls]

    async def wrapped(self: Link, script: Script, tag: str, args: Any = (), **more: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return await run(self, script, tag, args, **more)

    return wrapped


async def test_who_slept_too_long_does_not_go_on(
    old: str, monkeypatch: pytest.MonkeyPatch, valkey_server: ValkeyServer, prefix: str
) -> None:
    """The first is stopped in the middle of a step; the second ends it; the first wakes up and may not write."""
    monkeypatch.setattr(upgrading, "HOLD_SECONDS", 0.05)
    entered, wake = asyncio.Event(), asyncio.Event()
    came: list[Shards] = []  # who slept, and then who began a step
    ran: list[Shards] = []  # who ended one; a slow second one may lose its hold, and take it again

    async def step(upgrader: Upgrader, shard: int) -> None:
        came.append(upgrader.shards)
        if not entered.is_set():
            entered.set()
            await wake.wait()
        await upgrader.run("upgraded", shard, 4, False)
        ran.append(upgrader.shards)

    monkeypatch.setattr(upgrading, "STEPS", {**STEPS, 4: (*STEPS[4], step)})
    first, second = RedisFrontier(old), RedisFrontier(old)
    opening = asyncio.create_task(first.open())
    await entered.wait()
    await second.open()
    wake.set()
    await opening
    assert ran, "the second one wrote"
    assert came[0] not in ran, "only the second one did"
    assert (await counted(first)).counters.admitted == 13
    await first.close()
    await second.close()


async def test_a_shard_that_is_waited_for_does_not_cost_the_others(
    old: str, monkeypatch: pytest.MonkeyPatch, valkey_server: ValkeyServer, prefix: str
) -> None:
    """Somebody was killed who had the second one alone. Whoever comes next has the first one too briefly to wait."""
    monkeypatch.setattr(upgrading, "HOLD_SECONDS", 0.1)
    valkey_server.command("SET", f"{{{prefix}:1}}:upgrade", "node-7:1:dead", "PX", 500)
    async with asyncio.timeout(20), RedisFrontier(old) as frontier:
        assert (await counted(frontier)).counters.admitted == 13


async def test_a_server_that_went_back_to_the_old_layout_is_not_written_to(
    valkey_server: ValkeyServer, prefix: str
) -> None:
    """A failover right after an upgrade may lead to a replica that has not heard of it."""
    store = f"{valkey_server.url}?prefix={prefix}&shards={SHARDS}"
    async with RedisFrontier(store) as frontier:
        await frontier.open_job(spec())
        for key in valkey_server.command("KEYS", f"{{{prefix}:*"):
            valkey_server.command("DEL", key)
        load_valkey(valkey_server, "layout4.json", prefix)
        before = contents(valkey_server, prefix)
        with pytest.raises(StoreError, match="layout 4"):
            await frontier.reap()
        assert contents(valkey_server, prefix) == before


async def test_the_one_cursor_of_layout_4_goes_to_whom_it_belonged(
    valkey_server: ValkeyServer, prefix: str
) -> None:
    fed_by = {"coordinated": "coordinator", "listed": "submit", "crawled": "crawl", "through": "submit"}
    store = f"{valkey_server.url}?prefix={prefix}&shards={SHARDS}"
    home = f"{{{prefix}:0}}"
    async with RedisFrontier(store) as frontier:
        for number, (name, by) in enumerate(fed_by.items(), 1):
            note = write_note(b"rows.jsonl", Settings(depth=3), by)  # type: ignore[arg-type]
            await frontier.open_job(replace(spec(name), settings=note))
            valkey_server.command("HSET", f"{home}:job:{number}", "fed", 150)
    valkey_server.command("HSET", f"{home}:job:4", "fed", 400, "fed_all", 1)
    for shard in range(SHARDS):
        valkey_server.command("HSET", f"{{{prefix}:{shard}}}:facts", "layout", 4)
    async with RedisFrontier(store) as frontier:
        jobs = {job.spec.name: job for job in await frontier.jobs()}
        assert jobs["coordinated"].sources == {OWN_START: Source(150)}
        assert jobs["through"].sources == {OWN_START: Source(400, fed_all=True)}
        assert jobs["listed"].sources == jobs["crawled"].sources == {}
        assert (await frontier.open_job(spec("listed"), "urls.txt")).unfed == ["urls.txt"]
