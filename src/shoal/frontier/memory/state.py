"""What the reference home remembers, as plain dictionaries and heaps."""

from __future__ import annotations

import copy
import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.frontier.rules import marks
from shoal.frontier.values import EARLIER, MOST_SOURCES, OWN_START, Cursor, JobSpec, JobState, Source
from shoal.model import DeadLetter, Lease, Task


@dataclass
class Queue:
    """One job's pending tasks for one host and lane, best first."""

    job: str
    lane: str
    host: str
    due: bool = False  # it stands in the line of those that may be served
    place: float = 0.0  # … there
    heap: list[tuple[int, int, Task]] = field(default_factory=list)

    def push(self, task: Task) -> None:
        heapq.heappush(self.heap, (-task.priority, task.id, task))

    def pop(self) -> Task:
        return heapq.heappop(self.heap)[2]


class Held(NamedTuple):
    """A lease in somebody's hands."""

    worker: str
    lease: Lease
    since: float


@dataclass
class JobRecord:
    spec: JobSpec
    state: JobState
    created_at: float
    finished_at: float = 0.0
    sources: dict[str, Source] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    merged: dict[int, str] = field(default_factory=dict)  # page → the URL that it redirected to
    row_keys: set[int] = field(default_factory=set)
    per_host: Counter[str] = field(default_factory=Counter)
    letters: dict[int, DeadLetter] = field(default_factory=dict)
    journals: dict[str, int] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def open_source(self, name: str, *, again: bool) -> None:
        known = self.sources.get(name)
        if known is None or (again and known.fed_all):
            self.sources[name] = Source()
        if len(self.sources) > MOST_SOURCES:
            self._sum_up()

    def _sum_up(self) -> None:
        through = [name for name, source in self.sources.items() if source.fed_all and name != OWN_START]
        fed = sum(self.sources.pop(name).fed for name in through)
        self.sources[EARLIER] = Source(fed, fed_all=True)

    def move(self, cursor: Cursor) -> None:
        known = self.sources.get(cursor.source, Source())
        fed = known.fed if cursor.fed is None else cursor.fed
        self.sources[cursor.source] = Source(fed, known.fed_all or cursor.fed_all)

    def see(self, task: Task) -> None:
        self.seen.update(marks(task))


def copied(state: Any) -> Any:
    """The state as it is now, whatever becomes of it. Values that cannot change are shared."""
    if isinstance(state, dict):
        twin = copy.copy(state)  # a Counter stays one
        for key, value in state.items():
            twin[key] = copied(value)
        return twin
    if isinstance(state, list):
        return [copied(value) for value in state]
    if isinstance(state, set):
        return set(state)
    if hasattr(state, "__dict__"):
        twin = copy.copy(state)
        vars(twin).update(copied(vars(state)))
        return twin
    return state
