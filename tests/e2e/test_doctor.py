"""`shoal doctor`: one table about the machine and its servers, in bounded time, without secrets."""

from __future__ import annotations

import asyncio
import shlex
import socket
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crash.harness import alive, until
from shoal.develop import machine_probes
from shoal.develop.doctor import PROBES, examine
from shoal.develop.findings import Finding
from shoal.develop.probe import Place, in_thread
from shoal.engine.event_loop import run_loop
from shoal.settings import Settings
from shoal.testing.servers.names import NameServer, Records
from shoal.testing.servers.valkey import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]
Found = tuple[int, dict[str, list[tuple[str, str]]]]


@pytest.fixture
def doctor(cli: Cli) -> Callable[..., Found]:
    """Answers the exit code, and states and words by subject. No name is looked up but in the hosts file."""

    def call(*argv: str, hosts: tuple[str, ...] = ("localhost",)) -> Found:
        code, out, err = cli("doctor", "--json", *argv, *hosts)
        assert err == ""
        assert "hunter22" not in out
        found: dict[str, list[tuple[str, str]]] = {}
        for one in msgspec.json.decode(out, type=list[dict[str, str]]):
            # The errors of the store say so themselves.
            assert one["state"] in ("ok", "skipped") or one.get("do") or one["subject"] == "store", one
            found.setdefault(one["subject"], []).append((one["state"], one["found"]))
        return code, found

    return call


def test_a_machine_without_servers(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("doctor", "localhost")
    assert (code, err) == (0, ""), out
    for name in PROBES:
        assert f"\n{name} " in out
    assert "localhost is 127.0.0.1" in out or "localhost is ::1" in out
    assert "nothing is wrong" in out
    assert list(tmp_path.iterdir()) == [], "nothing was written"


def test_names(doctor: Callable[..., Found]) -> None:
    with NameServer({"shop.example": Records(["127.0.0.2"]), "bad.example": "servfail"}) as names:
        servers = ("-s", f"dns_servers={names.address}")
        code, found = doctor(*servers, hosts=("shop.example", "https://gone.example:8080/x"))
        assert code == 1
        assert [state for state, _ in found["dns"]] == ["ok", "wrong"]
        assert found["dns"][0][1].startswith("shop.example is 127.0.0.2")
        assert found["dns"][1][1].startswith("gone.example has no address")
        assert {name for name, _ in names.asked} == {"shop.example", "gone.example"}


def test_a_valkey(doctor: Callable[..., Found], valkey: ValkeyServer) -> None:
    code, found = doctor("--store", valkey.url)
    assert code == 0
    assert found["valkey"][0][0] == "ok"
    assert "Valkey" in found["valkey"][0][1]
    said = [words.partition(" ")[2] for _, words in found["valkey"][1:]]
    assert [words for words in said if "to answer" not in words] == ["has no limit of memory"]
    assert valkey.command("DBSIZE") == 0, "nothing was written"
    address = valkey.url.replace("redis://", "redis://me:hunter22@")
    code, found = doctor("--store", address)
    assert (code, found["store"][0][0]) == (1, "wrong")


def test_servers_that_are_not_there(doctor: Callable[..., Found]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    # The port is closed now.
    code, found = doctor(
        "--store",
        f"redis://:hunter22@127.0.0.1:{port}/0",
        "-o",
        f"postgresql://me:hunter22@127.0.0.1:{port}/x",
    )
    assert code == 1
    assert found["store"][0][0] == "wrong"
    assert f"127.0.0.1:{port}" in found["store"][0][1]
    assert found["postgresql"][0][0] == "wrong"
    assert found["postgresql"][0][1].startswith(f"cannot reach postgresql://127.0.0.1:{port}/x")


async def test_a_server_that_does_not_answer_is_waited_for_a_bounded_time() -> None:
    """And the others are told all the same. The server accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store, output = f"redis://127.0.0.1:{port}/0", f"postgresql://127.0.0.1:{port}/x"
        place = Place(Settings(), store, [output], ["localhost"], {})
        async with asyncio.timeout(60):
            found = await examine(place, patience=0.5)
    states = {finding.subject: (finding.state, finding.found) for finding in found}
    assert states["store"] == ("wrong", "no answer within 0.5 s")
    assert states["postgresql"] == ("wrong", "no answer within 0.5 s")
    assert states["python"][0] == "ok"


def test_what_blocks_for_ever_does_not_hold_up_the_end() -> None:
    """A network drive that is away, or a browser that hangs. The thread of the first ends with the test."""
    released = threading.Event()

    async def blocked(_: Place) -> list[Finding]:
        await in_thread(released.wait)
        return []

    async def failing(_: Place) -> list[Finding]:
        return await in_thread(lambda: [Finding("disk", "ok", str(1 // 0))])

    place = Place(Settings(), ":memory:", [], [], {})
    try:
        found = run_loop(examine(place, 2.0, {"disk": blocked, "clock": failing}))
    finally:
        released.set()
    assert [(one.subject, one.state) for one in found] == [("disk", "wrong"), ("clock", "warning")]
    assert found[0].found == "no answer within 2 s"
    assert "ZeroDivisionError" in found[1].found


@pytest.mark.parametrize("itself", [True, False], ids=["itself", "below a script"])
async def test_a_browser_that_hangs_is_ended(tmp_path: Path, itself: bool) -> None:
    browser = tmp_path / "browser"
    hangs = f"echo $$ > {tmp_path}/pid; exec sleep 600"
    browser.write_text(f"#!/bin/sh\n{hangs if itself else f'sh -c {shlex.quote(hangs)}; :'}\n")
    browser.chmod(0o700)
    place = Place(Settings(browser_path=str(browser)), ":memory:", [], [], {})
    asking = asyncio.create_task(examine(place, 600, {"chromium": machine_probes.chromium}))
    async with asyncio.timeout(30):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    until(lambda: not alive(int((tmp_path / "pid").read_text())), "its end")


def test_proxies(doctor: Callable[..., Found], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as up, socket.create_server(("127.0.0.1", 0)) as down:
        ports = up.getsockname()[1], down.getsockname()[1]
        down.close()
        urls = [f'"http://me:hunter22@127.0.0.1:{port}"' for port in ports]
        Path("shoal.toml").write_text(
            f"[proxies]\nall = [{urls[0]}]\nhalf = [{', '.join(urls)}]\nnone = [{urls[1]}]\n"
        )
        code, found = doctor()
    assert code == 1
    assert [state for state, _ in found["proxies"]] == ["ok", "warning", "wrong"]
    assert found["proxies"][1][1].startswith(
        f"pool half: 1 of 2 proxies can be reached; not 127.0.0.1:{ports[1]} ("
    )


@pytest.mark.parametrize(
    ("script", "state", "says"),
    [
        ("echo Chromium 999.1", "ok", "Chromium 999.1 ("),
        ("echo Chromium 999.1", "ok", "Chromium 999.1, a headless shell ("),
        ("exit 3", "wrong", "does not start (exit code 3)"),
        ("", "wrong", "browser_path"),
    ],
)
def test_a_browser(doctor: Callable[..., Found], tmp_path: Path, script: str, state: str, says: str) -> None:
    browser = tmp_path / ("chrome-headless-shell" if "shell" in says else "browser")
    if script:
        browser.write_text(f"#!/bin/sh\n{script}\n")
        browser.chmod(0o700)
    code, found = doctor("-s", f"browser_path={browser}")
    [(told, said)] = found["chromium"]
    assert told == state
    assert says in said
    assert code == (0 if state == "ok" else 1)


def test_a_store_that_others_can_read(doctor: Callable[..., Found], tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    store.touch(0o644)
    store.chmod(0o644)
    assert doctor("--store", str(store))[1]["permissions"] == [("warning", f"others can read {store}")]
    store.chmod(0o600)
    assert doctor("--store", str(store))[1]["permissions"][0][0] == "ok"


@pytest.mark.parametrize(("answer", "state"), [(0, "ok"), (5, "warning"), (None, "ok")])
async def test_the_clock(monkeypatch: pytest.MonkeyPatch, answer: int | None, state: str) -> None:
    monkeypatch.setattr(machine_probes, "_clock_state", lambda: answer)
    [found] = await machine_probes.clock(Place(Settings(), ":memory:", [], [], {}))
    assert found.state == state


async def test_too_few_open_files() -> None:
    [found] = await machine_probes.open_files(Place(Settings(concurrency=10**9), ":memory:", [], [], {}))
    assert found.state in ("warning", "ok")
    assert (found.state == "ok") == ("no limit" in found.found)


def test_every_extra_is_known() -> None:
    project: dict[str, Any] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    optional = project["project"]["optional-dependencies"]
    assert set(machine_probes.EXTRAS) == set(optional) - {"dev", "docs", "bench"}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["ftp://a.test/"], "only http and https"),
        (["localhost", "-s", "colour=red"], "colour"),
        (["localhost", "--store", "mongo://localhost/"], "mongo"),
        (["localhost", "-o", "postgresql://me:hunter22@a/b#c"], "cannot be read"),
        (["localhost", "--config", "missing.toml"], "missing.toml"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(cli: Cli, argv: list[str], says: str) -> None:
    code, out, err = cli("doctor", *argv)
    assert (code, out) == (2, "")
    assert says in err
    assert "hunter22" not in err
    assert len(err.splitlines()) == 1
