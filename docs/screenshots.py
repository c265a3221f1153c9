"""Makes the pictures of the dashboard: python docs/screenshots.py

A web of good, slow, failing and rate-limiting hosts runs on this machine (shoal.testing.web), a crawl goes through it,
and a Chromium looks at its dashboard. The hosts are given names that lead to loopback addresses in this process only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp.abc import ResolveResult
from playwright.async_api import Browser, Page, async_playwright

import shoal
from shoal import Spider
from shoal.cli.options import DEFAULT_STORE
from shoal.dashboard.server import Options, Served, dashboard
from shoal.fetch.browser.executable import find_chromium
from shoal.fetch.resolver import _ConnectorResolver
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess

PICTURES = Path(__file__).resolve().parent / "img"
WARM_UP = 70.0  # seconds: until the charts have something to show
LARGEST = 200_000  # bytes of a picture
BLOCKED = "news.example"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)

HOSTS = {
    "books.example": HostProfile(
        "lifelike", pages=900, latency=0.12, jitter=0.5, rate=40, failure_share=0.01
    ),
    "shop.example": HostProfile("lifelike", pages=900, latency=0.2, jitter=0.4, rate=40, failure_share=0.02),
    "library.example": HostProfile("slow", pages=700, latency=0.35),
    "market.example": HostProfile(
        "lifelike", pages=900, latency=0.08, jitter=0.6, rate=40, failure_share=0.01
    ),
    "museum.example": HostProfile("slow", pages=500, latency=0.9),
    "recipes.example": HostProfile(
        "lifelike", pages=800, latency=0.15, jitter=0.5, rate=40, failure_share=0.0
    ),
    "travel.example": HostProfile(
        "lifelike", pages=800, latency=0.25, jitter=0.5, rate=40, failure_share=0.03
    ),
    "weather.example": HostProfile("fast", pages=600),
    "maps.example": HostProfile("fast", pages=600, robots="User-agent: *\nCrawl-delay: 0.5\n"),
    "docs.example": HostProfile("fast", pages=400, private=9, robots="User-agent: *\nDisallow: /private/\n"),
    "api.example": HostProfile("limited", pages=300, rate=2.0, retry_after=4),
    "forum.example": HostProfile("flapping", pages=400, failure_share=0.3),
    "old-site.example": HostProfile("redirecting", pages=60),
    "media.example": HostProfile("huge", pages=60),
    "tickets.example": HostProfile("failing"),
    "archive.example": HostProfile("hanging"),
    "members.example": HostProfile("fast", robots=503),
    "gone.example": HostProfile("down"),
    BLOCKED: HostProfile("fast", pages=300),
}
SETTINGS: dict[str, Any] = {
    "rate": 4.0,
    "per_host": 4,
    "max_body": 1024 * 1024,
    "connect_timeout": 1.0,
    "read_timeout": 3.0,
    "total_timeout": 6.0,
    "max_attempts": 4,
    "max_redirects": 5,
    "retry_base": 0.5,
    "retry_cap": 4.0,
    "breaker_failures": 4,
    "breaker_cooldown": 240.0,
    "max_pages_per_host": 600,
    "allow_network": ["127.0.0.0/8"],
}


def spider_of(name: str, hosts: list[str]) -> Spider:
    spider = Spider(name, [f"http://{host}/p/0" for host in hosts], **SETTINGS)

    def listing(page: shoal.Page) -> Any:
        if page.url.endswith("/p/77"):
            raise ValueError("price: no number in 'on request'")
        yield {"url": page.url, "title": page.text("title")}
        yield from page.follow_all("a")

    spider.add_handler(listing)
    return spider


def lead_home(addresses: dict[str, str]) -> None:
    """Lets the names of HOSTS stand for the addresses of the web."""
    system = _ConnectorResolver.resolve

    async def resolve(
        self: _ConnectorResolver, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host not in addresses:
            return await system(self, host, port, family)
        address, _, number = addresses[host].rpartition(":")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=int(number),
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    _ConnectorResolver.resolve = resolve  # type: ignore[method-assign]


@asynccontextmanager
async def crawling() -> AsyncIterator[None]:
    """One job that has ended, and one that runs meanwhile."""
    with WebProcess(HOSTS) as web:
        lead_home(web.addresses)
        await shoal.crawl(
            spider_of("sampling", ["weather.example"]), store=DEFAULT_STORE, max_pages=40, rate=0
        )
        running = asyncio.create_task(shoal.crawl(spider_of("catalogue", list(HOSTS)), store=DEFAULT_STORE))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def log_in(browser: Browser, served: Served, theme: str, **options: Any) -> Page:
    page = await browser.new_page(color_scheme=theme, **options)
    await page.goto(served.login_url)
    await page.locator("#nav a").first.wait_for()
    return page


async def show(page: Page, place: str, content: str) -> None:
    await page.evaluate("place => { location.hash = '#/' + place }", place)
    await page.locator(content).first.wait_for()
    await page.wait_for_timeout(1500)  # charts and numbers have settled
    await page.mouse.move(0, 0)


async def take(page: Page, name: str) -> None:
    picture = await page.screenshot(path=PICTURES / f"dashboard-{name}.png")
    if len(picture) > LARGEST:
        raise SystemExit(f"dashboard-{name}.png has {len(picture):,} bytes, more than {LARGEST:,}")


async def block(page: Page) -> None:
    await show(page, f"hosts/{BLOCKED}", "dd")
    await page.get_by_role("button", name="block").first.click()
    await page.get_by_label("for", exact=True).select_option("600")
    await page.get_by_label("reason").fill("asked us to wait a moment")
    await page.get_by_role("dialog").get_by_role("button", name="block").click()


async def take_all(browser: Browser, served: Served, theme: str) -> None:
    page = await log_in(browser, served, theme, viewport=WIDE)
    for name, place, content in (
        ("overview", "overview", "tbody tr"),
        ("hosts", "hosts", "tbody tr"),
        ("dead", "dead", "tbody tr"),
        ("job", "jobs/catalogue", ".kinds tbody tr"),
    ):
        await show(page, place, content)
        await take(page, f"{name}-{theme}")
    await page.close()
    phone = await log_in(browser, served, theme, viewport=PHONE, device_scale_factor=2)
    await show(phone, "overview", "tbody tr")
    await take(phone, f"phone-{theme}")
    await phone.close()


async def main() -> None:
    path = find_chromium(Settings())
    if path is None:
        raise SystemExit("no Chromium found: apt install chromium")
    with tempfile.TemporaryDirectory(prefix="shoal-pictures-") as folder:
        os.chdir(folder)  # where nothing else is: the pictures name the store that is usual
        async with (
            crawling(),
            dashboard(Options(store=DEFAULT_STORE, port=0)) as served,
            async_playwright() as playwright,
            await playwright.chromium.launch(executable_path=path, args=list(FLAGS)) as browser,
        ):
            watching = await log_in(browser, served, "light")
            await asyncio.sleep(WARM_UP / 3)
            await block(watching)
            await asyncio.sleep(WARM_UP * 2 / 3)
            await watching.close()
            for theme in ("light", "dark"):
                await take_all(browser, served, theme)


if __name__ == "__main__":
    asyncio.run(main())
