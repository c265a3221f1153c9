"""The small HTTP server, and what it answers about the process it is in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shoal.engine.tally import TallyReport
from shoal.engine.vitals import Vitals
from shoal.errors import StoreError, UsageError
from shoal.frontier.memory import MemoryFrontier
from shoal.telemetry import endpoint
from shoal.telemetry.endpoint import Answer, Probes, listening, parse_address, probes_at


async def hello() -> Answer:
    return Answer(b"hello\n")


async def broken() -> Answer:
    raise RuntimeError("no")


ROUTES = {"/hello": hello, "/broken": broken}


@asynccontextmanager
async def server(**routes: Any) -> AsyncIterator[int]:
    async with listening("0", {**ROUTES, **{f"/{name}": route for name, route in routes.items()}}) as url:
        yield int(url.rpartition(":")[2])


async def asked(port: int, *pieces: bytes, hang_up: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if hang_up:
            writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def status(port: int, request: bytes) -> int:
    return int((await asked(port, request)).split()[1])


async def test_a_known_path_is_answered_and_the_connection_ended() -> None:
    async with server() as port:
        head, _, body = (await asked(port, get("/hello?x=1"))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 6" in head
    assert b"Connection: close" in head
    assert body == b"hello\n"


async def test_a_request_may_come_in_pieces_and_head_gets_no_body() -> None:
    async with server() as port:
        assert (await asked(port, b"GET /hel", b"lo HTTP/1.1\r\n", b"\r\n")).endswith(b"hello\n")
        head = await asked(port, get("/hello").replace(b"GET", b"HEAD"))
    assert b"Content-Length: 6" in head
    assert head.endswith(b"\r\n\r\n")


async def test_whatever_else_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with server() as port:
        assert await status(port, get("/")) == 404
        assert await status(port, get("/hello/..")) == 404
        assert await status(port, get("/hello").replace(b"GET", b"POST")) == 405
        assert await status(port, b"\x16\x03\x01 junk\r\n\r\n") == 405
        assert await status(port, get("/broken")) == 500
        assert await status(port, get("/hello")) == 200


async def test_too_long_a_request_or_none_at_all_gets_no_answer() -> None:
    async with server() as port:
        assert await asked(port, b"GET /hello HTTP/1.1\r\nX: " + b"x" * 20_000) == b""
        assert await asked(port, b"GET /hello", hang_up=True) == b""
        assert await status(port, get("/hello")) == 200


async def test_who_is_slow_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_PATIENCE", 0.05)
    async with server() as port:
        assert await asked(port, b"GET /hello HTTP/1.1\r\n") == b""


async def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """… however much of the answer is still to be sent."""
    monkeypatch.setattr(endpoint, "_PATIENCE", 1.5)
    asked = asyncio.Event()

    async def much() -> Answer:
        asked.set()
        return Answer(bytes(20_000_000))

    async with server(much=much) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/much"))
        await asked.wait()
        await asyncio.sleep(2.0)  # what is buffered on the way is full by then
        async with asyncio.timeout(60):
            assert 0 < len(await reader.read()) < 20_000_000
        writer.close()


async def test_so_many_at_once_and_no_more() -> None:
    gate, full = asyncio.Event(), asyncio.Barrier(endpoint.MOST_AT_ONCE + 1)

    async def slow() -> Answer:
        await full.wait()
        await gate.wait()
        return Answer(b"at last\n")

    async with server(slow=slow) as port:
        asking = [asyncio.create_task(asked(port, get("/slow"))) for _ in range(endpoint.MOST_AT_ONCE)]
        async with asyncio.timeout(10):
            await full.wait()
        assert await asked(port, get("/hello")) == b""
        gate.set()
        assert all(answer.endswith(b"at last\n") for answer in await asyncio.gather(*asking))
        assert await status(port, get("/hello")) == 200


async def test_leaving_ends_what_is_under_way() -> None:
    async def never() -> Answer:
        await asyncio.Event().wait()
        return Answer(b"")

    async with server(never=never) as port:
        asking = asyncio.create_task(asked(port, get("/never")))
        await asyncio.sleep(0.05)
    assert await asking == b""


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0", ("127.0.0.1", 0)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
        ("name:1", ("name", 1)),
    ],
)
def test_an_address_is_loopback_unless_it_says_otherwise(text: str, means: tuple[str, int]) -> None:
    assert parse_address(text) == means


@pytest.mark.parametrize("text", ["", "x", "65536", "-1", "1.2.3.4", "host:", "http://a:1/", "９４６４"])
def test_a_bad_address_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics"):
        parse_address(text)


async def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    async with server() as port:
        with pytest.raises(UsageError, match=rf"--metrics {port}: cannot listen there .*another port"):
            async with listening(str(port), ROUTES):
                pass


# -- what is answered


class Process:
    """A process whose state is set by hand."""

    def __init__(self) -> None:
        self.trouble, self.ending = "", False

    def report(self) -> TallyReport:
        return TallyReport(pages=3)

    def vitals(self) -> Vitals:
        return Vitals(processes=1)

    def hangs(self) -> str:
        return self.trouble

    def stopping(self) -> bool:
        return self.ending


class AwayFrontier(MemoryFrontier):
    away = False

    async def now(self) -> float:
        if self.away:
            await asyncio.Event().wait()
        return await super().now()


@pytest.fixture
def frontier(monkeypatch: pytest.MonkeyPatch) -> AwayFrontier:
    monkeypatch.setattr(endpoint, "_STORE_PATIENCE", 0.05)
    return AwayFrontier()


async def test_before_there_is_anything_to_tell_it_is_healthy_and_not_ready() -> None:
    starting = Probes()
    assert (await starting.healthz()).status == 200
    assert (await starting.readyz()).status == 503
    assert b"shoal_pages_total 0.0" in (await starting.metrics()).body


async def test_a_process_that_works_is_healthy_and_ready(frontier: AwayFrontier) -> None:
    one = Probes()
    one.watch(frontier, Process(), whole_store=False)
    assert ((await one.healthz()).status, (await one.readyz()).status) == (200, 200)
    text = (await one.metrics()).body
    assert b"shoal_pages_total 3.0" in text
    assert b"shoal_store_up 1.0" in text
    assert b"shoal_tasks" not in text


async def test_one_that_is_told_to_stop_is_healthy_but_not_ready(frontier: AwayFrontier) -> None:
    one, process = Probes(), Process()
    one.watch(frontier, process, whole_store=False)
    process.ending = True
    assert (await one.healthz()).status == 200
    assert (await one.readyz()).body == b"stopping\n"


async def test_one_that_hangs_is_not_healthy_unless_it_waits_for_the_store(frontier: AwayFrontier) -> None:
    one, process = Probes(), Process()
    one.watch(frontier, process, whole_store=False)
    process.trouble = "the engine has not moved for 61 s"
    assert ((await one.healthz()).status, (await one.healthz()).body) == (
        503,
        b"the engine has not moved for 61 s\n",
    )
    frontier.away = True
    assert (await one.healthz()).status == 200
    assert (await one.readyz()).body == b"the store does not answer\n"
    assert b"shoal_store_up 0.0" in (await one.metrics()).body


async def test_a_store_that_fails_is_not_up(frontier: AwayFrontier, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails() -> float:
        raise StoreError("gone")

    one = Probes()
    one.watch(frontier, Process(), whole_store=False)
    monkeypatch.setattr(frontier, "now", fails)
    assert (await one.readyz()).status == 503


async def test_without_an_address_nobody_is_told_anything(capsys: pytest.CaptureFixture[str]) -> None:
    async with probes_at("") as silent:
        assert isinstance(silent, Probes)
    assert capsys.readouterr().err == ""
    async with probes_at("0"):
        pass
    assert "metrics are at http://127.0.0.1:" in capsys.readouterr().err
