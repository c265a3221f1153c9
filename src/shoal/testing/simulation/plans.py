"""What is crawled in a world, and with which settings: drawn by the seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

from shoal.model.request import Request
from shoal.runtime.job_plan import JobPlan
from shoal.settings import Settings
from shoal.spider.inner import FetchFailed
from shoal.spider.page import Page
from shoal.spider.spider import Spider
from shoal.testing.simulation.generated_web import Web

JOB = "crawl"

# Numbers that let a world end soon in virtual time, and no obtainable page run out of attempts.
_SWIFT = Settings(
    any_host=True,
    connect_timeout=5.0,
    read_timeout=8.0,
    total_timeout=10.0,
    first_timeout=8.0,
    max_attempts=60,
    retry_base=0.5,
    retry_cap=8.0,
    retry_after_cap=30.0,
    max_crawl_delay=2.0,
    breaker_cooldown=8.0,  # so that no host is given up before its outage is over
    breaker_cooldown_cap=20.0,
    retry_budget=1000.0,
    retry_budget_floor=1000,
)


_STANDING = 17  # in every so many worlds, pages change and are visited again


def is_standing(seed: int) -> bool:
    return seed % _STANDING == 9


def plan_of(seed: int, web: Web, *, failing: bool, fleet: bool = False) -> JobPlan:
    rng = random.Random(f"plan {seed}")
    changes: dict[str, object] = {
        "concurrency": rng.choice((2, 8, 16)),
        "per_host": _per_host(seed, rng.choice((1, 2, 3))),
        "rate": rng.choice((0.0, 2.0, 5.0, 20.0)),
        "burst": rng.choice((1, 1, 3)),
        "robots": rng.random() < 0.85,
        "high_water": rng.choice((3, 20, 20_000)),
        "lease": rng.choice((5.0, 10.0)),
        "grace": rng.choice((0.5, 5.0)),
        "backpressure": _SWIFT.backpressure if rng.random() < 0.4 else [],
    }
    domain = random.Random(f"domain {seed}")
    changes |= {
        "domain_rate": domain.choice((None, 0.0, 1.0, 10.0)),
        "per_domain": domain.choice((None, 0, 1, 3)),
    }
    if failing:
        changes |= {"max_attempts": 5, "retry_budget": 0.3, "retry_budget_floor": 5}
    settings = Settings(**{name: getattr(_SWIFT, name) for name in Settings.__struct_fields__} | changes)
    inner = not failing and random.Random(f"inner {seed}").random() < 0.4
    spider = _spider(
        web,
        slow_start=rng.random() < 0.5,
        keyed=web.changes or (fleet and rng.random() < 0.5),
        inner="37" if inner and not web.changes else "",
        revisit=domain.choice(("8s", "15s", "auto 5s-30s")) if web.changes else "",
    )
    return JobPlan(spider, settings, JOB, fed_by="coordinator" if fleet else "crawl")


def _per_host(seed: int, number: int) -> int | str:
    """Every third plan has "auto", and is otherwise what it would be with a number."""
    return "auto" if random.Random(f"auto {seed}").random() < 1 / 3 else number


def _spider(web: Web, *, slow_start: bool, keyed: bool, inner: str, revisit: str) -> Spider:
    """`inner`: the last digits of pages that are fetched once more, inside their handler. `revisit`: when pages are
    visited again."""

    async def starts() -> AsyncIterator[str]:
        for url in web.starts:
            await asyncio.sleep(0.15)
            yield url

    spider = Spider("simulated", start=starts if slow_start else web.starts)
    key = "url" if keyed else None

    @spider.handler(key=key, item="page", revisit=revisit)
    def plain(page: Page) -> Iterator[object]:
        yield from _yielded(page)

    @spider.handler(lane="discovery", key=key, item="page", revisit=revisit)
    async def waiting(page: Page) -> AsyncIterator[object]:
        await asyncio.sleep(0.02)
        if page.url.endswith(tuple(inner)):
            with suppress(FetchFailed):
                await page.fetch(page.url)
        for value in _yielded(page):
            yield value

    return spider


def _yielded(page: Page) -> Iterator[dict[str, object] | Request]:
    if "/boom/" in page.url:
        raise ValueError("this page is too much for its handler")
    version = page.css("b")
    yield {"url": page.url, "version": int(version[0].text())} if version else {"url": page.url}
    for link in page.css("a"):
        url = link.attributes["href"] or ""
        yield page.follow(url, "waiting" if url[-1] in "13579" else "plain")
