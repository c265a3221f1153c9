"""What a request says of itself reaches the server, or bounds the fetch, after a way through the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
from aiohttp import web

import shoal
from shoal import Page, Request, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter


async def answer(request: web.BaseRequest) -> web.Response:
    if request.path == "/slow":
        await asyncio.Event().wait()
    if request.path == "/large":
        return web.Response(body=b"x" * 5_000)
    names = ("Content-Type", "Authorization", "Cookie")
    said = {name: request.headers[name] for name in names if name in request.headers}
    told = {"path": request.raw_path, "method": request.method, "body": await request.text(), **said}
    return web.json_response(
        told, headers={"Set-Cookie": "own=1; Path=/"} if request.path == "/first" else {}
    )


async def test_requests_are_sent_as_they_are_written(tmp_path: Path) -> None:
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)  # one answer takes for ever
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site = f"http://127.0.0.1:{runner.addresses[0][1]}"
    start = Request(f"{site}/first".replace("http://", "http://me:p%40ss@"))
    spider = Spider("s", [start], rate=0, robots=False, max_attempts=1, retry_base=0.01)

    @spider.handler
    def first(page: Page) -> Iterator[object]:
        yield page.json()
        yield page.follow("/query?a=1", echo, params={"b": ["2", "ü"]})
        yield page.follow("/form", echo, form={"q": "a b"}, cookies={"mine": "2"})
        yield page.follow("/json", echo, json={"n": [1]}, auth=("you", "x"), meta={"session": "meta is mine"})
        yield page.follow("/slow", echo, timeout=0.3)
        yield page.follow("/large", echo, max_body=1_000)

    @spider.handler
    def echo(page: Page) -> Iterator[object]:
        yield page.json()

    store = tmp_path / "store.db"
    try:
        results = await shoal.crawl(spider, store=str(store))
    finally:
        await runner.cleanup()
    rows = {row["path"].partition("?")[0]: row for row in results}
    assert rows["/first"]["Authorization"] == "Basic bWU6cEBzcw=="
    assert rows["/query"]["path"] == "/query?a=1&b=2&b=%C3%BC"
    form = rows["/form"]
    assert (form["method"], form["body"]) == ("POST", "q=a+b")
    assert form["Content-Type"] == "application/x-www-form-urlencoded"
    assert {*form["Cookie"].split("; ")} == {"mine=2", "own=1"}  # beside those of the jar
    json = rows["/json"]
    assert (json["method"], msgspec.json.decode(json["body"])) == ("POST", {"n": [1]})
    assert (json["Content-Type"], json["Authorization"]) == ("application/json", "Basic eW91Ong=")
    assert json["Cookie"] == "own=1"  # so it went without a session of its own
    async with open_frontier(str(store)) as frontier:
        letters = await frontier.dead(DeadFilter())
    dead = {letter.task.url.removeprefix(site): letter.kind for letter in letters}
    assert dead == {"/slow": "timeout", "/large": "too_large"}
