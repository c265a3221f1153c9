"""docs/hooks.md lists every hook and every field, and its spider does what the text says."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import fields

import shoal
from shoal import OutgoingRequest
from shoal.spider.hooks import GIVEN, JobSummary

DOC = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text("utf-8")
ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \|", re.MULTILINE)


def test_every_hook_and_what_it_gets() -> None:
    table = DOC.partition("| hook | gets |")[2].partition("\n\n")[0]
    listed = {
        name: tuple(re.findall(r"`(\w+)`", gets))
        for names, gets in ROW.findall(table)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == dict(GIVEN)


def test_every_promise_is_made() -> None:
    table = DOC.partition("| hook | what is promised |")[2].partition("\n\n")[0]
    told = {name for names, _ in ROW.findall(table) for name in re.findall(r"`(\w+)`", names)}
    assert told == {kind for kind in GIVEN if "_job_" in kind or "_process_" in kind or "letter" in kind}


def test_every_field_of_a_request_and_of_a_job() -> None:
    table = DOC.partition("| field of an `OutgoingRequest` |")[2].partition("\n\n")[0]
    named = {name for names, _ in ROW.findall(table) for name in re.findall(r"`(\w+)`", names)}
    assert named == {name for name in dir(OutgoingRequest) if not name.startswith("_")}
    sentence = DOC.partition("A `JobSummary` has")[2].partition("\n\n")[0]
    assert {field.name for field in fields(JobSummary)} <= set(re.findall(r"`(\w+)`", sentence))


@pytest.fixture
def document() -> Iterator[dict[str, Any]]:
    module = ModuleType("hooks_document")
    sys.modules[module.__name__] = module
    for code in re.findall(r"^```python\n(.*?)^```", DOC, re.MULTILINE | re.DOTALL):
        exec(compile(code, "hooks.md", "exec"), module.__dict__)
    yield module.__dict__
    del sys.modules[module.__name__]


@pytest.fixture
async def shop() -> AsyncIterator[str]:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        if request.path == "/none":
            return web.Response(text="here", headers={"X-Region": "none"})
        if request.path == "/busy" and asked.count("/busy") == 1:
            return web.Response(text="temporarily unavailable")
        price = "" if request.path == "/free" else "€ 3"
        return web.Response(
            text=f"<p class=sku>{request.path}<p class=price>{price}<p class=size>s<p class=size>m",
            content_type="text/html",
        )

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_the_spider_of_the_document(
    document: dict[str, Any], shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    spider = document["spider"]
    spider.start = [f"{shop}{path}" for path in ("/lamp", "/none", "/busy", "/free")]
    monkeypatch.setattr(document["Retry"], "__init__", _soon(document["Retry"].__init__))
    results = await shoal.crawl(spider, rate=0, robots=False)
    rows = sorted((row["sku"], row["price"], row["size"]) for row in results)
    assert rows == [("/busy", "3", "m"), ("/busy", "3", "s"), ("/lamp", "3", "m"), ("/lamp", "3", "s")]
    assert results.view.job.counts == {"dropped: no price": 1, "pages dropped: not sold here": 1}
    printed = capsys.readouterr().out
    assert "shop begins; its rows go to" in printed
    assert "shop: 4 rows of 4 pages, 0 dead letters" in printed


def _soon(made: Any) -> Any:
    def init(self: Any, reason: str = "", *, after: float | None = None) -> None:
        made(self, reason, after=0.01)

    return init
