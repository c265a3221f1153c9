"""What a job remembers of its past: slices that are joined without loss, and the note that processes share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.history import (
    EDGES,
    FINE_INTERVAL,
    FINE_SLICES,
    MOST_HOSTS,
    MOST_SLICES,
    History,
    HostPast,
    Slice,
    coarse,
    joined,
)
from shoal.engine.history_recorder import HistoryRecorder, history_of_past, key_of, read_history
from shoal.engine.tally import LATENCY_EDGES, Tally
from shoal.engine.visit_tally import VisitTally
from shoal.errors import StoreError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import JobSpec
from shoal.inspect.retention import prune
from shoal.model import Failure, Response
from shoal.testing import ManualClock

counts = st.integers(0, 1000)
kinds = st.dictionaries(st.sampled_from(["timeout", "http_503", "dns"]), st.integers(1, 50), max_size=3)
buckets = st.lists(counts, max_size=len(EDGES) + 1).map(
    lambda counts: tuple(counts[: max((n + 1 for n, count in enumerate(counts) if count), default=0)])
)
slices = st.builds(Slice, counts, counts, counts, counts, counts, kinds, buckets)
# Eighths: sums of them are exact, in whatever order.
pasts = st.builds(
    HostPast, counts, counts, st.integers(0, 800).map(lambda n: n / 8), st.sampled_from(["", "dns"])
)
hosts = st.dictionaries(st.sampled_from("abcdef"), pasts, max_size=4)
moments = st.lists(st.tuples(st.floats(0, 5_000), slices, hosts), max_size=8)


def history_of(events: list[tuple[float, Slice, dict[str, HostPast]]], interval: float = 1.0) -> History:
    history = History(interval)
    for at, gained, seen in events:
        history = history.added(at, gained, seen)
    return history


@given(moments, moments, moments, st.sampled_from([1.0, 2.0, 8.0]))
def test_merging_is_associative(a: object, b: object, c: object, interval: float) -> None:
    one, two, three = (
        history_of(a, interval),  # type: ignore[arg-type]
        history_of(b),  # type: ignore[arg-type]
        history_of(c),  # type: ignore[arg-type]
    )
    assert one.merged(two).merged(three) == one.merged(two.merged(three))
    assert one.merged(History()) == one == History().merged(one)


@given(moments, st.integers(1, 6))
def test_nothing_is_lost_by_coarsening(events: object, most: int) -> None:
    history = history_of(events)  # type: ignore[arg-type]
    coarser = history.coarsened(most)
    assert len(coarser.slices) <= most
    assert coarser.total() == history.total()
    assert coarser.hosts == history.hosts
    # … and what is joined stays where it was, to the interval.
    for key, one in coarser.slices.items():
        times = round(coarser.interval / history.interval)
        assert one == joined(part for at, part in history.slices.items() if at // times == key)


def test_a_history_stays_small() -> None:
    history = History()
    errors = {"timeout": 40, "http_503": 30, "http_429": 20, "dns": 10, "read_timeout": 5}
    busy = Slice(10_000, 12_000, 105, 3, 10**9, errors, tuple([999] * (len(EDGES) + 1)))
    for second in range(0, 40_000, 40):
        names = {f"host-number-{second + n}.example.com": HostPast(n, 1, 2.5, "timeout") for n in range(20)}
        history = history.added(second, busy, names)
    assert len(history.slices) <= MOST_SLICES
    assert len(history.hosts) == MOST_HOSTS
    assert history.total().pages == 10_000 * len(range(0, 40_000, 40))
    assert len(msgspec.msgpack.encode(history)) < 100_000


def test_the_busiest_hosts_are_kept() -> None:
    history = History().added(0, Slice(1), {f"quiet{n}": HostPast(1) for n in range(MOST_HOSTS)})
    history = history.added(1, Slice(1), {"busy": HostPast(50)})
    assert history.hosts["busy"].pages == 50
    assert len(history.hosts) == MOST_HOSTS


def test_a_hosts_latency_is_the_mean_of_its_requests() -> None:
    history = History().added(0, Slice(1), {"a": HostPast(3, 1, 4.0, "dns")})
    history = history.added(1, Slice(1), {"a": HostPast(4, 0, 1.0)})
    past = history.hosts["a"]
    assert (past.pages, past.failures, past.last_error) == (7, 1, "dns")
    assert past.latency == pytest.approx(5 / 8)
    assert HostPast().latency == 0.0


def test_points_show_where_nothing_happened() -> None:
    history = History()
    for at in (100.2, 101.9, 500.0):
        history = history.added(at, Slice(pages=4))
    assert [(point.at, point.rate) for point in history.points()] == [
        (100, 4.0),
        (101, 4.0),
        (102, 0.0),
        (499, 0.0),
        (500, 4.0),
    ]
    assert History().points() == []


def test_rates_hold_after_coarsening() -> None:
    history = History()
    for at in range(2 * MOST_SLICES):
        history = history.added(at, Slice(pages=6))
    assert history.interval == 2
    assert {point.rate for point in history.points()} == {6.0}


def test_the_last_minutes() -> None:
    history = History()
    for at in range(100):
        history = history.added(at, Slice(pages=1, errors={"dns": 1} if at >= 90 else {}))
    assert history.since(90) == Slice(pages=10, errors={"dns": 10})
    assert history.since(90).success == 0.5
    assert history.since(1_000).success is None
    assert history.kinds() == ["dns"]


@given(st.lists(st.floats(0.0005, 100), min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
def test_percentiles_are_near_those_of_the_tally(latencies: list[float], p: int) -> None:
    tally = Tally()
    for elapsed in latencies:
        tally.fetched("a", Response("http://a/", 200, {}, b"", elapsed))
    report = tally.report()
    here, there = Slice(latency=coarse(report.latency)).percentile(p), report.percentile(p)
    assert here is not None
    assert there is not None
    ratio = EDGES[1] / EDGES[0]
    assert 1 / ratio <= (here + 1e-9) / (there + 1e-9) <= ratio or max(here, there) <= EDGES[1]


def test_every_bucket_of_a_tally_has_its_place() -> None:
    for bucket, edge in enumerate(LATENCY_EDGES):
        ones = [0] * (len(LATENCY_EDGES) + 1)
        ones[bucket] = 1
        place = coarse(ones).index(1)
        assert edge <= EDGES[place]
        assert place == 0 or LATENCY_EDGES[max(bucket - 1, 0)] >= EDGES[place - 1]
    assert Slice().percentile(50) is None


# -- the recorder


@pytest.fixture
async def frontier() -> AsyncIterator[MemoryFrontier]:
    async with MemoryFrontier(ManualClock()) as frontier:
        await frontier.open_job(JobSpec("j"))
        yield frontier


class Bench:
    """A recorder with its tally, at a time that is set by hand."""

    def __init__(self, frontier: MemoryFrontier) -> None:
        self.time = 1000.0
        self.tally = Tally()
        self.recorder = HistoryRecorder(frontier, "j", self.tally, lambda: self.time)

    def page(self, host: str = "a", elapsed: float = 0.1, size: int = 100) -> None:
        self.tally.fetched(host, Response(f"http://{host}/", 200, {}, b"x" * size, elapsed))
        self.tally.handled(host)

    def failure(self, kind: str, host: str = "a", *, retry: bool = True) -> None:
        self.tally.failed(host, Failure(kind, elapsed=0.5), retry=retry)


async def opened(frontier: MemoryFrontier) -> Bench:
    bench = Bench(frontier)
    await bench.recorder.open()
    return bench


async def test_what_was_counted_is_written(frontier: MemoryFrontier) -> None:
    bench = await opened(frontier)
    bench.page()
    bench.failure("timeout")
    bench.failure("http_418", "b", retry=False)
    await bench.recorder.write_if_due()
    history = await read_history(frontier, "j")
    assert list(history.slices) == [999]  # the second that is over
    total = history.total()
    assert (total.pages, total.fetches, total.retries, total.dead, total.bytes) == (1, 3, 1, 1, 100)
    assert total.errors == {"timeout": 1, "http_4xx": 1}  # the row of the table, whatever status it was
    assert sum(total.latency) == 3
    assert {name: (past.pages, past.failures) for name, past in history.hosts.items()} == {
        "a": (1, 1),
        "b": (0, 1),
    }


async def test_every_second_has_its_slice_though_it_is_written_seldom(frontier: MemoryFrontier) -> None:
    bench = await opened(frontier)
    versions = set()
    for _ in range(10):
        bench.page()
        await bench.recorder.write_if_due()
        await bench.recorder.write_if_due()  # the engine asks far more often than it is time
        bench.time += 1
        note = await frontier.note(key_of("j"))
        versions.add(note.version if note else 0)
    await bench.recorder.write_if_due(everything=True)
    history = await read_history(frontier, "j")
    assert [one.pages for one in history.slices.values()] == [1] * 10
    assert history.hosts["a"].pages == 10
    assert len(versions) == 2


async def test_the_end_writes_all_there_is_and_nothing_twice(frontier: MemoryFrontier) -> None:
    bench = await opened(frontier)
    bench.page()
    await bench.recorder.write_if_due()
    bench.page()
    await bench.recorder.write_if_due(everything=True)
    await bench.recorder.write_if_due(everything=True)
    history = await read_history(frontier, "j")
    assert history.total().pages == history.hosts["a"].pages == 2


async def test_several_processes_make_one_history(frontier: MemoryFrontier) -> None:
    benches = [await opened(frontier) for _ in range(3)]
    for number, bench in enumerate(benches):
        for _ in range(number + 1):
            bench.page("shared")
        bench.page(f"own{number}")
        await bench.recorder.write_if_due()
    history = await read_history(frontier, "j")
    assert history.total().pages == 9
    assert {name: past.pages for name, past in history.hosts.items()} == {
        "shared": 6,
        "own0": 1,
        "own1": 1,
        "own2": 1,
    }


class Contested(MemoryFrontier):
    """Somebody else writes first, a few times."""

    losses = 0

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        if self.losses:
            self.losses -= 1
            return False
        return await super().set_note(key, value, version)


async def test_whoever_loses_the_race_writes_it_later() -> None:
    async with Contested() as frontier:
        await frontier.open_job(JobSpec("j"))
        bench = await opened(frontier)
        bench.page()
        frontier.losses = 5
        await bench.recorder.write_if_due()
        assert (await read_history(frontier, "j")).total().pages == 1
        bench.page()
        frontier.losses = 1000
        await bench.recorder.write_if_due(everything=True)
        frontier.losses = 0
        await bench.recorder.write_if_due(everything=True)
        history = await read_history(frontier, "j")
        assert history.total().pages == history.hosts["a"].pages == 2


async def test_a_broken_store_is_not_kept_quiet_and_loses_nothing() -> None:
    class Broken(MemoryFrontier):
        broken = True

        async def set_note(self, key: str, value: bytes, version: int) -> bool:
            if self.broken:
                raise StoreError("the store is away")
            return await super().set_note(key, value, version)

    async with Broken() as frontier:
        await frontier.open_job(JobSpec("j"))
        bench = await opened(frontier)
        bench.page()
        with pytest.raises(StoreError):
            await bench.recorder.write_if_due()
        frontier.broken = False
        await bench.recorder.write_if_due(everything=True)
        assert (await read_history(frontier, "j")).total().pages == 1


async def test_a_job_that_is_made_again_has_no_past() -> None:
    clock = ManualClock()
    async with MemoryFrontier(clock) as frontier:
        await frontier.open_job(JobSpec("j"))
        old = await opened(frontier)
        old.page()
        await old.recorder.write_if_due()
        await frontier.drop_job("j")
        assert await read_history(frontier, "j") == History()
        clock.advance(1)
        await frontier.open_job(JobSpec("j"))
        assert await read_history(frontier, "j") == History()
        old.page()
        await old.recorder.write_if_due(everything=True)  # the crew of the old one lets go late
        assert await read_history(frontier, "j") == History()
        new = await opened(frontier)
        new.page()
        await new.recorder.write_if_due()
        assert (await read_history(frontier, "j")).total().pages == 1


async def test_a_pruned_job_leaves_a_short_past_in_the_store(frontier: MemoryFrontier) -> None:
    bench = await opened(frontier)
    for _ in range(200):
        bench.page()
        await bench.recorder.write_if_due()
        bench.time += 7
    await bench.recorder.write_if_due(everything=True)
    await frontier.set_state("j", "finished")
    [job] = await frontier.jobs()
    long = await read_history(frontier, "j")
    assert await prune(frontier, [job]) == [job]
    assert await frontier.note(key_of("j")) is None
    past = await frontier.past_job("j")
    assert past is not None
    short = history_of_past(past)
    assert short.total() == long.total()
    assert len(short.slices) <= 12 < len(long.slices)
    assert len(past.summary) < 1_500


async def test_words_of_another_version_are_written_over(frontier: MemoryFrontier) -> None:
    await frontier.set_note(key_of("j"), b"\xc1 no msgpack", 0)
    assert await read_history(frontier, "j") == History()
    bench = await opened(frontier)
    bench.page()
    await bench.recorder.write_if_due()
    assert (await read_history(frontier, "j")).total().pages == 1


async def test_hosts_wait_for_their_turn_and_come_with_all_they_have(frontier: MemoryFrontier) -> None:
    bench = await opened(frontier)
    for number in range(MOST_HOSTS):
        for _ in range(5):
            bench.page(f"busy{number}")
    for _ in range(3):
        bench.page("late")
    await bench.recorder.write_if_due()
    assert "late" not in (await read_history(frontier, "j")).hosts
    for _ in range(4):
        bench.page("late")
    await bench.recorder.write_if_due(everything=True)
    assert (await read_history(frontier, "j")).hosts["late"].pages == 7


# -- of a job that runs for months


def test_a_job_of_months_keeps_its_last_day_in_fine_slices_and_stays_small() -> None:
    """A visit a minute for ninety days."""
    history, minute, days = History(), 60.0, 90
    visit = Slice(pages=1, visits=VisitTally(1, 1, waited=3600.0, late=36.0))
    for day in range(days):
        visits = {int((day * 1440 + n) * minute): visit for n in range(1440)}
        history = history.merged(History(slices=visits, hosts={"a": HostPast(pages=1440)}))
    total, now = days * 1440, days * 86_400.0
    assert history.total().visits == VisitTally(total, total, waited=total * 3600.0, late=total * 36.0)
    assert len(history.slices) <= MOST_SLICES
    assert len(history.fine) <= FINE_SLICES
    assert len(msgspec.msgpack.encode(history)) < 64_000
    assert history.since(now - 600).pages == pytest.approx(10, abs=5)
    points = history.finest_points()
    assert sum(point.slice.pages for point in points) == total, (
        "nothing is told twice, and nothing is missing"
    )
    assert [point.at for point in points] == sorted(point.at for point in points)
    assert points[-1].seconds == FINE_INTERVAL
    assert points[0].seconds == history.interval > 3600
    assert points[-1].at >= now - 2 * FINE_INTERVAL


def test_fine_slices_of_two_processes_are_merged() -> None:
    long = History(interval=1024.0, slices={0: Slice(pages=9)}, fine={0: Slice(pages=4), 3: Slice(pages=5)})
    young = History(slices={800: Slice(pages=1), 2000: Slice(pages=2)})
    found = long.merged(young)
    assert found.fine == {0: Slice(pages=4), 3: Slice(pages=6), 7: Slice(pages=2)}
    assert found.slices == {0: Slice(pages=10), 1: Slice(pages=2)}
    assert young.merged(long).fine == found.fine
    assert not young.merged(young).fine, "its own slices are fine enough"
