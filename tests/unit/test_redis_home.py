"""What the home in Valkey must do beyond the suite that all homes share."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal.errors import StoreError, UsageError
from shoal.frontier import open_frontier
from shoal.frontier.redis import rows, script_loader
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.keys import NAMES
from shoal.frontier.redis.link import Script
from shoal.frontier.values import DeadFilter
from shoal.model import Dead, Done, Retry, Revisit, Row, Settlement, Task
from shoal.model.page_record import PageRecord
from shoal.sink.jsonl import JsonLines
from shoal.testing.conformance.tools import FAILED, ListJournal, claim, counted, make_task, settle, spec
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyServer
from shoal.valve import DomainLimit, Valve

_number = itertools.count()


@pytest.fixture
def store(valkey_server: ValkeyServer) -> str:
    return f"{valkey_server.url}?prefix=u{next(_number)}"


def keys(server: ValkeyServer, prefix: str) -> set[str]:
    found = server.command("KEYS", f"{{{prefix}:*")
    return {key.decode().partition("}:")[2] for key in found}


async def test_the_same_url_added_by_many_at_once_is_pending_once(store: str) -> None:
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec())
        task = make_task("http://a.test/")
        added = await asyncio.gather(*((one, two)[n % 2].add("job", [task]) for n in range(100)))
        assert sum(part.new for part in added) == 1
        job = await counted(two)
        assert (job.counters.pending, job.counters.duplicates) == (1, 99)


async def test_claims_by_many_at_once_share_the_hosts_limits(store: str) -> None:
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec(valve=Valve(cap=3)))
        await one.add("job", [make_task(f"http://h{n % 5}.test/{n}") for n in range(100)])
        got = await asyncio.gather(*(claim((one, two)[n % 2], 4, worker=f"w{n}") for n in range(20)))
        leases = [lease for part in got for lease in part.leases]
        assert Counter(lease.task.host for lease in leases) == {f"h{n}.test": 3 for n in range(5)}
        assert len({lease.token for lease in leases}) == len({lease.task.id for lease in leases}) == 15


async def test_the_seen_set_grows_by_splitting_and_forgets_nothing(
    store: str, valkey_server: ValkeyServer
) -> None:
    tasks = [make_task(f"http://h{n % 7}.test/{n}") for n in range(6000)]
    async with RedisFrontier(store) as frontier:
        await frontier.open_job(spec())
        assert (await frontier.add("job", tasks[:3500])).new == 3500
        assert (await frontier.add("job", tasks)).new == 2500
        assert (await frontier.add("job", tasks)).duplicates == 6000
    prefix = store.partition("prefix=")[2]
    buckets = [key for key in keys(valkey_server, prefix) if key.startswith("seen:")]
    sizes = [valkey_server.command("SCARD", f"{{{prefix}:0}}:{bucket}") for bucket in buckets]
    assert sum(sizes) == 6000
    assert len(buckets) > 25
    assert max(sizes) <= 512  # else the server would keep them as hash tables, at many times the memory
    encodings = {
        valkey_server.command("OBJECT", "ENCODING", f"{{{prefix}:0}}:{bucket}") for bucket in buckets
    }
    assert encodings == {b"intset"}


async def test_tasks_that_come_back_take_their_old_places(store: str) -> None:
    async with RedisFrontier(store, ManualClock()) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(10)])
        leases = list((await claim(frontier, 6)).leases)
        await frontier.release(leases[3:5])
        await frontier.release([leases[0], leases[5]])
        await frontier.release(leases[1:3])
        order = [lease.task.url.rpartition("/")[2] for lease in (await claim(frontier)).leases]
        assert order == [str(n) for n in range(10)]


async def test_another_process_reads_handlers_it_never_wrote(store: str) -> None:
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec())
        await one.add("job", [make_task("http://a.test/1", handler="listing")])
        assert [lease.task.handler for lease in (await claim(two)).leases] == ["listing"]
        await one.add("job", [make_task("http://a.test/2", handler="book")])
        assert [lease.task.handler for lease in (await claim(two)).leases] == ["book"]


async def test_a_sleeping_worker_wakes_when_work_arrives_elsewhere(store: str) -> None:
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec())
        await claim(two)
        await two.wait(0)  # what came before
        sleeping = asyncio.create_task(two.wait(20))
        await asyncio.sleep(0.2)
        assert not sleeping.done() or (await claim(two)).leases == []
        began = time.monotonic()
        await one.add("job", [make_task("http://a.test/1")])
        while not (await claim(two)).leases:
            await two.wait(20)
        assert time.monotonic() - began < 15
        sleeping.cancel()


async def test_time_does_not_go_back_when_the_clock_does(store: str) -> None:
    ahead, behind = ManualClock(wall=2_000_000.0), ManualClock(wall=1_000_000.0)
    async with RedisFrontier(store, ahead) as one, RedisFrontier(store, behind) as two:
        await one.open_job(spec())
        await one.add("job", [make_task("http://a.test/1")])
        await claim(one, lease_seconds=60)
        assert await two.now() == await one.now() == 2_000_000.0
        assert await two.reap() == 0


async def test_the_number_of_shards_is_chosen_once(store: str) -> None:
    async with RedisFrontier(f"{store}&shards=2"):
        pass
    with pytest.raises(StoreError, match="shards=2"):
        async with RedisFrontier(f"{store}&shards=3"):
            pass


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_dropped_job_leaves_no_keys(store: str, shards: int, valkey_server: ValkeyServer) -> None:
    async with RedisFrontier(f"{store}&shards={shards}") as frontier:
        await frontier.open_job(spec(max_attempts=1, domain=DomainLimit(cap=1)))
        tasks = [
            make_task(f"http://{host}/", lane=("normal", "urgent")[n % 2], priority=n % 3)
            for n in range(50)
            for host in (f"h{n}.test", f"h{n}.shared.test")
        ]
        await frontier.add("job", tasks)
        leases = (await claim(frontier, 12)).leases
        await settle(frontier, leases[0], Dead(FAILED))
        journal = ListJournal()
        await frontier.settle([Settlement(leases[1], Done(), rows=(Row(b"x", 7),))], journal)
        await settle(frontier, leases[3], Revisit(1e6, PageRecord(visits=1)))
        await frontier.drop_job("job")
        assert not await settle(frontier, leases[2])
    left = {key.partition(":")[0] for key in keys(valkey_server, store.partition("prefix=")[2])}
    assert left <= {"facts", "lanes", "hosts", "sites", "domains", "call", "holders", "kept"}


async def test_a_job_made_anew_elsewhere_is_not_mistaken_for_the_old_one(store: str) -> None:
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec())
        await one.add("job", [make_task("http://a.test/1")])
        await two.drop_job("job")
        await two.open_job(spec())
        assert (await one.add("job", [make_task("http://a.test/1")])).new == 1
        assert len((await claim(one)).leases) == 1
        await two.drop_job("job")
        with pytest.raises(UsageError, match="no job named 'job'"):
            await one.add("job", [make_task("http://a.test/2")])


async def test_a_lease_lost_while_its_row_was_written_takes_the_row_back(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, journal = ManualClock(), ListJournal()
    async with RedisFrontier(store, clock) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier, lease_seconds=10)).leases
        write = rows.write

        async def write_and_lose(*args: object) -> object:
            condition = await write(*args)  # type: ignore[arg-type]
            if clock.time() == began:
                clock.advance(11)
                await frontier.reap()
            return condition

        began = clock.time()
        monkeypatch.setattr(rows, "write", write_and_lose)
        batch = [
            Settlement(one, Done(), rows=(Row(b"one\n"),)),
            Settlement(two, Done(), rows=(Row(b"two\n"),)),
        ]
        assert list((await frontier.settle(batch, journal)).accepted) == [False, False]
        assert journal.data == b""
        again = (await claim(frontier)).leases
        await frontier.settle(
            [Settlement(lease, Done(), rows=(Row(b"again\n"),)) for lease in again], journal
        )
        assert journal.data == b"again\nagain\n"
        assert await frontier.journal_length("job", journal.key) == len(journal.data)


@pytest.mark.parametrize("shards", [1, 3])
async def test_processes_that_share_a_file_write_each_row_once(
    store: str, shards: int, tmp_path: Path
) -> None:
    store = f"{store}&shards={shards}"
    path = tmp_path / "rows.jsonl"

    async def work(name: str) -> int:
        """As a process of its own would: another frontier, another file descriptor."""
        journal, done = JsonLines(path), 0
        async with RedisFrontier(store) as frontier:
            while leases := (await claim(frontier, 7, worker=name)).leases:
                batch = [
                    Settlement(lease, Done(), rows=(Row(json.dumps(lease.task.url).encode() + b"\n"),))
                    for lease in leases
                ]
                done += sum((await frontier.settle(batch, journal)).accepted)
        journal.close()
        return done

    async with RedisFrontier(store) as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://h{n % 11}.test/{n}") for n in range(200)])
        done = await asyncio.gather(*(work(f"w{n}") for n in range(4)))
        assert sum(done) == 200
        assert (await counted(frontier)).counters.items == 200
        assert await frontier.journal_length("job", str(path)) == path.stat().st_size
    lines = path.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 200


async def test_dead_letters_are_paged_and_replayed(store: str) -> None:
    async with RedisFrontier(f"{store}&shards=2", ManualClock()) as frontier:
        await frontier.open_job(spec(max_attempts=1))
        await frontier.add("job", [make_task(f"http://h{n % 9}.test/{n}") for n in range(1200)])
        while leases := (await claim(frontier, 500)).leases:
            await frontier.settle([Settlement(lease, Retry(1.0, FAILED)) for lease in leases])
        assert len(await frontier.dead(DeadFilter())) == 1200
        assert len(await frontier.dead(DeadFilter(limit=5, host="h3.test"))) == 5
        assert await frontier.drop(DeadFilter(host="h3.test", limit=3)) == 3
        assert await frontier.replay(DeadFilter()) == 1197
        job = await counted(frontier)
        assert (job.counters.dead, job.counters.pending) == (3, 1197)


async def test_a_mistyped_address_is_told_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="no store of kind 'mongodb'"):
        open_frontier("mongodb://host")
    assert isinstance(open_frontier("valkey://localhost:1/0"), RedisFrontier)


async def test_an_unlimited_valve_can_be_stored(store: str) -> None:
    async with RedisFrontier(store) as frontier:
        await frontier.open_job(spec(valve=Valve(cap=10**12)))
        await frontier.add("job", [make_task("http://a.test/")])
        record = await frontier.host("a.test")
        assert record is not None
        assert await frontier.update_host(replace(record, valve=replace(record.valve, burst=10**12)))
        assert len((await claim(frontier)).leases) == 1


@pytest.mark.parametrize("shards", [1, 2])
async def test_a_bloom_filter_knows_every_url_again_and_mistakes_few(
    store: str, shards: int, valkey_server: ValkeyServer
) -> None:
    count = 20_000
    tasks = [make_task(f"http://h{n % 7}.test/{n}") for n in range(count)]
    prefix = store.partition("prefix=")[2]
    async with RedisFrontier(f"{store}&shards={shards}") as frontier:
        await frontier.open_job(spec(dedupe="bloom", capacity=count))
        added = await frontier.add("job", tasks)
        assert count * 0.999 <= added.new <= count
        assert (await frontier.add("job", tasks)).duplicates == count
        assert (await frontier.find("job", make_task("http://h1.test/never"))).place == "unknown"
        assert not [key for key in keys(valkey_server, prefix) if key.startswith("seen:")]
        blocks = valkey_server.command("KEYS", f"{{{prefix}:*bloom:*")
        sizes = [valkey_server.command("MEMORY", "USAGE", block) for block in blocks]
        assert sizes
        assert max(sizes) < 2**20 / 8 * 1.3, "the server keeps no room for growth"
        await frontier.drop_job("job")
        assert not [key for key in keys(valkey_server, prefix) if key.startswith("bloom:")]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Bloom filters in blocks of 1,024 URLs instead of 65,536."""

    def smaller(name: str) -> Script:
        text = script_loader.script(name).source
        return Script(name, text.replace("BITS, PROBES = 2 ^ 20,", "BITS, PROBES = 2 ^ 14,"))

    monkeypatch.setattr("shoal.frontier.redis.shards.script", cache(smaller))
    monkeypatch.setattr("shoal.frontier.redis.jobs._BITS_A_BLOCK", 2**14)
    return 1_024


async def test_a_bloom_filter_that_is_full_grows_and_says_so(
    store: str, small_blocks: int, valkey_server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    capacity, prefix, rng = 4 * small_blocks, store.partition("prefix=")[2], random.Random(1)

    def some(count: int) -> list[Task]:
        prints = (rng.getrandbits(63) for _ in range(count))
        return [Task("http://a.test/", host="a.test", fingerprint=one) for one in prints]

    def blocks() -> int:
        return len([key for key in keys(valkey_server, prefix) if key.startswith("bloom:")])

    batches = [some(capacity) for _ in range(5)]
    async with RedisFrontier(store) as frontier:
        caplog.clear()
        await frontier.open_job(spec(dedupe="bloom", capacity=capacity))
        new = (await frontier.add("job", batches[0])).new
        assert await frontier.job("job")
        assert (blocks(), caplog.text) == (4, "")
        for batch in batches[1:]:
            new += (await frontier.add("job", batch)).new
        assert blocks() == 4 + 8 + 16
        for _ in range(3):
            assert await frontier.job("job")
        assert caplog.text.count("job job has met") == 1
        mistakes = 5 * capacity - new
        assert mistakes <= 0.001 * 5 * capacity
        for batch in (batches[0], batches[2], batches[4]):
            assert (await frontier.add("job", batch)).new == 0
        await frontier.drop_job("job")
        assert blocks() == 0


async def test_a_user_with_the_documented_rights_can_use_the_store(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "valkey.md").read_text()
    [rules] = re.findall(r"`(\+@all .*)`", document)
    with ValkeyServer(tmp_path, users={"worker": f"on >secret {rules}"}) as server:
        address = server.url.replace("redis://", "redis://worker:secret@")
        async with RedisFrontier(address) as frontier:
            await frontier.open_job(spec())
            await frontier.add("job", [make_task("http://a.test/")])
            [lease] = (await claim(frontier)).leases
            assert await settle(frontier, lease)
            await frontier.drop_job("job")


def test_every_key_is_documented() -> None:
    document = (Path(__file__).parents[2] / "docs" / "valkey.md").read_text()
    told = set(re.findall(r"`(\w+:?)[\w:]*`", document.partition("## Every key")[2]))
    assert {name.removesuffix(":") for name in NAMES.values()} <= {name.removesuffix(":") for name in told}


async def test_a_process_that_ends_leaves_no_trace_of_its_calls(valkey: ValkeyServer) -> None:
    for shards in (1, 3):
        valkey.command("FLUSHALL")
        store = f"{valkey.url}?shards={shards}"
        async with RedisFrontier(store) as frontier:
            await frontier.open_job(spec())
            await frontier.add("job", [make_task(f"http://h{n}.test/") for n in range(9)])
            leases = (await claim(frontier)).leases
            await frontier.settle([Settlement(lease, Done()) for lease in leases])
            assert valkey.command("KEYS", "*call:*")
        assert valkey.command("KEYS", "*call:*") == []


async def test_a_look_at_jobs_costs_the_same_however_many_there_are(valkey: ValkeyServer) -> None:
    valkey.command("FLUSHALL")
    async with RedisFrontier(valkey.url) as frontier:

        async def calls() -> int:
            before = valkey.command("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
            await frontier.jobs()
            await frontier.jobs("running")
            return int(valkey.command("INFO", "commandstats")["cmdstat_evalsha"]["calls"] - before)

        for name in ("a", "b"):
            await frontier.open_job(spec(name))
        await frontier.jobs()
        few = await calls()
        for n in range(30):
            await frontier.open_job(spec(f"j{n}"))
            await frontier.set_state(f"j{n}", "finished")
        assert len(await frontier.jobs()) == 32
        assert await calls() == few == 2
