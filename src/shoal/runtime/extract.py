"""`shoal extract`: handlers run again on the pages of an archive, in several processes, and nothing is fetched.

    look ──▶ select ──▶ batches ──▶ a process each ──▶ rows, in the order of the archive ──▶ output

A handler may kill its process or never end. Then another process takes the batch, without the page at fault.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from shoal.archive.reader import Choice, PageReader, Spot, Survey
from shoal.archive.selection import Selection
from shoal.archive.warc_source import WarcError
from shoal.archive.warc_stream import Broken
from shoal.errors import ShoalError, SpiderError
from shoal.model import Row
from shoal.runtime.extract_messages import (
    EXAMPLES,
    End,
    ExtractPlan,
    Failed,
    FromChild,
    Locate,
    Located,
    Look,
    Looked,
    Ready,
    Trouble,
    Work,
    Worked,
)
from shoal.runtime.extract_process import ChildProcess

KILLED = "killed"
_BATCH = 64  # pages; one process takes them in a few hundredths of a second
_AHEAD = 8  # batches a process may be ahead of the one whose rows are written next
_LATER = 2.0  # seconds after the time of a handler, until its process is ended
_DEATHS = 20
_TICK = 0.25


class RowsOutput(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...


class Report(Struct):
    """What came of it."""

    files: int = 0
    total: int = 0  # pages that were selected
    done: int = 0  # … and have been handled, or failed
    pages: int = 0  # that were handled
    rows: int = 0
    duplicates: int = 0  # rows with a key that was written before
    seconds: float = 0.0
    looking: bool = True
    counts: Counter[str] = field(default_factory=Counter)  # by the spider
    troubles: Counter[str] = field(default_factory=Counter)  # by kind
    examples: list[Trouble] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)  # by reason
    handlers: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[str, Broken]] = field(default_factory=list)  # with the names of their files


class Extraction:
    def __init__(
        self,
        plan: ExtractPlan,
        output: RowsOutput,
        *,
        processes: int,
        choice: Choice,
        every: bool = False,
        limit: int | None = None,
        show: Callable[[Report], None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._output = output
        self._choice = choice
        self._every = every
        self._limit = limit
        self._show = show
        self._processes = processes
        self._children: list[ChildProcess] = []
        self._selection: Selection | None = None
        self._todo: deque[Work] = deque()
        self._results: dict[int, Worked] = {}
        self._next = 0  # the batch whose rows are written next
        self._keys: set[int] = set()
        self._deaths = 0
        self._began = time.monotonic()
        self.report = Report(files=len(plan.files))

    def run(self) -> Report:
        """Raises ShoalError. The caller finishes the output."""
        try:
            self._children = [ChildProcess(self._plan) for _ in range(self._processes)]
            self._select(self._look())
            self._work()
            for child in self._children:
                child.send(End())
                child.join()
        finally:
            for child in self._children:
                child.kill()
        self._report()
        return self.report

    def _report(self) -> None:
        self.report.seconds = time.monotonic() - self._began
        self._show(self.report)

    # -- looking

    def _look(self) -> list[Survey]:
        files = deque(range(len(self._plan.files)))
        surveys: dict[int, Survey] = {}
        while len(surveys) < len(self._plan.files):
            for child in self._children:
                if child.is_idle and files:
                    child.give(Look(files.popleft(), self._choice))
            for child, message in self._messages():
                if isinstance(message, Looked):
                    surveys[message.file] = message.survey
                    child.idle()
            self._report()
        return [surveys[number] for number in sorted(surveys)]

    def _select(self, surveys: Sequence[Survey]) -> None:
        report, plan = self.report, self._plan
        self._selection = Selection(surveys, every=self._every, limit=self._limit)
        spots = self._selection.spots
        report.total, report.looking = len(spots), False
        report.passed_over = self._selection.passed_over
        for number, survey in enumerate(surveys):
            report.handlers.update(survey.handlers)
            report.broken += [(plan.files[number], broken) for broken in survey.broken]
        size = max(1, min(_BATCH, len(spots) // (8 * self._processes)))
        self._todo.extend(
            Work(number, spots[at : at + size]) for number, at in enumerate(range(0, len(spots), size))
        )

    # -- working

    def _work(self) -> None:
        while self._todo or any(isinstance(child.task, Work) for child in self._children):
            for child in self._children:
                if child.is_idle and self._todo and self._todo[0].number < self._next + self._ahead:
                    child.give(self._todo.popleft())
            for child, message in self._messages():
                if isinstance(message, Worked):
                    child.idle()
                    self._results[message.number] = message
            self._write()
            self._report()

    @property
    def _ahead(self) -> int:
        return _AHEAD * self._processes

    def _write(self) -> None:
        """The rows of the batches that are next."""
        while (done := self._results.pop(self._next, None)) is not None:
            self._next += 1
            report, rows = self.report, []
            for row in done.rows:
                if row.key is not None and row.key in self._keys:
                    report.duplicates += 1
                    continue
                if row.key is not None:
                    self._keys.add(row.key)
                rows.append(row)
            if rows:
                self._output.write(rows)
            report.rows += len(rows)
            report.pages += done.pages
            report.done += done.pages + sum(done.troubles.get(kind, 0) for kind in ("broken", "no_handler"))
            report.counts.update(done.counts)
            report.troubles.update(done.troubles)
            for trouble in done.examples:
                self._remember(trouble)

    def _remember(self, trouble: Trouble) -> None:
        if sum(one.kind == trouble.kind for one in self.report.examples) < EXAMPLES:
            self.report.examples.append(trouble)

    # -- processes

    def _messages(self) -> Iterator[tuple[ChildProcess, FromChild]]:
        """What the processes say within a moment. The dead are replaced."""
        by_connection = {child.connection: child for child in self._children}
        for connection in wait(list(by_connection), timeout=_TICK):
            child = by_connection[connection]  # type: ignore[index]
            try:
                message = child.receive()
            except (EOFError, ConnectionError):
                self._lost(child, f"it killed its process ({child.ending()})")
                continue
            if isinstance(message, Failed):
                raise _error(message)
            if isinstance(message, Ready):
                child.idle()
            elif isinstance(message, Locate):
                assert self._selection is not None
                child.send(Located(self._selection.find(message.request)))
            else:
                yield child, message
        for child in self._children:
            if (
                isinstance(child.task, Work)
                and child.stuck_for() > self._plan.settings.handler_timeout + _LATER
            ):
                child.kill()
                self._lost(child, "it did not end in its time (setting handler_timeout)")

    def _lost(self, child: ChildProcess, why: str) -> None:
        """Without the page at fault, the batch is done by another process."""
        self._deaths += 1
        task = child.task
        if not isinstance(task, Work):
            what = f"looked at {self._plan.files[task.file]}" if isinstance(task, Look) else "had just begun"
            raise ShoalError(f"a process that {what} has died: {child.ending()}")
        spot = task.spots[child.place]
        url, handler = self._named(spot)
        if self._deaths > _DEATHS:
            raise SpiderError(f"{_DEATHS} processes have died on pages; the last on {url}: {why}")
        self.report.troubles[KILLED] += 1
        self.report.done += 1
        self._remember(Trouble(KILLED, url, handler, why))
        self._todo.appendleft(
            replace(task, spots=[*task.spots[: child.place], *task.spots[child.place + 1 :]])
        )
        child.kill()
        self._children[self._children.index(child)] = ChildProcess(self._plan)

    def _named(self, spot: Spot) -> tuple[str, str]:
        reader = PageReader([Path(file) for file in self._plan.files], cap=self._plan.settings.max_body)
        try:
            task = reader.read(spot).task
            return task.url, task.handler
        except (WarcError, OSError):
            return "", ""
        finally:
            reader.close()


def _error(failed: Failed) -> ShoalError:
    error = ShoalError(failed.error)
    error.exit_code = failed.exit_code
    return error
