"""`shoal add`, as a person uses it: a job that finished goes on, and every line is told."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from shoal.frontier import open_frontier
from shoal.testing import ChaoticWeb, HostProfile

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider
spider = Spider("site", start="{start}", robots=False, rate=0, depth=0, deny=["/secret"], trust_start=True)

@spider.handler
def page(page):
    yield {{"url": page.url}}

@spider.handler(lane="urgent")
def special(page):
    yield {{"url": page.url, "meta": page.meta}}
"""


async def state(path: Path, new: str = "") -> str:
    async with open_frontier(str(path)) as frontier:
        if new:
            await frontier.set_state("site", new)  # type: ignore[arg-type]
        job = await frontier.job("site")
        assert job is not None
        return job.state


def rows(path: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


async def test_a_finished_crawl_goes_on_with_what_was_added(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ChaoticWeb({"site": HostProfile(pages=9)}) as web:

        def url(number: int) -> str:
            return web.url("site", f"/p/{number}")

        (tmp_path / "site.py").write_text(SPIDER.format(start=url(0)))
        store, out = tmp_path / ".shoal" / "shoal.db", tmp_path / "rows.jsonl"

        def run(*argv: str) -> tuple[int, str, str]:
            return cli(*argv)

        async def shoal(*argv: str) -> tuple[int, str, str]:
            return await asyncio.to_thread(run, *argv)

        crawl = ("crawl", "site.py", "-o", "rows.jsonl", "-q")
        assert (await shoal(*crawl))[0] == 0
        assert await state(store) == "finished"

        code, _, err = await shoal("add", "site", url(1), "--handler", "special", "--meta", "a=b")
        assert code == 0, err
        assert "job site is running: 1 URL added" in err
        assert "nobody works on it now" in err
        assert (await shoal(*crawl))[0] == 0
        assert await state(store) == "finished"
        assert rows(out) == [{"url": url(0)}, {"url": url(1), "meta": {"a": "b"}}]

        (tmp_path / "more.txt").write_text(f"{url(2)}\nnot a url\n{url(0)}\n{web.url('site', '/secret')}\n")
        code, _, err = await shoal("add", "site", "-i", "more.txt")
        assert code == 1
        assert "more.txt:2: malformed: not a URL: not a url" in err
        assert f"more.txt:3: duplicate: the job knows this page: {url(0)}" in err
        assert "more.txt:4: out of scope" in err
        assert "1 URL added, 1 duplicate, 2 refused (malformed 1 · out of scope 1)" in err

        code, lines, _ = await shoal("add", "site", "-i", "more.txt", "--json")
        *each, last = [msgspec.json.decode(line) for line in lines.splitlines()]
        assert (code, [one["fate"] for one in each]) == (1, ["refused", "refused", "duplicate", "duplicate"])
        assert (last["new"], last["duplicates"], last["durable"]) == (0, 2, True)

        await state(store, "paused")
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        code, _, err = await shoal("add", "site", url(3))
        assert (code, await state(store)) == (0, "paused")
        assert "shoal resume site" in err
        await state(store, "running")
        assert (await shoal(*crawl))[0] == 0
        assert sorted(str(row["url"]) for row in rows(out)) == [url(n) for n in range(4)]


async def test_what_cannot_be_added_is_one_line(cli: Cli, tmp_path: Path) -> None:
    async with ChaoticWeb({"site": HostProfile(pages=2)}) as web:
        (tmp_path / "site.py").write_text(SPIDER.format(start=web.url("site", "/p/0")))
        cli_ = asyncio.to_thread
        await cli_(cli, "crawl", "site.py", "-o", "rows.jsonl", "-q")
        store = tmp_path / ".shoal" / "shoal.db"
        for argv, said in (
            (("nobody", "http://a.test/"), "no job 'nobody' in this store; there is: site"),
            (("site",), "nothing to add"),
            (("site", "http://"), "is not a URL"),
            (
                ("site", "http://a.test/", "--handler", "none"),
                "unknown handler: 'none'; job site has page, special",
            ),
            (("site", "http://a.test/", "--lane", "none"), "there is no lane 'none'"),
            (("site", "http://a.test/", "--meta", "none"), "write it as KEY=VALUE"),
            (("site", "http://a.test/", "--meta", "{none"), "not an object as JSON"),
            (("site", "-i", "none.txt"), "there is no such file"),
        ):
            code, out, err = await cli_(cli, "add", *argv)
            assert (code, out, err.count("\n")) == (2, "", 1), err
            assert said in err
        await state(store, "cancelled")
        code, _, err = await cli_(cli, "add", "site", "http://a.test/")
        assert (code, err) == (2, "shoal: job site is cancelled: submit it again to go on, then add\n")
