"""The stream, a store that goes away, and the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import shoal
from e2e.dashboard.viewer import DEADLINE, Viewer, claimed, spider_of, viewing
from shoal.dashboard import app as app_module
from shoal.dashboard import board
from shoal.dashboard.server import Options, Served, dashboard
from shoal.dashboard.stream import Hub
from shoal.errors import UsageError
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

TOKEN = "a-token-chosen-by-somebody"
SHOAL = [sys.executable, "-c", "from shoal.cli import main; main()"]

Cli = Callable[..., tuple[int, str, str]]


async def test_the_stream_brings_what_happens_and_ends_with_the_server(store: str) -> None:
    seen: list[tuple[str, Any]] = []

    async def watch(viewer: Viewer) -> None:
        async for one in viewer.events():
            seen.append(one)  # noqa: PERF401 (it is looked at meanwhile)

    async with AsyncExitStack() as viewers:
        async with dashboard(Options(store, port=0)) as served:
            viewer = await viewers.enter_async_context(viewing(served))
            await viewer.log_in()
            watching = asyncio.create_task(watch(viewer))
            await until(lambda: [name for name, _ in seen].count("overview") >= 2)
            await viewer.post(f"/api/hosts/{await viewer.a_host()}", action="block")
            await until(lambda: "event" in [name for name, _ in seen])
            (event,) = [value for name, value in seen if name == "event"]
            assert event["event"] == "host_blocked"
            assert not watching.done()
            left = time.monotonic()
        assert time.monotonic() - left < DEADLINE, "the stream would go on"
        async with asyncio.timeout(DEADLINE):
            await watching


async def test_the_stream_ends_with_the_session(viewer: Viewer) -> None:
    stream = viewer.events()
    assert (await anext(stream))[0] == "overview"
    await viewer.post("/logout")
    async with asyncio.timeout(DEADLINE):
        assert {name async for name, _ in stream} <= {"overview"}


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_who_does_not_read_is_let_go() -> None:
    hub = Hub()
    reader, sleeper = hub.enter([], lambda: True), hub.enter([], lambda: True)
    for n in range(100):
        hub.publish("overview", n)
        reader.queue.get_nowait()
    assert (len(hub), sleeper.ending.is_set(), reader.ending.is_set()) == (1, True, False)
    hub.close()
    assert reader.ending.is_set()


# -- Valkey


async def test_on_valkey_and_while_it_is_away(
    web: WebProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ValkeyServer(tmp_path / "valkey", appendonly=True, fsync="always", password="s3cret") as server:
        await shoal.crawl(spider_of(web), store=server.url)
        async with dashboard(Options(server.url, port=0)) as served, viewing(served) as viewer:
            await viewer.log_in()
            session = await viewer.get("/api/session")
            assert "s3cret" not in session["store"]
            assert (await viewer.get("/api/overview"))["done"] == 7
            assert len(await viewer.hosts()) == 2
            await viewer.replay_all()
            host = await viewer.a_host()
            assert (await viewer.post(f"/api/hosts/{host}", action="block"))[1]["condition"] == "blocked"
            assert host not in await claimed(server.url)
            stream = viewer.events()
            assert (await anext(stream))[0] == "overview"
            with monkeypatch.context() as impatient:
                impatient.setattr(app_module, "PATIENCE", 0.0)
                impatient.setattr(board, "PATIENCE", 0.5)
                server.kill()
                async with asyncio.timeout(DEADLINE):
                    while (found := await anext(stream))[0] != "away":
                        pass
                assert "does not answer" in found[1]["error"]
                status, value = await viewer.ask("GET", "/api/workers")
                assert (status, "does not answer" in value["error"]) == (503, True)
                assert (await viewer.ask("GET", "/readyz"))[0] == 503
            server.start()
            async with asyncio.timeout(DEADLINE):
                while (await anext(stream))[0] != "overview":
                    pass
            assert (await viewer.get("/api/workers"))["workers"] == []


# -- the command line


def test_wrong_words(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("dashboard", "--store", "none.db", "--port", "0")
    assert (code, "there is no store at none.db" in err) == (3, True)
    code, _, err = cli("dashboard", "--port", "70000")
    assert (code, err) == (2, "shoal: --port 70000: a port is a number from 0 to 65535\n")
    code, _, err = cli("dashboard", "--token-file", "none")
    assert (code, "--token-file none: cannot be read" in err) == (2, True)
    code, _, err = cli("dashboard", "--bind", "not an address", "--port", "0")
    assert (code, "not an address of this machine" in err) == (2, True)
    code, _, err = cli("crawl", "http://127.0.0.1:9/", "--store", ":memory:", "--dashboard")
    assert (code, "a crawl in memory cannot be looked at" in err) == (2, True)


async def test_a_port_that_is_taken(store: str) -> None:
    async with dashboard(Options(store, port=0)) as served:
        port = int(served.url.rpartition(":")[2])
        with pytest.raises(UsageError, match="the port is taken: name another, or 0"):
            async with dashboard(Options(store, port=port)):
                pass


@contextmanager
def started(command: list[str], cwd: Path | None = None, **more: str) -> Iterator[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=cwd, env={**kept, **more}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_url(process: subprocess.Popen[str]) -> str:
    """The line that says where it is."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("dashboard: "):
            return line.removeprefix("dashboard: ").strip()
    raise AssertionError(f"it ended with {process.wait()}")


async def test_the_command_serves_until_a_signal(store: str) -> None:
    command = [*SHOAL, "dashboard", "--store", store, "--port", "0", "--bind", "127.0.0.1"]
    with started(command) as process:
        url = await asyncio.to_thread(read_url, process)
        base, _, token = url.partition("/login#token=")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            async with http.post(f"{base}/login", data={"token": token}) as answer:
                assert answer.status == 200
            async with http.get(f"{base}/api/stream") as answer:
                assert answer.status == 200
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(DEADLINE):
                    await answer.read()  # it ends
        assert await asyncio.to_thread(process.wait, DEADLINE) == 0


async def test_beside_a_crawl(tmp_path: Path) -> None:
    """For as long as it runs, with a token that was chosen and is not repeated."""
    with WebProcess({"slow": HostProfile("slow", pages=200, latency=0.05)}) as web:
        command = [*SHOAL, "crawl", web.url("slow"), "--rate", "20", "--dashboard", "--dashboard-port", "0"]
        with started(command, cwd=tmp_path, SHOAL_DASHBOARD_TOKEN=TOKEN) as process:
            line = await asyncio.to_thread(read_url, process)
            assert TOKEN not in line
            served = Served(line.partition("/ ")[0], TOKEN, False)
            async with viewing(served) as viewer, asyncio.timeout(DEADLINE):
                await viewer.log_in()
                async for name, seen in viewer.events():
                    if name == "overview" and seen["done"] > 3 and seen["workers"]:
                        break
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, DEADLINE) == 0
