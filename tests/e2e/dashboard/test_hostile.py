"""Strangers without a token: what they send is refused in one line, and they hold nothing for long."""

from __future__ import annotations

import asyncio
import logging

import pytest

from e2e.dashboard.viewer import Viewer
from shoal.dashboard import app

DEADLINE = 20.0  # seconds


def port_of(viewer: Viewer) -> int:
    return int(viewer.served.url.rpartition(":")[2])


async def test_a_stranger_finds_no_bug(stranger: Viewer, caplog: pytest.LogCaptureFixture) -> None:
    deep = b'{"token":"x","more":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    json = {"Content-Type": "application/json"}
    with caplog.at_level(logging.ERROR, "shoal"):
        assert (await stranger.ask("POST", "/login", data=deep, headers=json))[0] == 400
        assert (await stranger.ask("POST", "/login", headers={"Origin": "http://["}))[0] == 403
        for id in ("9" * 5000, "-1", "1e3", "²", "none"):
            assert (await stranger.ask("GET", f"/api/dead/{id}"))[0] == 401
    assert caplog.records == []


@pytest.mark.parametrize("id", ["9" * 5000, "9" * 19, "-1", "1e3", "²", "none"])
async def test_a_letter_without_a_proper_number(viewer: Viewer, id: str) -> None:
    status, value = await viewer.ask("GET", f"/api/dead/{id}")
    assert (status, list(value)) == (404, ["error"])
    assert len(value["error"]) < 200


@pytest.mark.parametrize(
    "name", ["localhost:80@evil.example", "[::1]evil.example", "localhost:x", "[::1", "localhost/a"]
)
async def test_half_a_name_is_not_ours(stranger: Viewer, name: str) -> None:
    assert (await stranger.ask("GET", "/api/live", headers={"Host": name}))[0] == 403


PIECES = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "half of the next": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HT",
    "a body that nobody asked for": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\nx",
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
async def test_who_is_slow_is_cut_off(
    stranger: Viewer, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "CONNECTION_PATIENCE", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(stranger))
    writer.write(piece)
    async with asyncio.timeout(DEADLINE):
        while await _more(reader):
            pass
    writer.close()


async def _more(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(65_536)
    except ConnectionError:
        return b""


async def test_a_stream_is_not_slow(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "CONNECTION_PATIENCE", 0.2)
    seen = 0
    async with asyncio.timeout(DEADLINE):
        async for name, _ in viewer.events():
            seen += name == "overview"
            if seen == 3:  # they come every second
                return
    raise AssertionError("the stream has ended")


async def test_so_many_at_once_and_no_more(stranger: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_CONNECTIONS", 3)
    async with asyncio.timeout(DEADLINE):
        held = [await asyncio.open_connection("127.0.0.1", port_of(stranger)) for _ in range(4)]
        assert await _more(held[3][0]) == b""
        for _, writer in held:
            writer.close()
        while True:
            try:
                assert (await stranger.ask("GET", "/healthz"))[0] == 200
                return
            except OSError:  # those that left are still there
                await asyncio.sleep(0.02)
