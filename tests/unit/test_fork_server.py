"""What the supervisor and its fork server tell each other. (What a fork is, tests of `--processes` show.)"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator

import msgspec
import pytest

from shoal.runtime import fork_server
from shoal.runtime.fork_server import Ended, ForkServer, Kill, Start, Started, WorkerProcess
from shoal.text import pack


class OtherSide:
    """Answers as the fork server does, and forks nothing."""

    def __init__(self) -> None:
        mine, self._socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.server = ForkServer(mine)

    def close(self) -> None:
        self._socket.close()

    def starting(self) -> asyncio.Task[WorkerProcess]:
        return asyncio.create_task(self.server.start("info", 0, 0))

    async def order(self, said: bytes = b"") -> Start | Kill:
        """The next one. What a worker would say goes to the last of the files that come with a start."""
        message, files, _, _ = await asyncio.to_thread(socket.recv_fds, self._socket, 4096, 3)
        order = msgspec.msgpack.decode(message, type=Start | Kill)
        assert len(files) == (3 if isinstance(order, Start) else 0)
        if said:
            os.write(files[-1], said)
        for file in files:
            os.close(file)
        return order

    def tell(self, *news: Started | Ended) -> None:
        for one in news:
            self._socket.send(pack(one))


@pytest.fixture
def other() -> Iterator[OtherSide]:
    other = OtherSide()
    yield other
    other.close()
    other.server._connection.close()


async def test_a_worker_from_its_start_to_its_end(other: OtherSide) -> None:
    starting = other.starting()
    assert await other.order(b"said\n") == Start("info")
    other.tell(Started(7), Ended(7, 3))  # at once: nobody has looked at it yet
    worker = await starting
    assert worker.pid == 7
    assert worker.stderr is not None
    assert await worker.stderr.read() == b"said\n"
    assert (await worker.wait(), worker.returncode) == (3, 3)
    worker.kill()  # too late: the number may be another's
    other.server.kill(8)
    assert await other.order() == Kill(8)


async def test_it_is_killed_by_its_parent(other: OtherSide) -> None:
    starting = other.starting()
    await other.order()
    other.tell(Started(7))
    worker = await starting
    worker.kill()
    assert await other.order() == Kill(7)
    assert worker.returncode is None
    other.tell(Ended(7, -9))
    assert await worker.wait() == -9


@pytest.mark.parametrize("turns", range(1, 5))
async def test_one_that_nobody_waits_for_any_more_is_killed(other: OtherSide, turns: int) -> None:
    """Whether it was cancelled while it waited for the worker, or before."""
    starting = other.starting()
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    assert await other.order() == Start("info")
    other.tell(Started(7))
    assert await other.order() == Kill(7)
    other.tell(Ended(7, -9))


async def test_workers_end_with_the_fork_server(other: OtherSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_server", other.server)
    assert fork_server.fork_server() is other.server
    first = other.starting()
    await other.order()
    other.tell(Started(7))
    worker = await first
    second = other.starting()
    await other.order()
    other.close()
    assert await worker.wait() == await (await second).wait() == -signal.SIGKILL
    assert fork_server.fork_server() is None  # the next is executed


@pytest.mark.parametrize("has_read", [True, False])
def test_a_command_that_ends_has_no_more_orders(has_read: bool) -> None:
    """To the other side of a socket, an end before all was read is an error."""
    command, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.send(pack(Ended(7, 0)))
        if has_read:
            command.recv(4096)
        command.close()
        assert fork_server._next_order(ours) == (b"", [])


def test_only_a_command_that_is_guarded_forks_one() -> None:
    fork_server.prepare_workers()
    assert fork_server.fork_server() is None
