"""A sitemap that is read again says that a page has changed: it is visited before its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

from aiohttp import web

import shoal
from shoal import Page, Sitemap, Spider
from shoal.testing.changing_site import later

HOUR = 3600.0


class Shop:
    """Three pages and their sitemap."""

    def __init__(self) -> None:
        self.changed = {"/a": 0.0, "/b": 0.0, "/c": 0.0}
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if request.path != "/sitemap.xml":
            return web.Response(text=f"<h1>{request.path}</h1>", content_type="text/html")
        entries = "".join(
            f"<url><loc>http://{request.host}{path}</loc><lastmod>{_iso(at)}</lastmod></url>"
            for path, at in self.changed.items()
        )
        text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
        return web.Response(text=text, content_type="application/xml")

    def take(self) -> list[str]:
        taken, self.asked = sorted(self.asked), []
        return taken


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


async def test_a_sitemap_that_is_read_again_hastens_pages_that_have_changed(tmp_path: Path) -> None:
    shop, store = Shop(), tmp_path / "store.db"
    app = web.Application()
    app.router.add_get("/{path:.*}", shop.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    spider = Spider("shop", start=Sitemap(f"http://127.0.0.1:{runner.addresses[0][1]}/sitemap.xml"))

    @spider.handler(revisit="7d")
    def product(page: Page) -> Iterator[dict[str, Any]]:
        yield {"name": page.text("h1"), "at": formatdate()}

    async def visit() -> list[str]:
        await shoal.crawl(
            spider, store=store, output=tmp_path / "rows.jsonl", once=True, rate=0, robots=False
        )
        later(store, hours=25)
        return shop.take()

    try:
        assert await visit() == ["/a", "/b", "/c", "/sitemap.xml"]
        shop.changed["/b"] = time.time() + HOUR
        assert await visit() == ["/b", "/sitemap.xml"]
        assert await visit() == ["/sitemap.xml"], "it was checked since"
    finally:
        await runner.cleanup()
