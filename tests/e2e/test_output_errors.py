"""An output that fails while pages are in flight: exit code 3, and the same command does each with its one attempt."""

from __future__ import annotations

import csv
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.harness import DEADLINE, SHOAL, Desk, add_up, environment, until
from shoal.testing import HostProfile, WebProcess

PAGES = 120
# Slow enough that pages are in flight whenever the output fails.
ONE_TRY = ("--rate", "100", "-s", "max_attempts=1", "--quiet")


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {
        "site": HostProfile("fast", pages=PAGES, links=12, latency=0.05),
        "slow": HostProfile("slow", pages=PAGES, links=12, latency=0.4),
    }
    with WebProcess(hosts) as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


def check_handed_back(desk: Desk) -> None:
    status = desk.status()
    assert add_up(status)
    assert status["done"] < PAGES
    assert (status["leased"], status["dead"], status["retried"]) == (0, 0, 0)


def check_finished(desk: Desk) -> None:
    status = desk.status()
    assert add_up(status)
    assert (status["state"], status["done"], status["dead"]) == ("finished", PAGES, 0)


def test_a_file_that_is_moved_away_and_back(desk: Desk, web: WebProcess) -> None:
    command = ("crawl", web.url("site"), "-o", "rows.csv", "--per-host", "8", *ONE_TRY)
    rows, aside = desk.folder / "rows.csv", desk.folder / "aside.csv"
    running = desk.start(*command)
    until(lambda: rows.exists() and rows.stat().st_size > 500, "rows")
    rows.rename(aside)
    assert running.code() == 3, running.err
    assert "rows.csv does not hold what this job has written" in running.err
    check_handed_back(desk)
    aside.rename(rows)
    desk.finish(*command)
    check_finished(desk)
    with rows.open(newline="") as file:
        assert sorted(row["url"] for row in csv.DictReader(file)) == sorted(web.pages_of("site"))


def test_the_other_processes_hand_their_pages_back_too(desk: Desk, web: WebProcess) -> None:
    """The host takes its time: when one process meets the error, the other waits for answers."""
    command = ("crawl", web.url("slow"), "-o", "rows.csv", "--processes", "2", "--per-host", "16", *ONE_TRY)
    rows, aside = desk.folder / "rows.csv", desk.folder / "aside.csv"
    running = desk.start(*command)
    until(lambda: rows.exists() and rows.stat().st_size > 500, "rows")
    rows.rename(aside)
    assert running.code() == 3, running.err
    check_handed_back(desk)
    aside.rename(rows)
    desk.finish(*command)
    check_finished(desk)


def test_a_reader_of_standard_output_that_has_seen_enough(desk: Desk, web: WebProcess) -> None:
    """As `head -1` is."""
    command = ("crawl", web.url("site"), "-o", "-", "--per-host", "8", *ONE_TRY)
    reads, writes = os.pipe()
    try:
        crawl = subprocess.Popen(
            [*SHOAL, *command],
            cwd=desk.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=writes,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writes)
    with crawl:
        try:
            select.select([reads], [], [], DEADLINE)
            os.close(reads)
            said = crawl.communicate(timeout=DEADLINE)[1]
        finally:
            crawl.kill()
    assert crawl.returncode == 3, said
    assert "cannot write to standard output: Broken pipe" in said
    check_handed_back(desk)
    desk.finish(*command)
    check_finished(desk)
