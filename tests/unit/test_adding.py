"""Adding URLs to a job at any time: what gets in, what is told of the rest, and what becomes of the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import shoal
from shoal import Request, Spider
from shoal.errors import SpiderError, StoreError, UsageError
from shoal.frontier import open_frontier
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import OWN_START, Added, Claim, Cursor, Job, JobState
from shoal.jobs.note import note_of, write_note
from shoal.model import Done, Settlement, Task
from shoal.runtime import adding
from shoal.runtime.adding import Addition, Additions, Common, add_to
from shoal.runtime.job_plan import JobPlan, spec_of
from shoal.settings import Settings
from shoal.testing.conformance.tools import make_task
from shoal.testing.servers import ValkeyCluster, ValkeyServer
from shoal.testing.servers.server_process import wait_until

DEADLINE = 10.0


def spider_of() -> Spider:
    spider = Spider("books", "http://a.test/")
    spider.add_handler(lambda page: None, name="listing", lane="discovery", priority=2)
    spider.add_handler(lambda page: None, name="book")
    return spider


async def job_in(frontier: Frontier, **settings: Any) -> None:
    await frontier.open_job(spec_of(JobPlan(spider_of(), Settings(rate=0, **settings), "books")), OWN_START)
    await frontier.add("books", [], Cursor(fed_all=True))


@pytest.fixture
async def frontier() -> MemoryFrontier:
    made = MemoryFrontier()
    await job_in(made, deny=["/secret"], max_pages_per_host=50, lanes={"images": 2})
    return made


async def adds(
    frontier: Frontier, start: Any, common: Common | None = None
) -> tuple[Additions, list[Addition]]:
    told: list[Addition] = []
    async with asyncio.timeout(DEADLINE):
        done = await add_to(frontier, "books", Spider("add", start), common or Common(), tell=told.append)
    return done, told


async def job_of(frontier: Frontier) -> Job:
    job = await frontier.job("books")
    assert job is not None
    return job


async def tasks_of(frontier: Frontier) -> list[Task]:
    lanes = {"urgent": 9, "normal": 9, "discovery": 9, "images": 9}
    leases = (await frontier.claim(Claim("w", ["books"], lanes, 100))).leases
    await frontier.settle([Settlement(lease, Done()) for lease in leases])
    return [lease.task for lease in leases]


# -- what gets in


async def test_a_url_is_queued_as_the_jobs_first_handler_says(frontier: MemoryFrontier) -> None:
    done, told = await adds(frontier, ["http://b.test/1"])
    assert (done.new, done.duplicates, done.refusals, done.state) == (1, 0, 0, "running")
    assert told == [Addition("", "http://b.test/1", "new")]
    [task] = await tasks_of(frontier)
    assert (task.handler, task.lane, task.priority, task.depth) == ("", "discovery", 2, 0)
    assert task.typed, "a person wrote it on the command line"


async def test_handler_lane_priority_and_meta_are_for_all_unless_a_request_says_otherwise(
    frontier: MemoryFrontier,
) -> None:
    common = Common("book", "urgent", 7, {"run": 3, "who": "me"})
    own = Request("http://c.test/", handler="listing", lane="images", priority=1, meta={"who": "you"})
    await adds(frontier, ["http://b.test/", own], common)
    found = {task.host: task for task in await tasks_of(frontier)}
    one, two = found["b.test"], found["c.test"]
    assert (one.handler, one.lane, one.priority, one.meta) == (
        "book",
        "urgent",
        7,
        {"run": 3, "who": "me"},
    )
    assert (two.handler, two.lane, two.priority, two.meta) == (
        "listing",
        "images",
        1,
        {"run": 3, "who": "you"},
    )


async def test_each_line_of_a_file_is_told_by_its_number(frontier: MemoryFrontier, tmp_path: Path) -> None:
    lines = [
        "http://b.test/1",
        "",
        "# a comment",
        "not a url",
        "ftp://b.test/",
        "http://b.test/secret",
        "http://b.test/1",
        '{"url": "http://b.test/2", "handler": "book", "lane": "images", "meta": {"a": [1]}}',
        '{"url": "http://b.test/3", "handler": "nobody"}',
        '{"url": "http://b.test/3", "lane": "nowhere"}',
        '{"url": "http://b.test/3", "handlr": "book"}',
        '{"url": "http://b.test/3"',
        '{"url": 7}',
        '{"url": "http://b.test/3", "meta": {"big": "' + "x" * 300_000 + '"}}',
        "htp://b.test/3",
        '{"url": "http://b.test/3", "priority": 1' + "0" * 30 + "}",
        '{"url": "http://b.test/3", "meta": ' + '{"a":' * 50_000,
        '{"url": "http://b.test/3", "meta": {"long": "' + "x" * 2_000_000 + '"}}',
    ]
    (tmp_path / "urls.txt").write_text("\n".join(lines))
    done, told = await adds(frontier, [tmp_path / "urls.txt"])
    assert (done.new, done.duplicates) == (2, 1)
    assert done.refused == {"malformed": 10, "out of scope": 1, "unknown handler": 1, "unknown lane": 1}
    reasons = {int(one.where.rpartition(":")[2]): (one.fate, one.reason) for one in told}
    assert reasons[1] == reasons[8] == ("new", "")
    assert reasons[7] == ("duplicate", "")
    assert reasons[4] == ("refused", "malformed: not a URL")
    assert reasons[6][1].startswith("out of scope: a pattern of the setting deny")
    assert reasons[9][1] == "unknown handler: 'nobody'; job books has listing, book"
    assert "there is no lane 'nowhere'; there are urgent" in reasons[10][1]
    assert "handlr" in reasons[11][1]
    assert "did you mean http://b.test/3?" in reasons[15][1]
    assert "meta" in reasons[14][1]
    assert reasons[18][1] == "malformed: the line is longer than 1,048,576 characters"
    assert all(str(tmp_path / "urls.txt") in one.where for one in told)
    assert all(len(one.url) <= 200 for one in told)
    assert not any(task.typed for task in await tasks_of(frontier)), "a file is nobody's word"


async def test_a_password_in_a_refused_line_is_not_told(frontier: MemoryFrontier) -> None:
    lines = ["http://me:hunter2@b.test/secret", "htp://me:hunter2@b.test/"]
    lines += [
        '{"url": "http://me:hunter2@b.test/", "x": 1}',
        '{"url": "http://me:hunter2@b.test/", "lane": "x"}',
    ]
    _, told = await adds(frontier, lines)
    assert [one.fate for one in told] == ["refused"] * 4
    assert "hunter2" not in repr(told)


async def test_what_is_over_a_hosts_budget_is_told(frontier: MemoryFrontier) -> None:
    done, told = await adds(frontier, [f"http://b.test/{n}" for n in range(60)])
    assert (done.new, done.refused) == (50, {"over budget": 10})
    assert {one.where for one in told if one.fate == "refused"} == {""}


async def test_the_same_again_adds_nothing(frontier: MemoryFrontier) -> None:
    urls = [f"http://b.test/{n}" for n in range(40)]
    await adds(frontier, urls[:25])  # and was killed
    done, _ = await adds(frontier, urls)
    assert (done.new, done.duplicates, (await job_of(frontier)).counters.admitted) == (15, 25, 40)


@pytest.mark.parametrize(
    ("common", "problem"),
    [
        (Common("nobody"), "unknown handler: 'nobody'; job books has listing, book"),
        (Common(lane="nowhere"), "there is no lane 'nowhere'"),
        (Common(priority=2**31), "its priority is beyond 2,147,483,647"),
    ],
)
async def test_what_is_wrong_for_all_is_told_at_once(
    frontier: MemoryFrontier, common: Common, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        await adds(frontier, ["http://b.test/"], common)


# -- the job


@pytest.mark.parametrize("state", ["running", "paused"])
async def test_a_job_stays_in_its_state(frontier: MemoryFrontier, state: JobState) -> None:
    await frontier.set_state("books", state)
    done, _ = await adds(frontier, ["http://b.test/"])
    assert (done.new, done.state) == (1, state)


async def test_a_finished_job_runs_again(frontier: MemoryFrontier) -> None:
    assert await frontier.finish("books")
    assert (await adds(frontier, ["not a url"]))[0].state == "finished"
    assert (await adds(frontier, ["http://b.test/"]))[0].state == "running"


async def test_jobs_that_cannot_take_any_say_so(frontier: MemoryFrontier) -> None:
    with pytest.raises(UsageError, match="no job 'other' in this store; there is: books"):
        await add_to(frontier, "other", Spider("add", "http://b.test/"), Common(), tell=print)
    await frontier.set_state("books", "cancelled")
    with pytest.raises(UsageError, match="job books is cancelled"):
        await adds(frontier, ["http://b.test/"])


async def test_a_job_that_has_its_pages_says_so() -> None:
    frontier = MemoryFrontier()
    await job_in(frontier, max_pages=1)
    assert (await adds(frontier, ["http://b.test/1", "http://b.test/2"]))[0].new == 2
    assert len(await tasks_of(frontier)) == 1
    with pytest.raises(UsageError, match=r"job books has its 1 pages \(max_pages\)"):
        await adds(frontier, ["http://b.test/3"])


async def test_a_job_of_an_earlier_version_says_what_to_do(frontier: MemoryFrontier) -> None:
    spec = (await job_of(frontier)).spec
    await frontier.open_job(replace(spec, settings=write_note(b"", Settings())))
    with pytest.raises(UsageError, match="did not note its handlers: submit or crawl it once"):
        await adds(frontier, ["http://b.test/"])


async def test_a_note_knows_the_handlers(frontier: MemoryFrontier) -> None:
    handlers = note_of((await job_of(frontier)).spec).handlers
    assert handlers == {"listing": ("discovery", 2), "book": ("normal", 0)}
    assert list(handlers) == ["listing", "book"]


# -- streams


async def test_what_a_slow_stream_gives_is_added_before_it_ends(frontier: MemoryFrontier) -> None:
    seen = asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        yield "http://b.test/1"
        await seen.wait()
        yield "http://b.test/2"

    adding_ = asyncio.create_task(adds(frontier, slow))
    async with asyncio.timeout(DEADLINE):
        while not (await job_of(frontier)).counters.pending:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    seen.set()
    assert (await adding_)[0].new == 2


async def test_what_came_before_an_error_in_the_source_is_added(frontier: MemoryFrontier) -> None:
    def breaks() -> Any:
        yield "http://b.test/1"
        raise RuntimeError("the database went away")

    with pytest.raises(SpiderError, match="the database went away"):
        await adds(frontier, breaks)
    assert (await job_of(frontier)).counters.admitted == 1


async def test_no_more_than_a_batch_is_held(
    frontier: MemoryFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest, add = 0, frontier.add

    async def watched(job: str, tasks: list[Task], **more: Any) -> Added:
        nonlocal largest
        largest = max(largest, len(tasks))
        return await add(job, tasks, **more)

    monkeypatch.setattr(frontier, "add", watched)
    done, _ = await adds(frontier, [f"http://h{n}.test/" for n in range(3_500)])
    assert (done.new, largest) == (3_500, 1_000)


async def test_a_full_queue_is_waited_for(frontier: MemoryFrontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "_HIGH_WATER", 1_500)
    monkeypatch.setattr(adding, "_LOOK_AGAIN", 0.01)
    await job_in(frontier, high_water=1)
    said: list[str] = []
    source = Spider("add", [f"http://h{n}.test/" for n in range(3_000)])
    work = asyncio.create_task(
        add_to(frontier, "books", source, Common(), tell=lambda _: None, say=said.append)
    )
    async with asyncio.timeout(DEADLINE):
        while not said:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert said == ["job books is running and has 2,000 pages pending: waiting"]
        assert (await job_of(frontier)).counters.pending == 2_000
        await frontier.set_state("books", "cancelled")
        await frontier.drop_job("books")
        with pytest.raises(UsageError, match="no job named 'books'"):
            await work


async def test_a_store_that_fails_is_not_passed_over(
    frontier: MemoryFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> Added:
        raise StoreError("the store is full")

    monkeypatch.setattr(frontier, "add", fails)
    with pytest.raises(StoreError, match="is full"):
        await adds(frontier, ["http://b.test/"])


# -- from code


async def test_from_code_a_url_is_nobodys_word(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with open_frontier(str(store)) as frontier:
        await job_in(frontier)
    told: list[Addition] = []
    done = await shoal.add(
        "books",
        ["http://b.test/", Request("http://c.test/x", handler="book"), "junk"],
        store=store,
        meta={"a": 1},
        tell=told.append,
    )
    assert (done.new, done.refused, done.durable) == (2, {"malformed": 1}, True)
    assert [one.where for one in told] == ["request 3", "request 1", "request 2"]
    assert (await shoal.add("books", "http://b.test/", store=store)).duplicates == 1
    (tmp_path / "urls.txt").write_text("http://d.test/y\n")
    assert (await shoal.add("books", tmp_path / "urls.txt", store=store)).new == 1
    async with open_frontier(str(store)) as frontier:
        tasks = await tasks_of(frontier)
    assert [task.typed for task in tasks] == [False] * 3
    assert {task.handler for task in tasks} == {"", "book"}
    with pytest.raises(StoreError, match="there is no store at"):
        await shoal.add("books", "http://b.test/", store=tmp_path / "another.db")


# -- on the disk


@pytest.fixture(scope="module")
def late_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """One that answers before the disk has it: up to a second before."""
    with ValkeyServer(tmp_path_factory.mktemp("late"), appendonly=True, fsync="everysec") as server:
        yield server


async def test_what_was_added_is_on_the_disk_of_the_server(
    late_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "_ON_DISK", 60.0)
    async with RedisFrontier(f"{late_server.url}?prefix=durable") as frontier:
        await job_in(frontier)
        began = time.monotonic()
        done, _ = await adds(frontier, ["http://b.test/"])
        assert (done.new, done.durable) == (1, True)
        assert time.monotonic() - began > 1.0
        monkeypatch.setattr(frontier, "durable", None)  # nothing new: nothing to wait for
        done, _ = await adds(frontier, ["http://b.test/"])
        assert (done.new, done.durable) == (0, True)


async def test_a_disk_that_does_not_answer_in_time_is_told(
    late_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "_ON_DISK", 0.5)
    async with RedisFrontier(f"{late_server.url}?prefix=undurable") as frontier:
        await job_in(frontier)
        assert (await adds(frontier, ["http://b.test/"]))[0].durable is False


async def test_what_the_servers_settings_promise(tmp_path: Path) -> None:
    for policy, promised in (("always", True), ("no", None)):
        with ValkeyServer(tmp_path / policy, appendonly=True, fsync=policy) as server:
            async with RedisFrontier(server.url) as frontier:
                began = time.monotonic()
                assert await frontier.durable(60.0) is promised
                assert time.monotonic() - began < 30.0
    with ValkeyServer(tmp_path / "none") as server:
        async with RedisFrontier(server.url) as frontier:
            assert await frontier.durable(5.0) is None


async def test_a_replica_that_lags_is_waited_for(tmp_path: Path) -> None:
    """It may take the server's place, and would know nothing of what has not reached it."""
    servers = [ValkeyServer(tmp_path / str(n), appendonly=True, fsync="always") for n in range(2)]
    with servers[0] as server, servers[1] as replica:
        replica.command("REPLICAOF", "127.0.0.1", server.port)
        wait_until(
            lambda: server.command("INFO", "replication")["connected_slaves"], 20, "it does not follow"
        )
        async with RedisFrontier(server.url) as frontier:
            assert await frontier.durable(60.0) is True
            replica.pause()
            await job_in(frontier)
            assert await frontier.durable(0.3) is False
            replica.resume()
            assert await frontier.durable(60.0) is True


async def test_every_node_of_a_cluster_is_asked(tmp_path: Path) -> None:
    with ValkeyCluster(tmp_path) as cluster:
        async with RedisFrontier(f"{cluster.url}?shards=6") as frontier:
            await job_in(frontier)
            await frontier.add("books", [make_task(f"http://h{n}.test/") for n in range(20)])
            assert await frontier.durable(60.0) is True
            calls = [node.command("INFO", "commandstats").get("cmdstat_waitaof") for node in cluster.nodes]
            assert all(calls)
