"""A start file of any size, with anything in it: streamed, and what is no URL is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from crash.harness import FAST, ROWS, Desk, Process
from shoal.testing import HostProfile, WebProcess

LINES = 200_000
GOOD = 40
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=LINES)}) as web:
        yield web


def crawl(desk: Desk, lines: Sequence[str], *flags: str) -> tuple[Process, dict[str, Any]]:
    desk.file("urls.txt", "\n".join(lines))
    command = ("crawl", "-i", "urls.txt", "-o", ROWS, *FAST, "--depth", "0", "--summary", "end.json")
    trusted = ("-s", "trust_start=true")  # they are all on loopback
    process = desk.finish(*command, *trusted, *flags)
    return process, msgspec.json.decode((desk.folder / "end.json").read_bytes())


def test_blanks_comments_and_junk(desk: Desk, web: WebProcess) -> None:
    silent = ["", "   ", "# a comment"]
    junk = ["not a url at all", "ftp://files.example/x", "http://[bad/", "javascript:void(0)"]
    good = [web.url("site", f"/p/{number}") for number in range(GOOD)]
    period = [*silent, *junk, *silent, *junk, *good]
    lines = [period[number % len(period)] for number in range(LINES)]
    _, summary = crawl(desk, lines)
    assert desk.urls() == sorted(good)
    assert summary["refused"]["not a URL"] + summary["refused"]["scheme"] == sum(
        line in junk for line in lines
    )
    assert summary["duplicates"] == sum(line in good for line in lines) - GOOD
    assert (summary["state"], summary["dead"]) == ("finished", 0)


def test_a_long_file_is_read_only_as_far_as_it_is_needed(desk: Desk, web: WebProcess) -> None:
    lines = [web.url("site", f"/p/{number}") for number in range(LINES)]
    few, _ = crawl(desk, lines[:GOOD], "--max-pages", "20", "--job", "few")
    desk.rows_path.unlink()
    many, summary = crawl(desk, lines, "--max-pages", "20", "--job", "many", "-s", "high_water=1000")
    assert len(desk.rows()) == 20
    assert summary["admitted"] < LINES / 4
    assert many.peak_rss < few.peak_rss + 40 * MEGABYTE
