"""A spool used as a frontier uses it, and killed between any two operations: for every kind of shipper."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from hypothesis import strategies as st

from shoal.model import Row
from shoal.sink import durable
from shoal.sink.spool import Spool


class Crash(BaseException):
    """The process is gone: only a BaseException passes by everything that mends errors."""


class CrashingOs:
    """`os`, until the call that must not happen."""

    CALLS = frozenset({"open", "pwrite", "ftruncate", "unlink", "rename", "fsync", "fdatasync", "replace"})

    def __init__(self) -> None:
        self.left: int | None = None  # calls until then
        self.error: Exception | None = None  # instead of a crash

    def __getattr__(self, name: str) -> object:
        if name in self.CALLS and self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.error or Crash
        return getattr(os, name)


@contextmanager
def crashing_os(*modules: ModuleType) -> Iterator[CrashingOs]:
    fake = CrashingOs()
    with pytest.MonkeyPatch.context() as patch:
        for module in (*modules, durable):
            patch.setattr(module, "os", fake)
        yield fake


Step = tuple[tuple[str, int], int | None]
STEPS = st.lists(
    st.tuples(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 12)),
            st.tuples(st.just("uncommitted"), st.integers(0, 12)),
            st.tuples(st.just("back"), st.integers(1, 4)),
            st.tuples(st.just("finish"), st.just(0)),
            st.tuples(st.just("restart"), st.just(0)),
        ),
        st.one_of(st.none(), st.integers(0, 14)),  # the call at which the process dies
    ),
    max_size=30,
)


class World:
    """The store, which knows what is committed, and the processes that come and go."""

    def __init__(
        self,
        crashing: CrashingOs,
        start: Callable[[], Spool],
        shipped: Callable[[], list[int]],
        row: Callable[[int], Row],
    ) -> None:
        self.crashing = crashing
        self.start = start
        self.shipped = shipped  # the numbers of the rows that are out, in order
        self.row = row
        self.commits: list[tuple[int, int]] = [(0, 0)]  # position, rows
        self.rows: list[int] = []
        self.made = 0
        self.went_back = False
        self.spool = start()

    def run(self, steps: list[Step]) -> None:
        for (action, number), crash_at in steps:
            self.crashing.left = crash_at
            try:
                self.act(action, number)
            except Crash:
                self.crashing.left = None
                self.spool.close()  # the kernel closes its files
                self.spool = self.start()
            self.crashing.left = None
        self.act("append", 1)
        self.act("finish", 0)
        self.spool.close()

    def act(self, action: str, number: int) -> None:
        if action == "restart":
            self.spool.close()
            self.spool = self.start()
        elif action == "finish":
            self.spool.finish(self.commits[-1][0])
            # A position below the last segment may be that of a process which has not seen the last commits. Only
            # `append` knows that the store went back.
            shipped = self.shipped()
            assert shipped == self.rows or (self.went_back and shipped[: len(self.rows)] == self.rows)
        elif action == "back":
            self._go_back(number)
        else:
            self._append(number, commits=action == "append")

    def _go_back(self, commits: int) -> None:
        kept = self.spool.folder.segments()
        if len(self.commits) > commits and kept and kept[0].start <= self.commits[-1 - commits][0]:
            self.went_back = True
            del self.commits[-commits:]
            del self.rows[self.commits[-1][1] :]

    def _append(self, number: int, *, commits: bool) -> None:
        committed, count = self.commits[-1]
        new = list(range(self.made, self.made + number))
        self.made += number
        end = self.spool.append(committed, [self.row(one) for one in new])
        self.went_back = False
        if commits and new:
            self.rows += new
            self.commits.append((end, count + number))
