"""`page.main_text()` and `page.markdown()`: asked of a process beside this one, so that the event loop goes on
meanwhile and a page that takes too long costs that process and nothing else."""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from shoal.errors import SpiderError, UsageError
from shoal.html.main_text import Answer, Form, Question, read_message, write_message
from shoal.limits import MAIN_TEXT_SECONDS

if TYPE_CHECKING:
    from shoal.spider.page import Page

_ENDING = 2.0  # seconds for it to end by itself


class TextProcess:
    """A process that is started when it is first asked, and again after it was ended."""

    def __init__(self, seconds: float = MAIN_TEXT_SECONDS) -> None:
        self._seconds = seconds  # of CPU for one page
        # One page at a time. A pool of its own: pages that wait here would keep others waiting in the usual one.
        self._thread: ThreadPoolExecutor | None = None
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def __repr__(self) -> str:
        return f"<TextProcess {self._process.pid if self._process else 'not started'}>"

    async def ask(self, question: Question) -> Answer:
        if self._thread is None or self._owner != os.getpid():
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="shoal-text")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, question)

    def _ask(self, question: Question) -> Answer:
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                write_message(process.stdin, question)  # type: ignore[arg-type]
                data = read_message(process.stdout)  # type: ignore[arg-type]
            except OSError:
                data = None
            if data is None:
                code = self._end()
                if code > 0:  # it was not ended by the system
                    return Answer(
                        error="trafilatura does not work here: python -c 'import trafilatura' says why"
                    )
                return Answer(error=f"it took more than {self._seconds:g} s of CPU, or too much memory")
            return msgspec.msgpack.decode(data, type=Answer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner != os.getpid():
            self._process = None  # that of the process that this one was forked from
        if self._process is None:
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shoal.html.main_text", str(self._seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            atexit.register(self.close)
        return self._process

    def close(self) -> None:
        """Ends it."""
        with self._lock:
            if self._owner == os.getpid():
                self._end()

    def _end(self) -> int:
        """Returns how it ended; negative: by a signal."""
        process, self._process = self._process, None
        if process is None:
            return 0
        atexit.unregister(self.close)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()  # it ends when there is nothing more to read
        except OSError:
            pass
        try:
            process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        return process.returncode


_PROCESS = TextProcess()


def check_installed(who: str) -> None:
    """Raises UsageError if the extra is missing."""
    if find_spec("trafilatura") is None:
        raise UsageError(f"{who} needs trafilatura: pip install 'shoal[text]'")


async def extract_text(page: Page, form: Form) -> str:
    """The main text of a page. Raises SpiderError if there is none because the page is too much for it."""
    check_installed(f"page.{'markdown' if form == 'markdown' else 'main_text'}()")
    answer = await _PROCESS.ask(Question(page.html, page.base, form))
    if answer.error:
        raise SpiderError(f"the main text of {page.url} cannot be found: {answer.error}")
    return answer.text


def close() -> None:
    """Ends the process, if there is one. Tests that count processes call it; otherwise it ends with the program."""
    _PROCESS.close()
