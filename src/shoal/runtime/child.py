"""A worker process of a supervisor: `python -m shoal.runtime.child`. Its plan comes on a socket that it inherits."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which are most of its start
    from shoal.engine.startup import postpone_collection

    postpone_collection()

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shoal.engine.event_loop import run_loop
from shoal.engine.guardian import Guarded, guarded, take_guard
from shoal.engine.liveness import Liveness, die_with
from shoal.errors import ShoalError
from shoal.frontier import hint_at
from shoal.runtime.fleet_worker import serve
from shoal.runtime.signals import Stoppable, following_guardian
from shoal.runtime.supervisor import ChildMessage, framed, receive_plan
from shoal.runtime.worker import Worker
from shoal.spider import debugging
from shoal.telemetry.logging import set_up
from shoal.telemetry.printing import give_stdout_back, take_stdout

_EVERY = 0.5  # seconds between reports


class Parent:
    """The connection to the process that started this one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: ChildMessage) -> None:
        try:
            self._connection.sendall(framed(message))
        except OSError:
            pass  # the parent is gone; its closed end also stops the engine

    async def report_regularly(self, worker: Worker) -> None:
        try:
            while True:
                self._report(worker)
                await asyncio.sleep(_EVERY)
        finally:
            self._report(worker)

    def _report(self, worker: Worker) -> None:
        self.send(
            ChildMessage(
                worker.report(), worker.feeding_paused(), vitals=worker.vitals(), trouble=worker.hangs()
            )
        )


@contextmanager
def following_parent(worker: Stoppable) -> Iterator[None]:
    """Drains or hands back at once, as the parent says; drains when the parent is gone."""
    mine = guarded()
    assert mine is not None, "a child has a parent"
    with following_guardian(mine, worker.stop, worker.force, 0.0):
        yield


def main(argv: Sequence[str]) -> int:
    """Works by its plan; returns the exit code. `argv`: the level of the log, the parent's process id, and the numbers
    of two inherited files: the socket to the parent and the liveness file."""
    level, *numbers = argv
    parent_pid, number, liveness = map(int, numbers)
    die_with(parent_pid)
    take_guard(Guarded(Liveness(liveness), number))
    # What a service manager sends to all processes of a group, the parent passes on in its own way.
    signal.signal(signal.SIGTERM, lambda *_: None)
    set_up(level, "json")
    take_stdout()
    debugging.allow_none("it needs --processes 1")
    connection = socket.socket(fileno=number)
    plan, parent = receive_plan(connection), Parent(connection)
    hint_at(plan.store)
    try:
        run_loop(serve(plan, following_parent, parent.report_regularly))
    except ShoalError as error:
        parent.send(ChildMessage(error=str(error)))
        return error.exit_code
    finally:
        give_stdout_back()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
