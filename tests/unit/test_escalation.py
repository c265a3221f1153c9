"""Which pages go to the browser, by what was seen of pages like them: learnt, sampled, given back; in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, HostRecord, JobSpec
from shoal.hosts.cache import HostCache
from shoal.hosts.host_state import HostState, encode_state, state_of
from shoal.policy.compose import first_valve
from shoal.policy.escalation import (
    PATTERNS,
    Gave,
    Look,
    Pattern,
    Patterns,
    is_sampled,
    needs_browser,
    observe,
    pattern_of,
    sentence,
)
from shoal.policy.protocol import Observation
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

START = 1_750_000_000.0
APP = "/app/*"

# -- patterns of URLs


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("", "/"),
        ("/", "/"),
        ("/about", "/about"),
        ("/about.html", "/about.html"),
        ("/p/17", "/p/*"),
        ("/p/17/", "/p/*/"),
        ("/shop/red-shoes", "/shop/*"),
        ("/shop/item-17?size=3", "/shop/*?size"),
        ("/shop/2024/05/x.html", "/shop/*/*/*.html"),
        ("/red-shoes-for-men", "/*"),
        ("/4711.html", "/*.html"),
        ("/averyveryverylongnameindeed/x", "/*/*"),
        ("/list?page=3&sort=up&page=4", "/list?page&sort"),
        ("/list?k1=1&k2=2", "/list?*"),
        ("/a/b/c/d/e/f/g/h/i", "/a/b/c/d/e/f/**/*"),
        ("//x//y", "/x/*"),
    ],
)
def test_what_urls_have_in_common(path: str, pattern: str) -> None:
    assert pattern_of(f"https://shop.example{path}") == pattern


@given(st.text(max_size=300))
def test_every_url_has_a_short_pattern(text: str) -> None:
    pattern = pattern_of(f"https://shop.example/{text}")
    assert pattern.startswith("/")
    assert len(pattern) <= 400


# -- what holds always

looks = st.builds(Look, st.sampled_from([APP, "/p/*", "/"]), st.sampled_from(get_args(Gave)))
times = st.floats(0, 30_000)


@given(st.lists(st.tuples(looks, times), max_size=120))
def test_whatever_is_seen_in_whatever_order(seen: list[tuple[Look, float]]) -> None:
    patterns: Patterns = {}
    for look, after in seen:
        patterns = observe(patterns, look, START + after)
        assert all(0 < pattern.useless <= pattern.looks < 40.1 for pattern in patterns.values())
        assert all(
            pattern.looks >= 4.5 or not pattern.browser for pattern in patterns.values() if not pattern.at
        )
    state = HostState(patterns=patterns)
    assert state_of(HostRecord("a.test", first_valve(Settings()), encode_state(state))) == state


@given(st.lists(st.sampled_from(["page", "shell", "wall"]), max_size=60))
def test_to_the_browser_goes_only_what_is_nearly_always_of_no_use(gave: list[Gave]) -> None:
    patterns: Patterns = {}
    counted: list[Gave] = []
    for each in gave:
        patterns = observe(patterns, Look(APP, each), START)
        counted = [*counted, each] if APP in patterns else []
        if needs_browser(patterns, APP, START):
            assert len(counted) >= 5
            assert sum(one != "page" for one in counted[-40:]) >= 0.88 * len(counted[-40:])


def test_a_host_without_shells_and_walls_costs_nothing() -> None:
    patterns: Patterns = {}
    assert observe(patterns, Look(APP, "page"), START) is patterns
    assert encode_state(HostState(patterns=patterns)) == encode_state(HostState())


def test_there_are_only_so_many_patterns_and_the_least_used_goes() -> None:
    patterns = learnt()
    for n in range(1_000):
        patterns = observe(patterns, Look(f"/{n}", "shell"), START + n)
        assert len(patterns) <= PATTERNS
    assert needs_browser(patterns, APP, START + 1_000)
    assert len(encode_state(HostState(patterns=patterns))) < 6_000


# -- learning


def learnt(count: int = 5, gave: Gave = "shell") -> Patterns:
    patterns: Patterns = {}
    for n in range(count):
        patterns = observe(patterns, Look(APP, gave), START + n)
    return patterns


@pytest.mark.parametrize("gave", ["shell", "wall"])
def test_five_of_five_are_enough(gave: Gave) -> None:
    assert not needs_browser(learnt(4, gave), APP, START)
    assert needs_browser(learnt(5, gave), APP, START + 5)
    assert not needs_browser(learnt(5, gave), "/p/*", START + 5)


def test_a_page_among_five_is_one_too_many() -> None:
    patterns = observe(learnt(4), Look(APP, "page"), START)
    assert not needs_browser(observe(patterns, Look(APP, "shell"), START), APP, START)


def test_old_evidence_fades() -> None:
    patterns = learnt(40)
    assert needs_browser(patterns, APP, START + 4 * 3600)
    assert not needs_browser(patterns, APP, START + 24 * 3600)


def test_the_sentence() -> None:
    assert sentence(APP, Pattern(shells=12.0)) == (
        "/app/* goes to the browser lane: 12 of 12 plain answers were empty shells"
    )
    assert sentence(APP, Pattern(pages=0.9, shells=9.2, walls=2.1)) == (
        "/app/* goes to the browser lane: 11 of 12 plain answers were empty shells or challenges"
    )
    assert sentence(APP, Pattern(walls=5.0)).endswith("5 of 5 plain answers were challenges")


# -- stories


class Story:
    """A pattern whose tasks come one after the other; those that are shells are filled by a browser."""

    def __init__(self, seed: int, shells: Callable[[int], float], every: float = 0.5) -> None:
        self._rng = random.Random(seed)
        self._shells = shells  # how likely the n-th task is a shell
        self._every = every  # seconds between tasks
        self.patterns: Patterns = {}
        self.needless: list[int] = []  # tasks that a browser opened though they are pages
        self.wasted: list[int] = []  # plain fetches that were shells
        self.plain: list[int] = []
        self.now = START

    def run(self, tasks: int) -> Story:
        for n in range(tasks):
            self.now += self._every
            is_shell = self._rng.random() < self._shells(n)
            browser = needs_browser(self.patterns, APP, self.now)
            if browser and not is_sampled(self.patterns, APP, self.now, self._rng):
                self.needless += [] if is_shell else [n]
                continue
            self.plain.append(n)
            self.wasted += [n] if is_shell else []
            self.patterns = observe(self.patterns, Look(APP, "shell" if is_shell else "page"), self.now)
        return self


SEEDS = range(100)


def test_shells_are_learnt_and_then_only_sampled() -> None:
    for seed in SEEDS:
        story = Story(seed, lambda n: 1.0).run(1_000)
        assert story.plain[:5] == [0, 1, 2, 3, 4]
        assert 30 <= len(story.plain) <= 110, "about 1 in 20, and more while little is known"


@pytest.mark.parametrize(("share", "most"), [(0.33, 0.01), (0.5, 0.02), (0.8, 0.05), (0.97, 0.05)])
def test_of_a_mixed_pattern_hardly_a_page_is_opened_in_vain(share: float, most: float) -> None:
    stories = [Story(seed, lambda n: share).run(500) for seed in SEEDS]
    assert sum(len(story.needless) for story in stories) <= most * 500 * len(stories)
    assert sum(len(story.needless) > 50 for story in stories) <= 8, "by bad luck"


def test_a_pattern_that_needs_no_browser_any_more_is_given_back() -> None:
    took = []
    for seed in SEEDS:
        story = Story(seed, lambda n: 1.0 if n < 300 else 0.0).run(700)
        assert not needs_browser(story.patterns, APP, story.now)
        took.append(len(story.needless))
        assert story.plain[-200:] == list(range(500, 700)), "for good"
    assert sum(took) / len(took) < 80, "three samples of 1 in 20 take about sixty tasks"


def test_and_taken_again_if_it_was_a_mistake() -> None:
    """An hour of pages in between: an outage of the site's own scripts, say."""
    story = Story(0, lambda n: 0.0 if 300 <= n < 600 else 1.0).run(1_000)
    assert needs_browser(story.patterns, APP, story.now)


def test_one_page_among_shells_does_not_give_it_back() -> None:
    patterns = observe(learnt(30), Look(APP, "page"), START + 30)
    assert needs_browser(patterns, APP, START + 30)


def test_a_slow_host_is_sampled_too() -> None:
    """A task every ten seconds: 1 in 20 would be one in more than three minutes."""
    story = Story(0, lambda n: 1.0, every=10.0).run(1_000)
    late = [n for n in story.plain if n > 200]
    assert 80 <= len(late) <= 180
    assert max(later - earlier for earlier, later in pairwise(late)) <= 40


# -- shared by all processes


class Contested(MemoryFrontier):
    """Before each of the next updates, somebody else is quicker."""

    rivals: list[HostCache]

    async def update_host(self, record: HostRecord) -> bool:
        if self.rivals:
            await self.rivals.pop().write_back(everything=True)
        return await super().update_host(record)


class World:
    def __init__(self) -> None:
        self.settings = Settings(rate=0)
        self.clock = ManualClock()
        self.frontier_clock = FrontierClock(self.clock)
        self.frontier = Contested(self.clock)
        self.frontier.rivals = []

    async def cache(self) -> HostCache:
        cache = HostCache(self.frontier, self.settings, self.frontier_clock)
        await self.frontier.open_job(JobSpec("job", valve=first_valve(self.settings)))
        await self.frontier.add("job", [make_task("http://a.test/", parent=1)])
        claimed = await self.frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))
        for lease in claimed.leases:
            self.lease = lease
        await cache.view(self.lease)
        return cache

    async def state(self) -> HostState:
        record = await self.frontier.host("a.test")
        assert record is not None
        return state_of(record)


def see(world: World, cache: HostCache, gave: Gave, count: int) -> None:
    for _ in range(count):
        now = world.frontier_clock.now()
        seen = Observation(now, now, "ok", look=Look(APP, gave))
        cache.record("a.test", seen)


async def test_what_two_processes_saw_at_once_is_counted_together() -> None:
    world = World()
    one, other = await world.cache(), await world.cache()
    see(world, one, "shell", 3)
    see(world, other, "wall", 3)
    world.frontier.rivals = [other]
    await one.write_back(everything=True)
    pattern = (await world.state()).patterns[APP]
    assert (round(pattern.shells), round(pattern.walls)) == (3, 3)
    assert needs_browser(await patterns_of(world), APP, world.frontier_clock.now())
    assert needs_browser(one.patterns("a.test"), APP, world.frontier_clock.now())


async def test_what_is_learnt_is_written_with_the_next_beat(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    cache = await world.cache()
    caplog.set_level("INFO", "shoal")
    see(world, cache, "shell", 4)
    await cache.flush()
    assert not (await world.state()).patterns, "it can wait"
    see(world, cache, "shell", 1)
    await cache.flush()
    assert (await world.state()).patterns[APP].browser
    see(world, cache, "page", 1)
    await cache.flush()
    assert not (await world.state()).patterns[APP].browser
    assert [record.message for record in caplog.records] == [
        "pages of a.test like /app/* go to the browser: 5 of 5 plain answers were empty shells",
        "pages of a.test like /app/* are fetched without a browser again",
    ]


async def test_what_is_seen_while_it_is_written_is_not_lost() -> None:
    world = World()
    cache = await world.cache()
    see(world, cache, "shell", 3)

    class Meanwhile:
        async def write_back(self, *, everything: bool) -> None:
            see(world, cache, "shell", 2)

    world.frontier.rivals = [Meanwhile()]  # type: ignore[list-item]
    await cache.write_back(everything=True)
    assert round(cache.patterns("a.test")[APP].shells) == 5
    await cache.flush()
    await cache.write_back(everything=True)
    assert round((await world.state()).patterns[APP].shells) == 5


async def patterns_of(world: World) -> Patterns:
    return (await world.state()).patterns


def test_the_state_of_an_older_version_is_read() -> None:
    old = msgspec.msgpack.encode({"start": True})
    assert state_of(HostRecord("a.test", first_valve(Settings()), old)) == HostState(start=True)
