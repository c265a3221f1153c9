"""A disk that is full, read-only or broken: one clear line, exit code 3, and the crawl goes on afterwards."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from crash.harness import FAST, FAULTS, ROWS, SHOAL, STORE, Desk, Process, add_up
from shoal.testing import HostProfile, WebProcess

PAGES = 300
AGAIN = "run the same command again"


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=PAGES, body_bytes=600)}) as web:
        yield web


def check_complaint(process: Process, *words: str) -> None:
    """One line beside the lines of progress, and it says what happened."""
    assert process.code() == 3, process.err
    assert "Traceback" not in process.err
    (line,) = [line for line in process.err.splitlines() if line.startswith("shoal: ")]
    for word in words:
        assert word in line


def check_resume(desk: Desk, web: WebProcess, *command: str) -> None:
    desk.finish(*command)
    assert desk.urls() == sorted(web.pages_of("site"))
    status = desk.status()
    assert add_up(status)
    assert (status["state"], status["items"], status["dead"]) == ("finished", PAGES, 0)


@pytest.mark.parametrize(
    ("fault", "number", "words"),
    [
        ("store_full", "2", ("no space left for the store", STORE, AGAIN)),
        ("store_read_only", "3", ("the store", STORE, "cannot be written", AGAIN)),
        ("output_full", "3", ("cannot write rows.jsonl", "No space left on device", "run again")),
    ],
)
def test_a_disk_that_fails_in_mid_crawl(
    desk: Desk, web: WebProcess, fault: str, number: str, words: tuple[str, ...]
) -> None:
    command = ("crawl", web.url("site"), "-o", ROWS, *FAST)
    check_complaint(desk.run(fault, number, *command, program=FAULTS), *words)
    check_resume(desk, web, *command)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_files_that_may_grow_no_further(desk: Desk, web: WebProcess, processes: str) -> None:
    """The limit is the kernel's, for every file and every process of the crawl."""
    command = ("crawl", web.url("site"), "-o", ROWS, *FAST, "--processes", processes)
    stopped = desk.run(*command, limits={resource.RLIMIT_FSIZE: 160 * 1024})
    check_complaint(stopped, "I/O error on the store", STORE, AGAIN)
    check_resume(desk, web, *command)


def test_a_store_that_cannot_be_made(desk: Desk, web: WebProcess) -> None:
    for store in ("/dev/null/shoal.db", "/proc/shoal.db"):
        check_complaint(desk.run("crawl", web.url("site"), "-o", ROWS, "--store", store), store)


def test_workers_that_cannot_announce_themselves(desk: Desk, web: WebProcess) -> None:
    desk.store.parent.mkdir()
    blocked = desk.file(f"{STORE}-workers", "in the way")
    command = ("crawl", web.url("site"), "-o", ROWS, *FAST)
    check_complaint(desk.run(*command), STORE)
    (desk.folder / blocked).unlink()
    check_resume(desk, web, *command)


def test_results_that_cannot_be_written_at_all(desk: Desk, web: WebProcess) -> None:
    check_complaint(
        desk.run("crawl", web.url("site"), "-o", "/dev/full:jsonl", *FAST), "/dev/full", "not a regular file"
    )
    check_complaint(desk.run("crawl", web.url("site"), "-o", "/proc/rows.jsonl", *FAST), "/proc/rows.jsonl")


def test_standard_output_that_is_full(desk: Desk, web: WebProcess) -> None:
    into_full = ("/bin/sh", "-c", 'exec "$@" > /dev/full', "sh", *SHOAL)
    process = desk.run("crawl", web.url("site"), "-o", "-", *FAST, program=into_full)
    check_complaint(process, "cannot write to standard output", "No space left on device")
