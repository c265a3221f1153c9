"""Every kind of local output, used at random as a frontier may use it: crashes before the commit, a store that went
back, two processes that take turns, a job that ends and goes on. Read back by programs that are not Shoal."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from benchmarks.outputs.journals import SUFFIXES, open_journal
from benchmarks.outputs.reading import compare, read
from benchmarks.outputs.site import everything, kind_of, rows_of

from shoal.model import Row

PAGES = 60


class Writers:
    """Two processes that write an output in turns, and the store that says how far it is."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self._path, self._rng = path, rng
        self._open = [open_journal(path), open_journal(path)]
        self._written: list[tuple[int, list[int]]] = [(0, [])]  # position, and the pages of each commit
        self._left = list(range(PAGES))  # pages that are not done

    def step(self) -> None:
        """A settlement, most of the time."""
        {0: self._go_back, 1: self._crash, 2: self._end}.get(self._rng.randrange(10), self._settle)()

    def _settle(self) -> None:
        pages = self._left[: self._rng.randrange(4)]
        end = self._append(pages)
        if self._rng.random() < 0.7:  # else a crash before the commit
            assert end >= self._committed
            self._written.append((end, pages))
            del self._left[: len(pages)]
        else:
            self._crash()

    def _append(self, pages: list[int]) -> int:
        rows = [
            Row(msgspec.json.encode(row) + b"\n", table=kind_of(page))
            for page in pages
            for row in rows_of(page, PAGES)
            if kind_of(page) != "brand"  # their key is the frontier's affair
        ]
        end: int = self._rng.choice(self._open).append(self._committed, rows)
        return end

    def _crash(self) -> None:
        self._open.pop(self._rng.randrange(2)).close()
        self._open.append(open_journal(self._path))
        self._open[-1].check(self._committed)

    def _go_back(self) -> None:
        """The store has lost its last commits: the pages are to be done again."""
        lost = self._written[-self._rng.randrange(1, 3) :][1:]
        del self._written[len(self._written) - len(lost) :]
        self._left[:0] = [page for _, pages in lost for page in pages]

    def _end(self) -> None:
        """The end of a run, and of both processes of it. What a crash left is cut off first, while nobody writes."""
        self._open[0].append(self._committed, ())
        for journal in self._open:
            journal.finish(self._committed)
        self.check()

    @property
    def _committed(self) -> int:
        return self._written[-1][0]

    def finish(self) -> None:
        while self._left:
            self.step()
        self._end()
        self._end()

    def check(self) -> None:
        """What is in the file is what was committed, for another program and for ourselves."""
        done = {page for _, pages in self._written for page in pages}
        rows = everything(PAGES)
        expected = {
            name: row
            for name, row in rows.items()
            if row["kind"] != "brand" and int(name.split("-")[1]) in done
        }
        # A Parquet file without rows, and so without columns, is none.
        found = read(self._path) if expected or self._path.exists() else []
        assert compare(found, expected) == []
        again = [row for journal in self._open[:1] for row in journal.read(self._committed)]
        assert compare(again, expected) == []


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_used_at_random(tmp_path: Path, suffix: str) -> None:
    seeds = 1 if suffix.endswith(("gz", "zst", "duckdb")) else 3
    for seed in range(seeds):
        (folder := tmp_path / str(seed)).mkdir()
        Writers(folder / f"rows.{suffix}", random.Random(seed)).finish()
