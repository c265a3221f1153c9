"""What a worker says about itself with its heartbeats."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from shoal.frontier.protocol import WorkerRecord
from shoal.policy.backpressure import Reason


class WorkerStatus(Struct, frozen=True, omit_defaults=True):
    pid: int = 0
    job: str = ""
    in_flight: int = 0
    lanes: tuple[str, ...] = ()  # that it serves
    paused_lanes: frozenset[str] = frozenset()  # of these, by backpressure
    pressure: tuple[Reason, ...] = ()  # the backpressure rules that hold it back


encode_status = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerStatus).decode


def status_of(record: WorkerRecord) -> WorkerStatus:
    try:
        return _decode(record.status) if record.status else WorkerStatus()
    except msgspec.DecodeError:
        return WorkerStatus()  # another version's words
