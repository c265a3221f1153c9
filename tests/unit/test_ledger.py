"""What a run has counted outlives its process, and a write that was cut off harms nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from shoal.engine.liveness import shared_file
from shoal.engine.tally import Ledger, RunTotals, TallyReport


@pytest.fixture
def file() -> Iterator[int]:
    made = shared_file("test")
    yield made
    os.close(made)


def page(pages: int, elapsed: float = 1.0) -> RunTotals:
    return RunTotals(TallyReport(pages=pages, in_flight=3, errors={"timeout": 2}), elapsed)


def test_the_next_process_goes_on_with_what_was_written_last(file: int) -> None:
    first = Ledger(file)
    assert first.before == RunTotals()
    for number in range(5):
        first.write(page(number))
    before = Ledger(file).before
    assert (before.report.pages, before.report.errors, before.elapsed) == (4, {"timeout": 2}, 1.0)
    assert (before.report.in_flight, before.restarts) == (0, 1)


def test_a_second_death_counts_on(file: int) -> None:
    Ledger(file).write(page(1))
    second = Ledger(file)
    second.write(RunTotals(TallyReport(pages=7), 2.0, second.before.restarts))
    assert (Ledger(file).before.report.pages, Ledger(file).before.restarts) == (7, 2)


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_write_that_was_cut_off_leaves_the_one_before(file: int, cut: int) -> None:
    ledger = Ledger(file)
    for number in (1, 2, 3):
        ledger.write(page(number))
    # The third write went to the slot of the first; of a fourth, only the beginning got through.
    other = shared_file("other")
    elsewhere = Ledger(other)
    for number in (1, 2, 3, 4_000_000):
        elsewhere.write(page(number))
    started = os.pread(other, cut, 0)
    os.close(other)
    os.pwrite(file, started, 0)
    assert Ledger(file).before.report.pages == 3


def test_junk_and_no_file_count_as_nothing(file: int) -> None:
    os.pwrite(file, b"\xff" * 100, 0)
    assert Ledger(file).before == RunTotals()
    Ledger(None).write(page(1))
    assert Ledger(None).before == RunTotals()
