"""A process that worker processes are forked from: most of the time that one takes to start are its imports.

A command forks it as soon as it knows that it will have workers: after the imports that they need, and before there is
an event loop, a thread, a connection or a spider. This is for Linux. Elsewhere, and where a command learns from its
spider or a file how many workers there are, each of them is executed and imports for itself.

The kernel ends the fork server with the command, and the workers with the fork server, however these end.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import Struct

from shoal.engine.guardian import guarded
from shoal.engine.liveness import die_with
from shoal.text import pack

_LONGEST = 4_096  # bytes of a message
_FILES = 3  # that a worker is given
_LOST = -signal.SIGKILL  # how workers end if the fork server does


class WorkerProcess(Protocol):
    """What the supervisor needs of a process, as asyncio has it."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stderr(self) -> asyncio.StreamReader | None: ...
    def kill(self) -> None: ...
    async def wait(self) -> int: ...


class Start(Struct, frozen=True, tag=True):
    """Fork a worker. Three files come with it: its socket, its liveness file, its stderr."""

    log_level: str


class Kill(Struct, frozen=True, tag=True):
    pid: int


class Started(Struct, frozen=True, tag=True):
    """The answer to `Start`."""

    pid: int


class Ended(Struct, frozen=True, tag=True):
    pid: int
    code: int  # as subprocess.Popen has it


_decode_order = msgspec.msgpack.Decoder(Start | Kill).decode
_decode_news = msgspec.msgpack.Decoder(Started | Ended).decode

_server: ForkServer | None = None


def fork_server() -> ForkServer | None:
    """The one of this process, if it has one."""
    return _server if _server is not None and _server.alive else None


def prepare_workers() -> None:
    """Forks the fork server where that is clean: by a command that a guardian watches, before it has done anything.
    Returns in the command. In a worker it raises SystemExit with the worker's exit code."""
    global _server
    if guarded() is None or sys.platform != "linux":
        return
    from shoal.runtime import child

    _import_for_all()
    if threading.active_count() > 1:
        return  # another thread may hold a lock, which nobody would ever release in the fork
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    if pid := os.fork():
        theirs.close()
        _server = ForkServer(ours)
        atexit.register(_end, ours, pid)
        return
    ours.close()
    raise SystemExit(child.main(_serve(theirs, parent)))


def _end(connection: socket.socket, pid: int) -> None:
    connection.close()
    os.waitpid(pid, 0)


class ForkServer:
    """The connection of the command to its fork server."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._starting = deque[tuple[asyncio.Future[ForkedWorker], asyncio.StreamReader]]()
        self._workers: dict[int, ForkedWorker] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.alive = True

    async def start(self, log_level: str, connection: int, liveness: int) -> WorkerProcess:
        """A new worker, which gets copies of these files."""
        self._listen()
        loop = asyncio.get_running_loop()
        started, stderr = loop.create_future(), asyncio.StreamReader()
        reading, writing = os.pipe()
        self._starting.append((started, stderr))
        try:
            socket.send_fds(self._connection, [pack(Start(log_level))], [connection, liveness, writing])
        except OSError:
            self._close()
        finally:
            os.close(writing)
        try:
            await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(stderr), os.fdopen(reading, "rb", buffering=0)
            )
            worker: ForkedWorker = await started
        except BaseException:
            # Cancelled, perhaps before it waited for the worker: nobody else would know of it.
            if not started.cancel() and not started.cancelled():
                started.result().kill()
            raise
        return worker

    def kill(self, pid: int) -> None:
        """The fork server does it, for it knows whether the process with this number is still the worker."""
        try:
            self._connection.send(pack(Kill(pid)))
        except OSError:
            pass  # it is gone, and its workers with it

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.add_reader(self._connection, self._read)

    def _read(self) -> None:
        try:
            message = self._connection.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        match _decode_news(message) if message else None:
            case Started(pid):
                self._started(pid)
            case Ended(pid, code):
                self._workers.pop(pid).end(code)
            case None:
                self._close()

    def _started(self, pid: int) -> ForkedWorker:
        started, stderr = self._starting.popleft()
        worker = self._workers[pid] = ForkedWorker(self, pid, stderr)
        if started.cancelled():
            worker.kill()  # nobody waits for it any more
        else:
            started.set_result(worker)
        return worker

    def _close(self) -> None:
        """It is gone, and its workers with it. The next worker is executed."""
        self.alive = False
        if self._loop is not None:
            self._loop.remove_reader(self._connection)
        while self._starting:
            self._started(0)
        for worker in self._workers.values():
            worker.end(_LOST)
        self._workers.clear()


class ForkedWorker:
    """A worker process that is a child of the fork server."""

    def __init__(self, server: ForkServer, pid: int, stderr: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stderr: asyncio.StreamReader | None = stderr
        self.returncode: int | None = None
        self._server = server
        self._ending = asyncio.Event()

    def kill(self) -> None:
        if self.returncode is None:
            self._server.kill(self.pid)

    async def wait(self) -> int:
        await self._ending.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, code: int) -> None:
        self.returncode = code
        self._ending.set()


# -- in the fork server


def _serve(orders: socket.socket, parent: int) -> list[str]:
    """Forks workers until the command is gone. Returns in a worker: with its arguments."""
    die_with(parent)
    os.setsid()  # Ctrl-C is for the command
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    gc.freeze()  # the collector would touch it all in every worker, which copies it
    wakes, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    workers, mine = set[int](), os.getpid()
    while True:
        ready, _, _ = select.select([orders.fileno(), wakes], [], [])
        if wakes in ready:
            os.read(wakes, 1_024)
            for pid, code in _ended(workers):
                workers.discard(pid)
                _tell(orders, Ended(pid, code))
        if orders.fileno() not in ready:
            continue
        message, files = _next_order(orders)
        if not message:
            os._exit(0)
        match _decode_order(message):
            case Kill(pid):
                if pid in workers:
                    os.kill(pid, signal.SIGKILL)
            case Start(log_level):
                if not (pid := os.fork()):
                    orders.close()
                    _become_worker(wakes, waker, files.pop())
                    return [log_level, *map(str, (mine, *files))]
                workers.add(pid)
                for file in files:
                    os.close(file)
                _tell(orders, Started(pid))


def _next_order(orders: socket.socket) -> tuple[bytes, list[int]]:
    """A message and the files with it; no message when the command is gone."""
    try:
        message, files, _, _ = socket.recv_fds(orders, _LONGEST, _FILES)
    except ConnectionResetError:  # it has gone without reading all our news
        return b"", []
    return message, files


def _become_worker(wakes: int, waker: int, stderr: int) -> None:
    """A session of its own, and signals as in a process that was executed."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.dup2(stderr, 2)
    for file in (wakes, waker, stderr):
        os.close(file)


def _ended(workers: set[int]) -> Iterator[tuple[int, int]]:
    for worker in tuple(workers):
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            yield pid, os.waitstatus_to_exitcode(status)


def _tell(orders: socket.socket, news: Started | Ended) -> None:
    try:
        orders.send(pack(news))
    except OSError:
        os._exit(0)  # the command is gone


def _import_for_all() -> None:
    """What workers would import one by one when they need it."""
    with suppress(ImportError):
        import uvloop  # noqa: F401
    with suppress(ImportError):
        import shoal.fetch.ares_lookup  # noqa: F401
