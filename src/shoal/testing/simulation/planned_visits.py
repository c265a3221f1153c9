"""Pages that are visited again: which visits were planned, and what they must have told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.model import Task
from shoal.model.page_record import PageRecord


class PlannedVisit(Struct, frozen=True):
    due: float
    url: str
    record: PageRecord
    page: int | None = None  # its fingerprint


class PlannedVisits:
    def __init__(self) -> None:
        self._planned: list[PlannedVisit] = []  # those that have not begun
        self._under_way: dict[int, PlannedVisit] = {}  # those that are not over, by the task's id

    @property
    def planned(self) -> int:
        return len(self._planned)

    def later_than(self, now: float) -> int:
        return sum(visit.due > now for visit in self._planned)

    def pages(self) -> set[str]:
        """All that are followed."""
        return {visit.url for visit in (*self._planned, *self._under_way.values())}

    def end(self, task: Task) -> None:
        self._under_way.pop(task.id, None)

    def plan(self, task: Task, due: float, record: PageRecord) -> None:
        self._planned.append(PlannedVisit(due, task.url, record, task.fingerprint))

    def begin(self, task: Task) -> PlannedVisit | None:
        """The visit that was planned, if there is one. The task may have another id than before, which it keeps until
        the visit is over."""
        if task.id in self._under_way:
            return self._under_way[task.id]
        for number, visit in enumerate(self._planned):
            if (visit.url, visit.record) == (task.url, task.record):
                self._under_way[task.id] = self._planned.pop(number)
                return visit
        return None

    def hasten(self, pages: Collection[int], now: float) -> None:
        self._planned = [
            replace(visit, due=min(visit.due, now)) if visit.page in pages else visit
            for visit in self._planned
        ]


def faults_of_feed(rows: Sequence[bytes]) -> Iterator[str]:
    """What is wrong with items that have a url and a version, and with the change rows between them: each version is
    told once, in its order, and each change from one to the next is, too."""
    appeared: set[str] = set()
    versions: dict[str, list[int]] = {}
    changes: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        item: dict[str, Any] = msgspec.json.decode(row)
        if "version" in item:
            versions.setdefault(item["url"], []).append(item["version"])
        elif item["field"] == "version":
            changes.setdefault(item["key"], []).append((item["old"], item["new"]))
        elif item["change"] != "appeared" or item["key"] in appeared:
            yield f"a change that nobody made: {item}"
        else:
            appeared.add(item["key"])
    for url, told in versions.items():
        if told != sorted(set(told)):
            yield f"{url} has the versions {told}"
        if changes.get(url, []) != list(pairwise(told)):
            yield f"{url} has the versions {told}, and the changes {changes.get(url)}"
    yield from (f"changes of {url}, which has no row" for url in changes.keys() - versions.keys())
