from __future__ import annotations

import io

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from shoal.engine.tally import Tally
from shoal.frontier.values import Counters, Job, JobSpec, JobState
from shoal.inspect.job import View
from shoal.model import Failure, Response
from shoal.terminal import live_panel, summary
from shoal.terminal.console import stdout


def a_view(state: JobState = "finished", **counters: int) -> View:
    tally = Tally()
    for _ in range(98):
        tally.fetched("a", Response(url="", status=200, headers={}, body=b"", elapsed=0.2, wire_bytes=10_000))
        tally.handled("a")
    tally.failed("a", Failure(kind="timeout", elapsed=5.0), retry=True)
    tally.failed("a", Failure(kind="http_404", status=404, elapsed=0.1), retry=False)
    tally.refused("depth")
    job = Job(JobSpec("books"), state, Counters(**counters), created_at=0.0)
    return View(job=job, report=tally.report(), elapsed=49.0, processes=2)


def text_of(view: View, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(summary.render(view, output="books.jsonl", dead_command="shoal dead list --job books"))
    return console.export_text()


def test_the_summary_has_what_a_person_asks_first() -> None:
    text = text_of(a_view(admitted=100, done=98, dead=1, retried=1, items=90))
    for word in (
        "books finished after 49 s", "98  2.0/s in this run", "90  in books.jsonl", "98.0 %", "p50 ", "p90 ", "p99 ",
        "980.0 kB in 100 fetches", "http_404 1 · timeout 1", "retries", "depth 1", "1  shoal dead list --job books",
    ):  # fmt: skip
        assert word in text
    assert "left" not in text


def test_a_name_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    stdout().print("books:warning:", "a :x: b")
    assert capsys.readouterr().out == "books:warning: a :x: b\n"


def test_a_run_that_was_stopped_says_what_is_left() -> None:
    text = text_of(a_view("running", admitted=1_400, pending=1_200, leased=2, done=198))
    assert "books stopped after 49 s" in text
    assert "1,202 still to fetch" in text
    assert "198  2.0/s in this run" in text
    assert "dead" not in text


def test_a_job_that_has_its_pages_says_what_is_left_and_why() -> None:
    view = a_view(admitted=516, pending=476, done=40)
    view = replace(view, job=replace(view.job, spec=replace(view.job.spec, max_pages=40)))
    said = "476 pages not fetched: it has its 40 pages; with a larger max_pages it goes on"
    assert said in text_of(view)
    assert summary.as_json(view, output="x")["left"] == said


def test_own_counters_are_shown_wherever_the_job_is() -> None:
    counts = {"variants": 1234, "pages dropped: sold out": 2, "dropped: no price": 1}
    view = a_view(done=98)
    view = replace(view, job=replace(view.job, counts=counts))
    console = Console(file=io.StringIO(), width=100, record=True)
    for shown in (live_panel.render(view), live_panel.job_card(view.job, "", [])):
        console.print(shown)
    card = console.export_text()
    for text in (text_of(view), card):
        assert "variants 1,234" in text
        assert "pages dropped (sold out) 2 · items dropped (no price) 1" in text
    assert card.count("counted") == card.count("dropped  ") == 2
    assert summary.as_json(view, output="x")["counts"] == counts


def test_a_run_that_fetched_nothing_is_no_error() -> None:
    view = View(job=Job(JobSpec("empty"), "finished", Counters(), 0.0), report=Tally().report())
    assert "empty finished" in text_of(view)
    assert summary.as_json(view, output="x")["success_rate"] is None


def test_a_narrow_terminal_is_respected() -> None:
    assert max(map(len, text_of(a_view(done=98, dead=1), width=50).splitlines())) <= 50


def test_the_json_summary_keeps_its_keys() -> None:
    found = summary.as_json(a_view(admitted=100, done=98, dead=1, retried=1, items=90), output="books.jsonl")
    assert set(found) == {
        "job", "state", "output", "seconds", "processes", "restarts", "admitted", "pending", "delayed", "leased",
        "done", "dead", "merged", "rows", "retried", "duplicates", "over_budget", "links_cut", "left", "pages",
        "handled", "retries", "fetches", "bytes", "pages_per_second", "success_rate", "latency", "errors", "statuses",
        "refused", "cut", "counts", "costs", "rejected", "files", "file_bytes", "logins", "failed_logins",
        "cached", "waiting", "freshness", "quality",
    }  # fmt: skip
    assert found["rows"] == 90
    assert found["pages_per_second"] == 2.0
    assert found["statuses"] == {"200": 98, "404": 1}
    assert set(found["latency"]) == {"p50", "p90", "p99"}
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
