"""A program on a terminal of its own, as a person uses it: wait for what is shown, then type."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SHOAL = (sys.executable, "-m", "shoal")
DEADLINE = 60.0
ROWS, COLUMNS = 40, 120
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[()=>78]?[0-9A-B]?")


class Terminal:
    def __init__(self, argv: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self._argv, self._folder, self._environ = argv, folder, environ or {}
        self._raw = b""
        self._seen = 0  # how much of the text was expected already

    def __enter__(self) -> Terminal:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", **self._environ}
        self.process = subprocess.Popen(
            self._argv,
            stdin=slave, stdout=slave, stderr=slave, cwd=self._folder, env=environ, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """All that was shown, without colours and movements."""
        return _CONTROL.sub("", self._raw.decode(errors="replace")).replace("\r", "")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, word: str) -> str:
        """Waits until the word is shown, after what was expected before; answers what was shown up to it."""
        deadline = time.monotonic() + DEADLINE
        while (at := self.text.find(word, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{word!r} is not on the screen:\n{self.text}")
        before, self._seen = self.text[self._seen : at], at + len(word)
        return before

    def interrupt(self) -> None:
        """Ctrl-C, once the program waits: Python's readline forgets one between the prompt and its wait for a key."""
        status = Path(f"/proc/{self.process.pid}/status")
        self.until(lambda: "\nState:\tS" in status.read_text())
        self.process.send_signal(signal.SIGINT)

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something that happens elsewhere, while the program runs. What it shows is read meanwhile: it would
        wait for that."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            self._read(time.monotonic() + 0.02)
            assert self.process.poll() is None, f"the program has ended:\n{self.text}"
            assert time.monotonic() < deadline, f"it did not happen:\n{self.text}"

    def end(self) -> int:
        """Waits for the end of the program; answers its exit code."""
        deadline = time.monotonic() + DEADLINE
        while self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        """False: nothing more comes."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        try:
            more = os.read(self._master, 1 << 16) if ready else b""
        except OSError:  # the program has ended
            more = b""
        self._raw += more
        return bool(more)
