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
    with WebProcess({"site": HostProfile("fast", pages=GOOD, links=0)}) as web:
        yield web


def crawl(desk: Desk, lines: Sequence[str], *flags: str) -> tuple[Process, dict[str, Any]]:
    desk.file("urls.txt", "\n".join(lines))
    process = desk.finish("crawl", "-i", "urls.txt", "-o", ROWS, *FAST, "--summary", "end.json", *flags)
    return process, msgspec.json.decode((desk.folder / "end.json").read_bytes())


def test_blanks_comments_and_junk(desk: Desk, web: WebProcess) -> None:
    kinds = ["", "   ", "# a comment", "not a url at all", "ftp://files.example/x", "http://[bad/", "javascript:void(0)"]
    good = [web.url("site", f"/p/{number}") for number in range(GOOD)]
    lines = [(kinds * 2 + good)[number % (len(kinds) * 2 + GOOD)] for number in range(LINES)]
    junk = sum(line in kinds[3:] for line in lines)
    _, summary = crawl(desk, lines)
    assert desk.urls() == sorted(good)
    assert sum(summary["refused"].values()) == junk
    assert summary["duplicates"] == sum(line in good for line in lines) - GOOD
    assert (summary["state"], summary["dead"]) == ("finished", 0)


def test_a_long_file_is_read_only_as_far_as_it_is_needed(desk: Desk, web: WebProcess) -> None:
    few, _ = crawl(desk, [web.url("site", f"/p/{n}") for n in range(GOOD)], "--max-pages", "20", "--job", "few")
    desk.rows_path.unlink()
    lines = [web.url("site", f"/p/{n % GOOD}?line={n}") for n in range(LINES)]
    many, summary = crawl(desk, lines, "--max-pages", "20", "--job", "many", "-s", "high_water=1000")
    assert len(desk.rows()) == 20
    assert summary["admitted"] < LINES / 4
    assert many.peak_rss < few.peak_rss + 40 * MEGABYTE
