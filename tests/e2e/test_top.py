"""`shoal top`: beside a crawl that runs, on SQLite and on Valkey; once, as JSON, and live on a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks.fleet.processes import Members, until

from shoal.frontier import open_frontier
from shoal.frontier.values import JobSpec
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

SHOAL = [sys.executable, "-c", "from shoal.cli import main; main()"]
DEADLINE = 60.0
ROWS, COLUMNS = 24, 80


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {f"quick-{n}": HostProfile("fast", pages=400) for n in range(3)}
    with WebProcess(hosts | {"down": HostProfile("down", pages=3)}) as web:
        yield web


@contextmanager
def crawling(web: WebProcess, folder: Path, store: str) -> Iterator[None]:
    """A crawl that takes longer than anybody looks, with a host that is down."""
    with Members(folder) as members:
        targets = [*web.start_urls, "--store", store, "--job", "books", "--rate", "8", "-q"]
        crawl = members.start("crawl", [*SHOAL, "crawl", *targets])
        rows = folder / "books.jsonl"
        written = lambda: rows.exists() and rows.read_bytes().count(b"\n") >= 20  # noqa: E731
        until(lambda: written() or not crawl.running, "twenty rows", crawl)
        assert crawl.running, crawl.words
        yield


def seen(cli: Cli, store: str, found: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """What `shoal top --json` says as soon as it says what is expected."""
    deadline = time.monotonic() + DEADLINE
    while True:
        code, out, err = cli("status", "--store", store, "--json")
        assert code == 0, err
        said: dict[str, Any] = msgspec.json.decode(out)
        if found(said):
            return said
        assert time.monotonic() < deadline, said


def _is_limited(said: dict[str, Any]) -> bool:
    return any("a second at most" in host["why"] for host in said["slowest_hosts"])


def check(cli: Cli, store: str) -> None:
    said = seen(cli, store, lambda said: said["rate"] and said["success"] and _is_limited(said))
    [job] = said["jobs"]
    assert (job["job"], job["state"], said["hosts"]) == ("books", "running", 4)
    assert 0 < job["progress"] < 1
    assert job["eta"] > 5
    [lane] = said["lanes"]
    assert lane["lane"] == "normal"
    assert lane["pending"] > 0
    [worker] = said["workers"]
    assert worker["jobs"] == ["books"]
    assert {"job_started", "breaker_opened"} <= {event["event"] for event in said["events"]}

    code, out, err = cli("status", "--store", store)
    assert code == 0, err
    for words in ("pages/s", "% success", "books", "running", "lanes", "slowest hosts", "worker", "events"):
        assert words in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 120


def test_beside_a_crawl_on_sqlite(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    store = str(tmp_path / "shoal.db")
    with crawling(web, tmp_path, store):
        check(cli, store)
        with Terminal(tmp_path, "--store", store, "--every", "0.2") as terminal:
            terminal.wait_for("q leaves", "books", "normal", "slowest hosts")
            first = len(terminal.text)
            until(lambda: terminal.read() and len(terminal.text) > first + 2000, "it is drawn again")
            terminal.press("q")
            assert terminal.code() == 0
            assert terminal.is_as_before()


def test_it_needs_nothing_of_the_dashboard(tmp_path: Path) -> None:
    """The extra `dashboard` need not be installed, and its part of Shoal is not touched."""
    store = tmp_path / "shoal.db"
    asyncio.run(_create(store))
    code = (
        "import sys\n"
        "for name in ('starlette', 'uvicorn', 'prometheus_client', 'shoal.dashboard'):\n"
        "    sys.modules[name] = None\n"  # so that an import of it fails
        "from shoal.cli import main; main()"
    )
    for how in (("status", "--json"), ("status",), ("top",)):
        run = subprocess.run(
            [sys.executable, "-c", code, *how, "--store", str(store)],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert (run.returncode, run.stderr) == (0, "")
        assert "books" in run.stdout


async def _create(store: Path) -> None:
    async with open_frontier(str(store)) as frontier:
        await frontier.open_job(JobSpec("books"))


def test_beside_a_crawl_on_valkey(cli: Cli, web: WebProcess, tmp_path: Path, valkey: ValkeyServer) -> None:
    store = f"{valkey.url}?prefix=top"
    with crawling(web, tmp_path, store):
        check(cli, store)
        with Terminal(tmp_path, "--store", store) as terminal:
            terminal.wait_for("q leaves", "books")
            terminal.interrupt()
            assert terminal.code() == 0
            assert terminal.is_as_before()


def test_a_job_that_is_finished(cli: Cli, web: WebProcess) -> None:
    code, _, err = cli("crawl", web.url("quick-0"), "--max-pages", "5", "--rate", "0", "--job", "few", "-q")
    assert code == 0, err
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    [line] = [line for line in out.splitlines() if line.startswith("few  ")]
    assert line.split()[1] == "finished"
    assert "13 %" in line, "it has its five pages, and left the others"
    assert "slowest hosts" not in out
    assert "no worker is running" not in out


def test_an_empty_store(cli: Cli) -> None:
    code, _, err = cli(
        "crawl", "http://127.0.0.1:9/", "--max-pages", "1", "--job", "x", "-q", "-s", "max_attempts=1"
    )
    assert code == 1, err
    assert cli("cancel", "x", "--forget")[0] == 0
    code, out, err = cli("top")  # not a terminal: once
    assert (code, err) == (0, "")
    assert "no jobs in this store yet; start one with: shoal crawl URL" in out


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("--store", "none.db"), 3, "there is no store at none.db"),
        (("--every", "0"), 2, "--every 0: at least 0.1 seconds"),
        (("--every", "nan"), 2, "--every nan: at least 0.1 seconds"),
    ],
)
def test_what_cannot_be_shown_is_one_line(cli: Cli, argv: tuple[str, ...], code: int, said: str) -> None:
    got, out, err = cli("top", *argv)
    assert (got, out) == (code, "")
    assert err.startswith("shoal: ")
    assert said in err
    assert err.count("\n") == 1


class Terminal:
    """`shoal top` on a terminal of its own."""

    def __init__(self, folder: Path, *argv: str) -> None:
        self._argv, self._folder = argv, folder
        self.text = ""

    def __enter__(self) -> Terminal:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.set_blocking(self._master, False)
        self._slave = slave
        self._before = termios.tcgetattr(slave)
        environment = {**os.environ, "TERM": "xterm-256color"}
        self._process = subprocess.Popen(
            [*SHOAL, "top", *self._argv],
            stdin=slave, stdout=slave, stderr=slave, cwd=self._folder, env=environment, start_new_session=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)

    def read(self) -> bool:
        try:
            self.text += os.read(self._master, 1 << 16).decode(errors="replace")
        except BlockingIOError:
            pass
        return True

    def wait_for(self, *words: str) -> None:
        until(lambda: self.read() and all(word in self.text for word in words), f"{words} on the screen")

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def code(self) -> int:
        until(lambda: self.read() and self._process.poll() is not None, "the end of shoal top")
        self.read()
        return self._process.returncode

    def is_as_before(self) -> bool:
        """The other screen is left, the cursor is shown, keys are echoed, and no traceback came after it."""
        _, left, after = self.text.rpartition("\x1b[?1049l")
        shown = self.text.rindex("\x1b[?25h") > self.text.rindex("\x1b[?25l")
        keys = termios.tcgetattr(self._slave) == self._before
        return bool(left) and shown and keys and "Traceback" not in after
