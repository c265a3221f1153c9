"""What was fed in the last seconds, in case the store goes back and has forgotten it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from shoal.model import Task

# Seconds. A power cut costs a store two at most, a failover as much as its replica lags behind; if one of several
# shards has gone back, the position is that of a minute ago. On top comes the time that the store is away.
LASTS = 120.0
_MOST = 50_000  # tasks


class _Batch(Struct, frozen=True):
    at: float  # monotonic
    position: int  # of the source, after it
    tasks: Sequence[Task]


class Recent:
    """The latest batches of one source, up to a position; of what came before nothing is remembered. `anew`: the source
    was read from its beginning, whatever the store knew of it then."""

    def __init__(self, position: int, *, anew: bool) -> None:
        self._anew = anew
        self._reaches = position  # back to here
        self._batches: deque[_Batch] = deque()
        self._size = 0
        self._has_all = True  # nothing was forgotten yet

    def __repr__(self) -> str:
        return f"<Recent: {self._size} tasks beyond {self._reaches}>"

    def __bool__(self) -> bool:
        return bool(self._batches)

    def keep(self, tasks: Sequence[Task], position: int, now: float) -> None:
        self._batches.append(_Batch(now, position, tasks))
        self._size += len(tasks)
        self.forget(now)

    def forget(self, now: float) -> None:
        """What is too old, or too much."""
        batches = self._batches
        while batches and (batches[0].at < now - LASTS or (self._size > _MOST and len(batches) > 1)):
            oldest = batches.popleft()
            self._size -= len(oldest.tasks)
            self._reaches, self._has_all = oldest.position, False

    def since(self, fed: int) -> list[Task] | None:
        """What must be added again where `fed` is all that the store knows of; None: that is too long ago to be
        remembered. Of a source that is read anew `fed` may be from another time: then everything is."""
        if fed < self._reaches or (self._anew and fed > self._position and not self._has_all):
            return None
        return [task for batch in self._batches if self._anew or batch.position > fed for task in batch.tasks]

    @property
    def _position(self) -> int:
        return self._batches[-1].position if self._batches else self._reaches
