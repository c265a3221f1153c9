from __future__ import annotations

import io
import logging
import re
import sys

import pytest
from rich.console import Console

from shoal.engine.tally import HostTally, RateWindow, TallyReport
from shoal.errors import UsageError
from shoal.frontier.values import Counters, Job, JobSpec, JobState
from shoal.inspect.job import View, remaining
from shoal.telemetry import logging as shoal_logging
from shoal.terminal import live_panel
from shoal.terminal.progress_lines import LiveProgress, PlainProgress, SilentProgress, make_progress
from shoal.text import humanize


def a_job(state: JobState = "running", max_pages: int = 0, **counters: int) -> Job:
    return Job(JobSpec("books", max_pages=max_pages), state, Counters(**counters), created_at=0.0)


def a_view(elapsed: float = 0.0, note: str = "", state: JobState = "running", **counters: int) -> View:
    return View(
        job=a_job(state, **counters),
        report=TallyReport(in_flight=7),
        elapsed=elapsed,
        rate=12.5,
        eta=60,
        note=note,
    )


# -- rate


def test_the_rate_is_over_the_last_seconds_only() -> None:
    window = RateWindow(span=5.0)
    assert window.add(0.0, 0) == 0.0
    for second in range(1, 11):
        assert window.add(float(second), second * 10) == pytest.approx(10.0)
    rates = [window.add(float(second), 100) for second in range(11, 18)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0.0


def test_a_late_update_still_counts_what_came_before() -> None:
    window = RateWindow(span=5.0)
    window.add(0.0, 0)
    assert window.add(20.0, 100) == pytest.approx(5.0)


def test_the_rate_of_a_store_that_went_back_is_never_below_zero() -> None:
    window = RateWindow(span=5.0)
    rates = [window.add(now, total) for now, total in ((0.0, 100), (1.0, 110), (2.0, 90), (3.0, 95))]
    assert rates == [0.0, 10.0, 0.0, 5.0]


def test_the_window_forgets_old_points() -> None:
    window = RateWindow(span=5.0)
    for tick in range(10_000):
        window.add(tick * 0.25, tick)
    assert len(window._points) < 30


# -- what is left


def test_remaining_is_cut_by_the_page_budget() -> None:
    assert remaining(a_job(pending=50, delayed=3, leased=2, done=10)) == 55
    assert remaining(a_job(max_pages=30, pending=50, done=10)) == 20
    assert remaining(a_job(max_pages=30, pending=50, done=30)) == 0


# -- progress


def test_plain_progress_is_a_line_now_and_then_and_at_each_change() -> None:
    stream = io.StringIO()
    with PlainProgress(stream) as progress:
        for tick in range(48):
            progress.update(a_view(elapsed=tick * 0.25, done=tick, admitted=100, pending=52))
        progress.update(a_view(elapsed=12.0, done=50, admitted=100, note="draining"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(
        "books: 0 of 100 pages, 12.5/s, 7 in flight, 52 queued, 0 delayed, 0 dead, ETA"
    )
    assert lines[-1].endswith("(draining)")


def test_live_progress_redraws_at_most_four_times_a_second() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    drawn: list[View] = []
    progress = LiveProgress(console)
    progress._live.update = lambda _, refresh: drawn.append(refresh)  # type: ignore[method-assign, assignment]
    for tick in range(1_000):
        progress.update(a_view(elapsed=tick / 1_000))
    assert len(drawn) == 4


def test_live_progress_cleans_up_and_keeps_what_was_logged() -> None:
    stream = io.StringIO()
    with LiveProgress(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress.update(a_view(done=3, admitted=9))
        progress.log("3 junk lines in urls.txt [not markup]")
    assert "3 junk lines in urls.txt [not markup]" in stream.getvalue()
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is back


def test_lines_beside_the_panel_are_written_together_and_in_order() -> None:
    stream = io.StringIO()
    before = sys.stderr
    with LiveProgress(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress.update(a_view(done=3, admitted=9))
        for number in range(500):
            print(f"line {number} [/markup]", file=sys.stderr)  # noqa: T201
        progress.log("a word of ours")
        print("no end [", end="", file=sys.stderr)  # noqa: T201
    assert sys.stderr is before
    lines = re.findall(r"line \d+ \[/markup\]|a word of ours|no end \[", stream.getvalue())
    assert lines == [*(f"line {number} [/markup]" for number in range(500)), "a word of ours", "no end ["]
    assert stream.getvalue().count("of 9 pages") < 100, "the panel is not drawn for each line"


def test_silent_progress_says_only_what_is_logged() -> None:
    stream = io.StringIO()
    with SilentProgress(stream) as progress:
        progress.update(a_view())
        progress.log("hello\x1b[2J")
    assert stream.getvalue() == "hello\ufffd[2J\n"


def test_the_progress_suits_the_stream() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert type(make_progress(io.StringIO())) is PlainProgress
    assert type(make_progress(Terminal(), quiet=True)) is SilentProgress
    assert type(make_progress(Terminal(), live=False)) is PlainProgress


def test_the_live_panel_is_chosen_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    assert type(make_progress(Terminal())) is LiveProgress
    monkeypatch.setenv("TERM", "dumb")
    assert type(make_progress(Terminal())) is PlainProgress


def test_the_panel_shows_every_number_and_nothing_hostile() -> None:
    hosts = (HostTally("evil\x1b[31m.example", pages=4, retries=2, latency=6.5, last_error="timeout"),)
    view = View(
        job=a_job(
            admitted=4_000,
            pending=1_209,
            delayed=12,
            leased=64,
            done=2_700,
            dead=15,
            retried=288,
            items=2_650,
        ),
        report=TallyReport(in_flight=64, errors={"timeout": 12, "http_503": 7}, hosts=hosts),
        elapsed=41.0,
        rate=73.2,
        eta=72.0,
        queues=[("evil\x1b[31m.example", 800)],
    )
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(live_panel.render(view))
    text = console.export_text()
    for word in (
        "2,700 of 4,000 pages", "41 s", "ETA 1:12", "73.2 pages/s", "64 in flight", "1,209 queued", "12 delayed",
        "288 retried", "15 dead", "2,650 rows", "6.50 s", "800", "timeout 12 · http_503 7",
    ):  # fmt: skip
        assert word in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


# -- words


@pytest.mark.parametrize(
    ("shown", "meant"),
    [
        (humanize.duration(3.14), "3.1 s"),
        (humanize.duration(59.4), "59 s"),
        (humanize.duration(65), "1:05"),
        (humanize.duration(7_265), "2:01:05"),
        (humanize.duration(273_600), "3 d 4 h"),
        (humanize.duration(None), "-"),
        (humanize.latency(0.0042), "4.2 ms"),
        (humanize.latency(0.081), "81 ms"),
        (humanize.latency(1.5), "1.50 s"),
        (humanize.size(999), "999 B"),
        (humanize.size(1_500_000), "1.5 MB"),
        (humanize.size(5 * 10**15), "5000.0 TB"),
        (humanize.percent(0.99999), "99.9 %"),
        (humanize.percent(1.0), "100.0 %"),
        (humanize.plural(1, "page"), "1 page"),
        (humanize.plural(2_000, "fetch", "fetches"), "2,000 fetches"),
        (humanize.by_count({"b": 2, "a": 2, "c": 9}, limit=2), "c 9 · a 2 · 1 more"),
        (humanize.printable("a\x00b\x9bc\u202ed\ne\tf"), "a\ufffdb\ufffdc\ufffdd\ne\tf"),
    ],
)
def test_numbers_as_people_read_them(shown: str, meant: str) -> None:
    assert shown == meant


# -- log


def test_the_log_goes_to_whatever_stderr_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("shoal")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(log, "level", log.level)
    shoal_logging.set_up("warning")
    shoal_logging.set_up("info")  # once more: still one handler
    later = io.StringIO()
    monkeypatch.setattr(sys, "stderr", later)
    logging.getLogger("shoal.engine.dispatcher").info("crawling %s", "x\x1b[2J")
    logging.getLogger("shoal.engine.dispatcher").debug("not shown")
    assert len(later.getvalue().splitlines()) == 1
    assert later.getvalue().endswith("INFO crawling x\ufffd[2J\n")


def test_an_unknown_log_level_is_the_users_mistake() -> None:
    with pytest.raises(UsageError, match="'loud' is not known: use one of debug, info, warning, error"):
        shoal_logging.set_up("loud")
