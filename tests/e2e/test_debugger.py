"""A person in a debugger, on a terminal: nothing ends the handler meanwhile, and the crawl goes on afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.harness import Desk, until
from shoal.testing import HostProfile, WebProcess

PAGES = 6
TIMEOUT = 3.0  # of a handler; a busy machine may stop one for seconds
GUARDIAN = 2.0  # seconds after which the guardian would end the process, beyond that
SPIDER = """
import asyncio
import logging
from shoal import Spider

spider = Spider("shop", start={url!r}, rate=0, robots=False, trust_start=True, handler_timeout={timeout})


@spider.handler
def listing(page):
    print("printed by the handler")
    logging.warning("logged by the handler")
    seen = 17
    breakpoint()
    seen += 1
    yield {{"url": page.url, "seen": seen}}
    yield from page.follow_all("a", product)


@spider.handler
async def product(page):
    await asyncio.sleep(0)
    yield {{"url": page.url}}
    for link in page.follow_all("a"):
        yield link
"""
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # the cursor: a panel hides it
# The terminal becomes the one of the session, as in a shell: Ctrl-C reaches all processes of the command.
SHOAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from shoal.cli import main; main()"


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, folder: Path, *argv: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(self._master, False)
        self._process = subprocess.Popen(
            [sys.executable, "-c", SHOAL, *argv],
            stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        self.text = ""
        self._from = 0
        self._hung_up = False

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if not self._hung_up:
            os.close(self._master)

    def hang_up(self) -> None:
        """The window is closed."""
        self._hung_up = True
        os.close(self._master)
        until(lambda: self._process.poll() is not None, "the end of the command")

    def _read(self) -> bool:
        try:
            self.text += os.read(self._master, 1 << 16).decode(errors="replace")
        except OSError:
            pass  # there is nothing yet, or the process has ended
        return True

    def wait_for(self, word: str) -> None:
        """Waits until the word is shown, after what was waited for before."""
        until(lambda: self._read() and word in self.text[self._from :], f"{word} after {self.text}")
        self._from = self.text.index(word, self._from) + len(word)

    def type(self, command: str) -> None:
        """Types it at the next prompt."""
        self.wait_for("(Pdb) ")
        os.write(self._master, command.encode() + b"\r")

    def code(self) -> int:
        until(lambda: self._read() and self._process.poll() is not None, f"the end after {self.text}")
        self._read()
        return self._process.returncode

    def lines(self) -> list[str]:
        """What was written, without what moves the cursor and colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.text).splitlines()


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=PAGES)}) as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path, web: WebProcess) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        desk.file("shop.py", SPIDER.format(url=web.url("site"), timeout=TIMEOUT))
        yield desk


def urls(desk: Desk) -> set[str]:
    return {json.loads(line)["url"] for line in desk.rows_path.read_text().splitlines()}


CRAWL = ("crawl", "shop.py", "-o", "rows.jsonl")


def test_a_handler_stands_at_a_breakpoint_for_longer_than_it_may_take(desk: Desk) -> None:
    with Terminal(desk.folder, *CRAWL) as terminal:
        terminal.type("p seen * 100")
        terminal.wait_for("1700")
        deadline = time.monotonic() + TIMEOUT + GUARDIAN + 1.0
        until(lambda: time.monotonic() > deadline, "the time of a handler, what the guardian adds, and more")
        terminal.type("n")
        terminal.type("p seen * 100")
        terminal.wait_for("1800")
        terminal.type("c")
        assert terminal.code() == 0
    assert len(urls(desk)) == PAGES
    lines = terminal.lines()
    assert "printed by the handler" in lines
    assert [line[9:] for line in lines if "WARNING" in line] == ["WARNING root: logged by the handler"]
    assert "╭─ shop finished" in "\n".join(lines)
    before, _, after = terminal.text.partition("(Pdb) ")
    assert before.rindex(SHOWN) > before.rindex(HIDDEN), "the panel has given way"
    assert HIDDEN not in after


def test_a_handler_that_is_named_stops_for_each_page(desk: Desk) -> None:
    with Terminal(desk.folder, *CRAWL, "--debug", "product") as terminal:
        terminal.type("c")  # the breakpoint of `listing`
        terminal.wait_for("product()")
        terminal.type("p page.task.handler, page.depth")
        terminal.wait_for("('product', 1)")
        terminal.type("n")
        terminal.wait_for("yield {")
        terminal.type("c")
        terminal.wait_for("product()")
        terminal.type("clear 1")
        terminal.type("c")
        assert terminal.code() == 0
    assert len(urls(desk)) == PAGES


def test_who_quits_ends_the_crawl_and_loses_nothing(desk: Desk) -> None:
    with Terminal(desk.folder, *CRAWL) as terminal:
        terminal.type("q")
        assert terminal.code() == 0
    assert "stopped before the end; run the same command again to go on" in terminal.lines()
    assert "BdbQuit" not in terminal.text
    assert desk.rows_path.read_text() == ""
    ran = desk.finish(*CRAWL)  # without a terminal
    assert len(urls(desk)) == PAGES
    assert ran.err.count("is passed over: there is no terminal") == 1


def test_a_terminal_that_is_closed_buries_no_page(desk: Desk) -> None:
    with Terminal(desk.folder, *CRAWL) as terminal:
        terminal.wait_for("(Pdb) ")
        terminal.hang_up()
    desk.finish(*CRAWL)
    assert len(urls(desk)) == PAGES
