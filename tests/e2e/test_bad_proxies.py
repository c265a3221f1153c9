"""Three hundred pages through eight proxies, most of them bad: all are obtained, and the bad are soon left alone.
And what is not a proxy's fault is not held against it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import shoal
from integration.raw_server import RawServer, page, serve
from shoal import Page, Request, Spider
from shoal.frontier import open_frontier
from shoal.hosts.host_state import state_of
from shoal.hosts.proxy_pools import StoredPools
from shoal.policy.proxy_state import ProxyState
from shoal.testing.proxy_server import Habit, ProxyServer

CERTS = Path(__file__).parent.parent / "integration" / "certs"
HOSTS, PAGES = 6, 300
HANDFUL = 10
# Who takes seconds to fail has failed too seldom when the others have done it all: then there is more to do.
CRAWLS = 5
BAD: list[list[Habit | str]] = [
    ["refusing", "silent", "gateway", "truncating", "resetting"],
    ["login", "closing", "unavailable", "dripping", "silent"],
]
QUICK: dict[str, Any] = {
    "rate": 0,
    "per_host": 4,
    "retry_base": 0.02,
    # Longer than a busy machine takes for an honest answer: else hosts fail, and are blamed.
    "connect_timeout": 3,
    "read_timeout": 3,
    "total_timeout": 6,
    "first_timeout": 4,
    "min_timeout": 4,
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "scored": {"pool_strategy": "scored"},
    "round_robin": {"pool_strategy": "round_robin"},
    "sessions": {"pool_strategy": "scored", "session_requests": 10},
}


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own certificates are trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))


async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
    missing = b"/robots.txt" in head.split(b"\r\n", 1)[0]
    writer.write(page(b"no", "404 Not Found") if missing else page(b"<p>text</p>" * 50))
    await writer.drain()


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    return context


class Trial:
    """Hosts, proxies, and what came of a crawl."""

    def __init__(self, stack: AsyncExitStack, store: Path) -> None:
        self._stack = stack
        self._store = store
        self._told: Callable[[], None] = lambda: None
        self.hosts: list[RawServer] = []
        self.proxies: dict[str, ProxyServer] = {}  # by what they are

    async def serve(self, count: int, scheme: str = "http", answer: Any = answer) -> None:
        for _ in range(count):
            server = serve(answer, tls=tls() if scheme == "https" else None)
            self.hosts.append(await self._stack.enter_async_context(server))

    async def proxy(self, habit: Habit | str, kind: Any = "http") -> ProxyServer:
        special: dict[str, Any] = {"login": {"user": "me", "password": "secret"}, "refusing": {}}
        given = special.get(habit) if habit in special else {"habit": habit}
        proxy = await self._stack.enter_async_context(ProxyServer(kind, **given))
        if habit == "login":
            proxy.password = "another"
        if habit == "refusing":
            await proxy.stop()
        self.proxies[f"{habit} {len(self.proxies)}"] = proxy
        return proxy

    def urls(self, pages: int) -> list[str]:
        return [self.hosts[n % len(self.hosts)].url(f"/p/{n}") for n in range(pages)]

    async def crawl(
        self, pages: int = PAGES, *, sessions: int = 0, job: str = "trial", **settings: Any
    ) -> shoal.Results:
        start = [
            Request(url, session=f"s{n % sessions}" if sessions else None)
            for n, url in enumerate(self.urls(pages))
        ]
        pool = [proxy.url for proxy in self.proxies.values()]
        spider = Spider("trial", start, **{**QUICK, "proxies": {"dc": pool}, "pool": "dc", **settings})

        @spider.handler
        def take(page: Page) -> Iterator[object]:
            self._told()
            yield {"url": page.url}

        async with asyncio.timeout(60):
            return await shoal.crawl(spider, store=str(self._store), job=job)

    def on_page(self, told: Callable[[], None]) -> None:
        self._told = told

    async def blamed(self) -> dict[str, object]:
        """Hosts, and what was held against them."""
        async with open_frontier(str(self._store)) as frontier:
            states = {record.name: state_of(record) async for record in frontier.hosts(None)}
        return {name: state.errors for name, state in states.items() if state.errors}

    async def states(self) -> dict[str, ProxyState]:
        async with open_frontier(str(self._store)) as frontier:
            pools = await StoredPools(frontier).read_all()
        found = pools["dc"].proxies if pools else {}
        return {name: found.get(f"dc/{proxy.address}", ProxyState()) for name, proxy in self.proxies.items()}


@pytest.fixture
async def trial(tmp_path: Path) -> Any:
    async with AsyncExitStack() as stack:
        yield Trial(stack, tmp_path / "a.db")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("strategy", "bad"), [(name, BAD[n % 2]) for n, name in enumerate(STRATEGIES)], ids=[*STRATEGIES]
)
async def test_five_of_eight_are_bad(
    trial: Trial, scheme: str, strategy: str, bad: list[Habit | str]
) -> None:
    await trial.serve(HOSTS, scheme)
    for habit in (*bad[:3], "good", *bad[3:], "good", "good"):
        await trial.proxy(habit)
    sessions = 12 if strategy == "sessions" else 0
    held: set[str] = set()
    for n in range(CRAWLS):
        results = await trial.crawl(sessions=sessions, job=f"trial {n}", **STRATEGIES[strategy])
        states = await trial.states()
        asked = {name: state.requests for name, state in states.items()}
        counters = results.view.job.counters
        assert (counters.done, counters.dead) == (PAGES, 0), asked
        assert Counter(row["url"] for row in results) == Counter(trial.urls(PAGES))
        assert {name: n for name, n in asked.items() if not name.startswith("good") and n > HANDFUL} == {}
        assert not await trial.blamed()
        held = {name for name, state in states.items() if state.hold.strikes}
        if len(held) >= len(bad):
            break
    assert held == {name for name in states if not name.startswith("good")}


async def test_a_restart_knows_who_is_bad(trial: Trial) -> None:
    await trial.serve(2)
    bad = [await trial.proxy(habit) for habit in ("silent", "truncating", "gateway")]
    for _ in range(2):
        await trial.proxy("good")
    held: list[bool] = []
    for n in range(CRAWLS):
        await trial.crawl(120, job=f"first {n}", pool_strategy="round_robin")
        held = [bool(state.hold.strikes) for state in (await trial.states()).values()]
        if all(held[:3]):
            break
    assert held == [True] * 3 + [False] * 2
    connections = [proxy.connections for proxy in bad]
    results = await trial.crawl(60, job="again")
    assert results.view.job.counters.done == 60
    assert [proxy.connections for proxy in bad] == connections, "they are in quarantine, for 30 s"


async def test_they_come_back(trial: Trial) -> None:
    await trial.serve(2)
    proxy = await trial.proxy("gateway")
    await trial.proxy("good")
    await trial.crawl(60, pool_cooldown=0.2)
    hold = (await trial.states())["gateway 0"].hold
    assert hold.strikes
    proxy.habit = "good"
    before = len(proxy.passed)
    await asyncio.sleep(max(0.0, hold.until - time.time()) + 0.1)  # its cooldown has doubled a few times
    await trial.crawl(60, job="again", pool_cooldown=0.2, pool_strategy="round_robin")
    assert not (await trial.states())["gateway 0"].hold.strikes
    assert len(proxy.passed) - before > 20


@pytest.mark.parametrize("count", [1, 3])
async def test_a_good_proxy_before_a_bad_site(trial: Trial, count: int) -> None:
    """One site fails every other request in one of three ways, another is well."""
    turn = 0

    async def flaky(head: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal turn
        turn += 1
        if b"/robots.txt" in head.split(b"\r\n", 1)[0] or turn % 2:
            await answer(head, writer)
        elif turn % 3 == 0:
            writer.write(page(b"sorry", "503 Service Unavailable"))
        elif turn % 3 == 1:
            writer.write(page(b"x" * 100)[:-50])
            writer.close()
        else:
            writer.close()

    await trial.serve(1, answer=flaky)
    await trial.serve(1)
    for _ in range(count):
        await trial.proxy("good")
    results = await trial.crawl(50, breaker_rate=2, breaker_failures=100, retry_budget=5, max_attempts=20)
    assert results.view.job.counters.done == 50
    assert not any(state.hold.strikes for state in (await trial.states()).values())


async def test_a_site_that_bans_one_proxy_after_the_other(trial: Trial) -> None:
    """By closing their connections: all pages come, through whoever is left."""
    await trial.serve(1)
    site = f"127.0.0.1:{trial.hosts[0].port}"
    good = [await trial.proxy("good") for _ in range(4)]
    served = 0

    @trial.on_page
    def count() -> None:
        nonlocal served
        served += 1
        if served % 20 == 0 and served <= 60:
            good[served // 20 - 1].unreachable = {site}

    results = await trial.crawl(120)
    assert results.view.job.counters.done == 120
    states = await trial.states()
    *banned, last = [
        bool(state.hosts.get(site) and state.hosts[site].hold.strikes) for state in states.values()
    ]
    # By chance one may be asked too seldom for a judgement, as the others are better.
    assert all(held or len(proxy.failed) < 8 for held, proxy in zip(banned, good, strict=False)), banned
    assert not last
    assert max(len(proxy.failed) for proxy in good) <= HANDFUL


async def test_a_proxy_that_fails_at_one_host(trial: Trial) -> None:
    await trial.serve(3)
    odd = await trial.proxy("good")
    odd.unreachable = {f"127.0.0.1:{trial.hosts[0].port}"}
    for _ in range(2):
        await trial.proxy("good")
    results = await trial.crawl(150, pool_strategy="round_robin")
    assert results.view.job.counters.done == 150
    state = (await trial.states())["good 0"]
    assert not state.hold.strikes
    assert len(odd.failed) <= HANDFUL
    assert len(odd.passed) > 25, "it serves the other hosts"


async def test_when_all_are_bad_the_pages_wait_and_no_host_is_blamed(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    await trial.serve(4)
    bad = [await trial.proxy(habit) for habit in ("gateway", "truncating", "resetting", "closing")]
    crawling = asyncio.create_task(trial.crawl(40, pool_cooldown=0.3, max_attempts=2))
    async with asyncio.timeout(30):
        while "; pages wait" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert not crawling.done()
    for proxy in bad:
        proxy.habit = "good"
    results = await crawling
    assert (results.view.job.counters.done, results.view.job.counters.dead) == (40, 0)
    assert not await trial.blamed()
