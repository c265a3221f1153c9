"""Python programs that start at once: forked from a process that has imported what they need.

Of the half second of processor time that a small command takes, imports are most; the suite starts some hundred of
them. A program that is forked is a process like any other: it has its own arguments, environment, folder and output,
is killed as any other, and ends as the interpreter ends it: but its memory is left to the kernel. To clear it object by
object, as the interpreter does, would first copy all that was imported, and take 40 ms of processor time.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

NEEDED = (  # by the commands that tests start most often
    "shoal.cli.app",
    "shoal.cli.crawl",
    "shoal.cli.status",
    "shoal.cli.submit",
    "shoal.cli.worker",
    "shoal.terminal.status_view",
    "shoal.runtime.crawl",
    "shoal.runtime.coordinator",
    "shoal.runtime.submit",
    "shoal.runtime.fleet_worker",
    "shoal.runtime.worker",
    "shoal.frontier.redis.home",
    "shoal.frontier.sqlite",
    "shoal.terminal.live_panel",
    "shoal.terminal.progress_lines",
    "shoal.terminal.summary",
    "shoal.sink.jsonl",
    "uvloop",
    # … which import these when they come to need them
    "email.parser",
    "encodings.idna",
    "encodings.utf_8_sig",
    "pkgutil",
    "shoal.cli.targets",
    "shoal.engine.item_files",
    "shoal.engine.startup",
    "shoal.runtime.child",
    "shoal.sink.text.text_outputs",
    "shoal.telemetry.printing",
)


class Order(msgspec.Struct, frozen=True):
    """A program to start, as `python` would be told: -c and code, or a file; then its arguments."""

    argv: list[str]
    folder: str
    env: dict[str, str]
    out: str  # files; what is said goes to the end of one that is both
    err: str
    in_group: bool  # of processes, its own


class Forker:
    """The process that others are forked from. It ends when this one does."""

    def __init__(self, source: str) -> None:
        self._turn = threading.Lock()  # a test may have crawls in several threads
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            command = [sys.executable, __file__, str(its.fileno()), "shoal"]
            self._process = subprocess.Popen(
                command,
                pass_fds=[its.fileno()],
                env={**os.environ, "PYTHONPATH": source},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # Ctrl-C is for the tests. It stays in their session: to each, Linux gives as much of the processor as
                # to any other, and how late the tests are would say nothing of these programs.
                process_group=0,
            )

    def start(
        self,
        argv: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
        *,
        in_group: bool = False,
    ) -> int:
        """Answers the process id."""
        order = Order([*argv], str(folder), {**env}, str(out), str(err), in_group)
        return self._ask(msgspec.json.encode(order))

    def exit_code(self, pid: int) -> int | None:
        """Of one that has ended, to be asked for once; None: it runs."""
        code = self._ask(b"%d" % pid)
        return None if code == _RUNS else code

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def _ask(self, message: bytes) -> int:
        with self._turn:
            self._socket.send(message)
            return int(self._socket.recv(100))


class Forked:
    """A program that was forked, in place of a subprocess.Popen."""

    def __init__(
        self, source: str, command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path
    ) -> None:
        python, *argv = command
        assert python == sys.executable
        self._forker = forker(source)
        self._code: int | None = None
        self.pid = self._forker.start(argv, folder, env, log, log, in_group=True)

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._forker.exit_code(self.pid)
        return self._code

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


_RUNS = 1_000  # no exit code is like this


@cache
def forker(source: str) -> Forker:
    """One for all tests of this process; `source` is where to import from."""
    forker = Forker(source)
    atexit.register(forker.close)
    return forker


def _import_all() -> None:
    for name in NEEDED:
        __import__(name)
    from shoal.cli import run

    run(["crawl", "--help"])  # imports what typer needs to read a command line
    gc.freeze()  # the collector would touch it all in every child, which copies it


def _serve(orders: socket.socket) -> Order:
    """Answers orders until there are no more. In a child it returns: with what the child is to be."""
    while message := orders.recv(1 << 20):
        if message.isdigit():
            pid, status = os.waitpid(int(message), os.WNOHANG)
            orders.send(b"%d" % (os.waitstatus_to_exitcode(status) if pid else _RUNS))
            continue
        order = msgspec.json.decode(message, type=Order)
        if not (pid := os.fork()):
            return order
        orders.send(b"%d" % pid)
    os._exit(0)


def _become(order: Order) -> None:
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.env)
    if order.in_group:
        os.setpgid(0, 0)
    mode = os.O_APPEND if order.out == order.err else os.O_TRUNC
    for path, stream in ((order.out, 1), (order.err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o644)
        os.dup2(file, stream)
        os.close(file)
    if order.argv[0] == "-c":
        code, sys.argv[:] = order.argv[1], ["-c", *order.argv[2:]]
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv[:] = order.argv
        sys.path.insert(0, str(Path(order.argv[0]).parent))
        runpy.run_path(order.argv[0], run_name="__main__")


def _run(order: Order) -> None:
    """Returns, or raises, if the interpreter is to end it: with a traceback, or words that cannot be written."""
    code = 0
    try:
        _become(order)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    del sys.path[0]  # this folder: what is started has its own
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        order = _serve(orders)
    _run(order)
