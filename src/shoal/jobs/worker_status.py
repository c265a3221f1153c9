"""What a worker says about itself with its heartbeats."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal import __version__
from shoal.events import event
from shoal.frontier.protocol import Viewing
from shoal.frontier.values import WorkerRecord
from shoal.policy.backpressure import Reason
from shoal.text import UNREADABLE
from shoal.text.humanize import plural


class WorkerStatus(Struct, frozen=True, omit_defaults=True):
    pid: int = 0
    job: str = ""  # if it serves just one
    in_flight: int = 0
    lanes: tuple[str, ...] = ()  # that it serves
    paused_lanes: frozenset[str] = frozenset()  # of these, by backpressure
    pressure: tuple[Reason, ...] = ()  # the backpressure rules that hold it back
    node: str = ""  # the name of its machine
    jobs: tuple[str, ...] = ()  # that it serves now
    spiders: tuple[str, ...] = ()  # whose jobs it would serve
    rates: dict[str, float] = {}  # pages done per second, lately, by job
    memory: int = 0  # bytes; 0: not known
    slots: int = 0  # how many pages it may work on at once
    flights: dict[str, int] = {}  # how many it has in flight, by lane
    waiting: int = 0  # of these, how many only wait and hold no slot
    silent: float = 0.0  # seconds since it was heard, if that is long; filled in by `heard`
    waits: dict[str, str] = {}  # jobs whose rows cannot be written for a while: what they wait for
    version: str = ""  # of Shoal; "": one that did not say yet
    layout: int = 0  # of stores on a server, that this version knows

    @property
    def at_work(self) -> bool:
        return bool(self.in_flight or self.rates)

    @property
    def rate(self) -> float:
        return sum(self.rates.values())

    @property
    def used(self) -> int:
        """How many of its slots are used."""
        return self.in_flight - self.waiting

    def serves(self, job: str) -> bool:
        return job in self.jobs or job == self.job


_SILENT, _SILENT_IDLE = 6.0, 15.0  # seconds; one at work says something every two, one without every five


def is_silent(record: WorkerRecord, now: float) -> bool:
    """Whether it has died, hangs or is cut off. Nobody waits for it. If it comes back, what it does is refused or
    harmless: leases have tokens, and a job that was made anew is another job."""
    status = status_of(record)
    return now - record.seen_at > (_SILENT if status.at_work else _SILENT_IDLE) or _is_gone(status)


def _is_gone(status: WorkerStatus) -> bool:
    """Whether the process has ended for certain; only processes of this machine can be checked."""
    if status.node != socket.gethostname() or not status.pid:
        return False
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # another user's
    return False


encode_status = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerStatus).decode


def heard(record: WorkerRecord, now: float) -> WorkerStatus:
    """The status of a worker; of a silent one, without its rates."""
    status = status_of(record)
    if not is_silent(record, now):
        return status
    return replace(status, silent=max(0.1, now - record.seen_at), rates={})


def status_of(record: WorkerRecord) -> WorkerStatus:
    try:
        return _decode(record.status) if record.status else WorkerStatus()
    except UNREADABLE:
        return WorkerStatus()  # written by another version


# -- versions of Shoal that work side by side on a store

_UNKNOWN = "0.1.0 or older"  # their workers do not send it


def versions_of(workers: Iterable[WorkerStatus]) -> Counter[str]:
    return Counter(worker.version or _UNKNOWN for worker in workers)


def side_by_side(workers: Iterable[WorkerStatus]) -> str:
    """One sentence if there are several versions."""
    found = versions_of(workers)
    if len(found) < 2:
        return ""
    told = ", ".join(f"{plural(count, 'worker')} of {version}" for version, count in sorted(found.items()))
    return f"several versions of Shoal work here: {told}"


async def tell_other_versions(frontier: Viewing) -> None:
    """Reports workers of other versions to a process that joins a fleet."""
    others = versions_of([status_of(record) for record in await frontier.workers()])
    del others[__version__]
    for version, count in sorted(others.items()):
        event("other_version", version=__version__, other=version, workers=count)
