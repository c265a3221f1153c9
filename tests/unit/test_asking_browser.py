"""Asking for pages that need a browser: sent there by what they are, or by what pages like them were."""

from __future__ import annotations

import random

import pytest

from pages import Pages
from shoal.engine.escalation import Escalation
from shoal.fetch.transport import FetchRequest
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.hosts.cache import HostCache
from shoal.model import Failure, Lease, Outcome, Response, Retry, Settlement, Task
from shoal.policy.compose import first_valve
from shoal.policy.escalation import Look
from shoal.policy.outcomes import this_life
from shoal.policy.protocol import Observation
from shoal.settings import Settings
from shoal.spider.rendering import Rendered
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

URL = "http://a.test"
HTML = {"Content-Type": "text/html"}
PAGE = b"<h1>Shoes</h1><p>" + b"They are red. " * 60
SHELL = b'<div id="root"></div><script src="/app.js"></script>'
WALL = b"<p>verify you are human"


class Site:
    """Pages below /app are shells without a browser; what is in `stays_empty` is so with one, too."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.plain = False
        self.walled = False
        self.stays_empty = False

    async def fetch(self, request: FetchRequest) -> Outcome:
        rendered = request.rendering is not None
        self.asked.append((request.url.removeprefix(URL), rendered))
        if self.walled and not rendered:
            return Response(request.url, 403, HTML, WALL)
        empty = "/app/" in request.url and not self.plain and (not rendered or self.stays_empty)
        answer = Rendered if rendered else Response
        return answer(request.url, 200, HTML, SHELL if empty else PAGE)

    async def close(self) -> None:
        pass


class Dice(random.Random):
    """Of what may be sampled, `value` < 0.05 is."""

    value = 0.99

    def random(self) -> float:
        return self.value


class World:
    def __init__(self, *, browser: bool = True, **settings: object) -> None:
        self.settings = Settings(**{"rate": 0, "robots": False, "per_host": 100, **settings})  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.frontier_clock = FrontierClock(self.clock)
        self.frontier = MemoryFrontier(self.clock)
        self.site = Site()
        self.dice = Dice(0)
        self.hosts = HostCache(self.frontier, self.settings, self.frontier_clock)
        self.pages = Pages(
            self.settings,
            self.frontier,
            self.hosts,
            self.site,
            self.frontier_clock,
            rng=self.dice,
            browser=browser,
        )
        self.escalation = Escalation(self.hosts, self.frontier_clock, self.dice, on=True)

    async def lease(self, *tasks: Task, lane: str = "normal") -> Lease:
        await self.frontier.open_job(JobSpec("job", valve=first_valve(self.settings)))
        await self.frontier.add("job", tasks)
        return await self.claim(lane)

    async def claim(self, lane: str) -> Lease:
        claimed = await self.frontier.claim(Claim("w", ["job"], {lane: 1}, 1))
        self.frontier_clock.sync(claimed.now)
        [lease] = claimed.leases
        return lease

    async def ask(self, lease: Lease) -> Response | Settlement | None:
        answer = await self.pages.ask(lease)
        if isinstance(answer, Settlement):
            await self.frontier.settle([Settlement(lease, answer.verdict)])
        return answer

    async def page(self, path: str, **fields: object) -> Response | Settlement | None:
        task = make_task(URL + path, parent=1, **fields)  # type: ignore[arg-type]
        return await self.ask(await self.lease(task, lane=task.lane))

    async def knows(self, pattern: str = "/app/*") -> None:
        """What five fetches taught."""
        await self.page("/first")
        for _ in range(5):
            at = self.frontier_clock.now()
            self.hosts.record("a.test", Observation(at, at, "empty_shell", look=Look(pattern, "shell")))
        self.site.asked.clear()

    def forget(self) -> None:
        for _ in range(5):
            at = self.frontier_clock.now()
            self.hosts.record("a.test", Observation(at, at, "ok", look=Look("/app/*", "page")))


def retry(answer: Response | Settlement | None) -> Retry:
    assert isinstance(answer, Settlement)
    assert isinstance(answer.verdict, Retry)
    return answer.verdict


# -- by what a page is


async def test_a_shell_goes_to_the_browser_at_once() -> None:
    world = World()
    verdict = retry(await world.page("/app/1"))
    assert (verdict.lane, verdict.failure.kind, verdict.after, verdict.counts) == (
        "browser",
        "empty_shell",
        0.0,
        True,
    )
    lease = await world.claim("browser")
    answer = await world.ask(lease)
    assert isinstance(answer, Rendered)
    assert world.site.asked == [("/app/1", False), ("/app/1", True)]


@pytest.mark.parametrize("settings", [{"browser": False}, {"escalate": False}])
async def test_without_a_browser_it_is_for_the_handler(settings: dict[str, bool]) -> None:
    world = World(**settings)  # type: ignore[arg-type]
    for n in range(8):
        assert isinstance(await world.page(f"/app/{n}"), Response)
    assert not world.hosts.patterns("a.test")


async def test_a_challenge_goes_there_after_a_slow_retry() -> None:
    world = World()
    world.site.walled = True
    verdict = retry(await world.page("/app/1"))
    assert (verdict.lane, verdict.failure.kind) == (None, "challenge")
    world.clock.advance(100)
    verdict = retry(await world.ask(await world.claim("normal")))
    assert (verdict.lane, verdict.failure.kind) == ("browser", "challenge")


async def test_routes_of_ones_own_are_kept() -> None:
    world = World(challenge_routes=["pool:residential"], proxies={"residential": ["one:1"]})
    assert isinstance(await world.page("/app/1"), Response)
    world = World(challenge_routes=["lane:browser"], browser=False)
    assert retry(await world.page("/app/1")).lane == "browser"


async def test_a_shell_in_the_browser_is_for_the_handler() -> None:
    world = World()
    world.site.stays_empty = True
    retry(await world.page("/app/1"))
    assert isinstance(await world.ask(await world.claim("browser")), Rendered)
    assert isinstance(await world.page("/app/2", lane="browser"), Rendered), "it was never looked at without"


async def test_shells_do_not_use_up_the_budget_for_retries() -> None:
    world = World(retry_budget=0.0, retry_budget_floor=1)
    for n in range(4):
        assert retry(await world.page(f"/app{n}/app/1")).lane == "browser"


# -- by what pages like it were


async def test_after_a_few_shells_the_like_are_no_longer_asked_for() -> None:
    world = World()
    for n in range(5):
        assert retry(await world.page(f"/app/{n}")).failure.kind == "empty_shell"
    verdict = retry(await world.page("/app/5"))
    assert (verdict.lane, verdict.after, verdict.counts) == ("browser", 0.0, False)
    assert verdict.failure.kind == "needs_browser"
    assert verdict.failure.detail == (
        "/app/* goes to the browser lane: 5 of 5 plain answers were empty shells"
    )
    assert len(world.site.asked) == 5
    assert isinstance(await world.page("/shop/5"), Response)


async def test_challenges_teach_the_same() -> None:
    world = World()
    world.site.walled = True
    for n in range(5):
        assert retry(await world.page(f"/app/{n}")).failure.kind == "challenge"
    assert retry(await world.page("/app/5")).failure.kind == "needs_browser"


async def test_it_is_opened_in_the_browser_with_all_its_attempts() -> None:
    world = World()
    await world.knows()
    retry(await world.page("/app/1"))
    lease = await world.claim("browser")
    assert (lease.task.attempt, lease.task.lane) == (1, "browser")
    assert isinstance(await world.ask(lease), Rendered)
    assert world.site.asked == [("/app/1", True)]


async def test_found_tasks_are_put_there_right_away() -> None:
    world = World()
    await world.knows()
    task = world.escalation.placed(make_task(f"{URL}/app/1", parent=1), world.clock.time())
    assert (task.lane, [failure.kind for failure in task.history]) == ("browser", ["needs_browser"])
    lease = await world.lease(task, lane="browser")
    assert isinstance(await world.ask(lease), Rendered)
    for other in (make_task(f"{URL}/shop/1"), make_task("http://b.test/app/1")):
        assert world.escalation.placed(other, world.clock.time()) is other


async def test_samples_are_fetched_without_a_browser_wherever_they_are() -> None:
    world = World()
    await world.knows()
    world.dice.value = 0.01
    placed = world.escalation.placed(make_task(f"{URL}/app/1", parent=1), world.clock.time())
    verdict = retry(await world.ask(await world.lease(placed, lane="browser")))
    assert (verdict.failure.kind, verdict.lane) == ("empty_shell", "browser")
    assert retry(await world.page("/app/2")).failure.kind == "empty_shell"
    assert world.site.asked == [("/app/1", False), ("/app/2", False)]
    assert world.hosts.patterns("a.test")["/app/*"].shells > 6.5, "they taught something"
    for _ in range(2):  # now that they were looked at themselves, there is no further sample
        assert isinstance(await world.ask(await world.claim("browser")), Rendered)


async def test_a_sample_that_is_a_page_is_as_good_as_any() -> None:
    world = World()
    await world.knows()
    world.dice.value, world.site.plain = 0.01, True
    answer = await world.page("/app/1")
    assert isinstance(answer, Response)
    assert not isinstance(answer, Rendered)


async def test_what_waits_when_the_pattern_is_given_back_is_fetched_plainly() -> None:
    world = World()
    await world.knows()
    retry(await world.page("/app/1"))
    world.forget()
    answer = await world.ask(await world.claim("browser"))
    assert not isinstance(answer, Rendered)
    assert world.site.asked == [("/app/1", False)]


async def test_whoever_asks_for_the_browser_gets_it() -> None:
    world = World()
    await world.knows()
    world.dice.value = 0.01
    assert isinstance(await world.page("/app/1", lane="browser"), Rendered)
    assert isinstance(await world.page("/shop/1", lane="browser"), Rendered)
    assert world.hosts.patterns("a.test")["/app/*"].pages == 0, (
        "what a browser shows says nothing of plain fetches"
    )


async def test_what_a_browser_cannot_send_is_sent_without() -> None:
    world = World()
    await world.knows()
    task = make_task(f"{URL}/app/1", parent=1, method="POST", body=b"x")
    assert world.escalation.placed(task, world.clock.time()) is task
    await world.ask(await world.lease(task))
    assert world.site.asked == [("/app/1", False)]


async def test_a_last_attempt_is_not_buried_for_it() -> None:
    world = World()
    await world.knows()
    moved = await world.page("/app/1", max_attempts=1)
    assert isinstance(moved, Settlement)
    assert isinstance(moved.verdict, Retry)
    assert (moved.verdict.lane, moved.verdict.counts) == ("browser", False)
    assert world.site.asked == []


def test_being_sent_there_does_not_hide_what_was_met_before() -> None:
    history = (Failure("challenge", attempt=1), Failure("needs_browser"))
    task = Task(f"{URL}/app/1", attempt=2, history=history)
    assert [failure.kind for failure in this_life(task)] == ["challenge"]
