"""What pages ask of robots, in a real crawl: noarchive, canonical URLs, other languages."""

from __future__ import annotations

from pathlib import Path

import shoal
from e2e.test_archive import records
from integration.raw_server import by_path, page, serve
from shoal.model.counts import NOT_ARCHIVED
from shoal.spider.default import summary_spider


def html(text: str, **headers: str) -> bytes:
    return page(text.encode(), Content_Type="text/html", **headers)


SITE = {
    "/": html("<a href=/kept>1</a><a href=/secret>2</a><a href=/tagged>3</a><a href=/print>4</a>"),
    "/kept": html("<link rel=alternate hreflang=de href=/de><p>kept"),
    "/secret": html("<meta name=robots content=noarchive><p>secret"),
    "/tagged": html("<p>secret, too", X_Robots_Tag="noarchive"),
    "/print": html("<link rel=canonical href=/main><p>the same"),
    "/main": html("<link rel=canonical href=/main><p>the same"),
    "/de": html("<p>gehalten"),
    "/robots.txt": page(b"", "404 Not Found"),
}


async def test_by_default_nothing_of_it_is_obeyed(tmp_path: Path) -> None:
    async with serve(by_path(SITE)) as server:
        spider = summary_spider("all", server.url("/"), rate=0)
        results = await shoal.crawl(spider, archive=str(tmp_path / "archive"))
    found = {row["url"].removeprefix(server.origin) for row in results}
    assert found == {"/", "/kept", "/secret", "/tagged", "/print"}
    archived = {one.path for one in records(tmp_path / "archive") if one.kind == "response"}
    assert archived == found | {"/robots.txt"}


async def test_by_setting_all_of_it_is(tmp_path: Path) -> None:
    async with serve(by_path(SITE)) as server:
        spider = summary_spider(
            "polite", server.url("/"), rate=0, robots_noarchive=True, canonical="merge", hreflang=True
        )
        results = await shoal.crawl(spider, archive=str(tmp_path / "archive"))
    found = {row["url"].removeprefix(server.origin) for row in results}
    assert found == {"/", "/kept", "/secret", "/tagged", "/main", "/de"}
    archived = {one.path for one in records(tmp_path / "archive") if one.kind == "response"}
    assert archived == {"/", "/kept", "/print", "/main", "/de", "/robots.txt"}
    assert results.view.job.counts[NOT_ARCHIVED] == 2
    assert results.view.report.cut == {"items of pages with another canonical URL": 1}
