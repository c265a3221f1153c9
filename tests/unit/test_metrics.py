"""What Prometheus is told: a valid exposition, few labels however large the crawl, and every name explained."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from shoal.engine.tally import Tally, TallyReport
from shoal.engine.visit_tally import VisitTally
from shoal.engine.vitals import OwnVitals, Vitals, together
from shoal.frontier.values import Counters, Job, JobSpec, JobState
from shoal.inspect.freshness import Freshness, Visits
from shoal.inspect.overview import JobView
from shoal.jobs.worker_status import WorkerStatus
from shoal.model import Failure, Response
from shoal.policy.backpressure import Reason
from shoal.policy.outcomes import TABLE
from shoal.telemetry import metrics
from shoal.telemetry.metrics import MOST_JOBS, PROCESS, RULES, STORE, render_process, render_store

DOC = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
NOW = 1_000_000.0
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: bytes) -> Samples:
    """Every sample by its name and labels; none may be told twice."""
    families = list(text_string_to_metric_families(text.decode()))
    found = [(s.name, frozenset(s.labels.items()), s.value) for f in families for s in f.samples]
    samples = {(name, labels): value for name, labels, value in found}
    assert len(samples) == len(found)
    return samples


def value(samples: Samples, name: str, /, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def label_sets(samples: Samples, name: str) -> list[dict[str, str]]:
    return [dict(labels) for found, labels in samples if found == name]


def busy_tally() -> Tally:
    tally = Tally()
    for elapsed in (0.02, 0.2, 2.0):
        tally.fetched("a", Response("http://a/", 200, {}, b"", elapsed=elapsed, wire_bytes=100))
    tally.fetched("a", Response("http://a/", 302, {}, b"x", elapsed=0.1))
    tally.failed("b", Failure("http_503", status=503, elapsed=0.5), retry=True)
    tally.failed("b", Failure("timeout", elapsed=9.0), retry=False)
    tally.failed("b", Failure("robots"), retry=False)
    tally.cut("links", 3)
    tally.visited(VisitTally(10, 6, 2, 1, 3, 1, waited=100.0, late=20.0))
    tally.refused("depth")
    tally.refused("trap: the path repeats itself")
    tally.refused("trap: longer than 2048 characters")
    return tally


# -- one process


def test_a_process_tells_what_it_has_counted() -> None:
    samples = parsed(render_process(busy_tally().report(in_flight=7), Vitals(stale=2, cpu=1.5)))
    assert value(samples, "shoal_pages_total") == 3
    assert value(samples, "shoal_fetches_total", outcome="2xx") == 3
    assert value(samples, "shoal_fetches_total", outcome="3xx") == 1
    assert value(samples, "shoal_fetches_total", outcome="5xx") == 1
    assert value(samples, "shoal_fetches_total", outcome="none") == 1
    assert value(samples, "shoal_failures_total", kind="http_503") == 1
    assert value(samples, "shoal_failures_total", kind="robots") == 1
    assert value(samples, "shoal_retries_total") == 1
    assert value(samples, "shoal_dead_total") == 2
    assert value(samples, "shoal_refused_total", reason="trap") == 2
    assert value(samples, "shoal_received_bytes_total") == 301
    assert value(samples, "shoal_in_flight") == 7
    assert value(samples, "shoal_stale_total") == 2
    assert value(samples, "shoal_cpu_seconds_total") == 1.5


def test_the_histogram_is_cumulative_and_every_fetch_is_in_the_bucket_of_its_time() -> None:
    samples = parsed(render_process(busy_tally().report(), Vitals()))
    buckets = sorted(
        (float(dict(labels)["le"]), count)
        for (name, labels), count in samples.items()
        if name == "shoal_fetch_seconds_bucket"
    )
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == value(samples, "shoal_fetch_seconds_count") == 6
    assert value(samples, "shoal_fetch_seconds_sum") == pytest.approx(11.82)
    for edge, count in buckets:
        assert count == sum(elapsed <= edge for elapsed in (0.02, 0.1, 0.2, 0.5, 2.0, 9.0))


def test_rules_that_hold_are_told_and_so_are_those_that_do_not() -> None:
    samples = parsed(render_process(TallyReport(), Vitals(held_by={"sink": 2})))
    told = {labels["rule"] for labels in label_sets(samples, "shoal_backpressure_active")}
    assert told == set(RULES)
    assert value(samples, "shoal_backpressure_active", rule="sink") == 2
    assert value(samples, "shoal_backpressure_active", rule="machine") == 0


def test_kinds_and_reasons_are_those_of_tables_whatever_servers_answer() -> None:
    tally = Tally()
    for status in range(100, 1000):
        kind = f"http_{status}"
        tally.failed("h", Failure(kind, status=status, elapsed=0.1), retry=False)
    tally.failed("h", Failure("made up"), retry=False)
    for n in range(100):
        tally.refused(f"reason {n}")
    samples = parsed(render_process(tally.report(), Vitals()))
    kinds = {labels["kind"] for labels in label_sets(samples, "shoal_failures_total")}
    assert kinds <= TABLE.keys()
    assert sum(value(samples, "shoal_failures_total", kind=kind) for kind in kinds) == 901
    assert len(label_sets(samples, "shoal_fetches_total")) == 6
    assert label_sets(samples, "shoal_refused_total") == [{"reason": "other"}]


def test_what_a_platform_does_not_tell_is_left_out() -> None:
    names = {name for name, _ in parsed(render_process(TallyReport(), Vitals()))}
    assert "shoal_memory_bytes" not in names
    assert "shoal_open_files" not in names
    with_memory = render_process(TallyReport(), Vitals(memory=5, memory_limit=9, open_files=3, file_limit=8))
    assert {"shoal_memory_limit_bytes", "shoal_open_files_limit"} <= {name for name, _ in parsed(with_memory)}


def test_several_processes_are_one_and_a_dead_one_leaves_what_it_counted() -> None:
    a = Vitals(stale=1, cpu=2.0, processes=1, slots=8, usable=4, held_by={"sink": 1}, loop_lag=0.3, memory=10)
    b = Vitals(stale=2, cpu=3.0, processes=1, slots=8, usable=8, loop_lag=0.1, memory=20)
    both = together([a, b])
    assert (both.stale, both.cpu, both.processes, both.slots, both.usable) == (3, 5.0, 2, 16, 12)
    assert (both.held_by, both.loop_lag, both.memory) == ({"sink": 1}, 0.3, 30)
    assert together([a.past(), b]) == Vitals(3, 5.0, 1, 8, 8, {}, 0.0, 0.1, 20)


async def test_a_process_that_fetches_nothing_has_a_pulse() -> None:
    with OwnVitals() as pulse:
        vitals = pulse.vitals()
    assert vitals.processes == 1
    assert vitals.memory > 1 << 20
    assert vitals.cpu > 0


# -- the store


def job(name: str, *, state: JobState = "running", at: float = 0.0, **counters: int) -> JobView:
    spec = JobSpec(name)
    told = Job(
        spec, state, Counters(**counters), at, counts={"variants": 3, "größe": 1, "cost: res": 1_500_000}
    )
    return JobView(told, rate=2.0, eta=60.0, workers=1)


def standing(name: str = "news") -> JobView:
    seen = job(name, pending=3, delayed=92, waiting=90)
    fresh = Freshness(100, 10, NOW + 60, NOW - 120, failing=4, visits=Visits(500, 300, 90, 2, 7, 1))
    counted = replace(seen.job, counts={"variants": 3, "visits": 500, "visits: changed": 90})
    return replace(seen, job=counted, eta=None, freshness=fresh)


def overview(*jobs: JobView, **fields: Any) -> Any:
    """As much of an Overview as is read."""
    lanes = {"normal": SimpleNamespace(pending=5, in_flight=2)}
    told = {"now": NOW, "jobs": jobs, "workers": (), "lanes": lanes, "success": 0.75, **fields}
    return SimpleNamespace(**told)


def test_a_store_tells_of_its_jobs_and_queues() -> None:
    held = WorkerStatus(pressure=(Reason("sink", "…"),))
    seen = overview(
        job("books", pending=3, leased=2, done=10, dead=1, items=8),
        job("old", state="finished", done=4),
        workers=(held, WorkerStatus()),
    )
    samples = parsed(render_store(seen, {"healthy": 3, "probing": 1}))
    assert value(samples, "shoal_store_up") == 1
    assert value(samples, "shoal_jobs", state="running") == 1
    assert value(samples, "shoal_jobs", state="paused") == 0
    assert value(samples, "shoal_tasks", job_name="books", state="pending") == 3
    assert value(samples, "shoal_tasks", job_name="old", state="done") == 4
    assert value(samples, "shoal_job_running", job_name="books") == 1
    assert value(samples, "shoal_job_running", job_name="old") == 0
    assert value(samples, "shoal_job_rows", job_name="books") == 8
    assert value(samples, "shoal_job_rate", job_name="books") == 2.0
    assert value(samples, "shoal_job_eta_seconds", job_name="books") == 60.0
    assert value(samples, "shoal_queue_pending", lane="normal") == 5
    assert value(samples, "shoal_queue_in_flight", lane="normal") == 2
    assert value(samples, "shoal_workers") == 2
    assert value(samples, "shoal_held_workers", rule="sink") == 1
    assert value(samples, "shoal_success_ratio") == 0.75
    assert value(samples, "shoal_hosts", condition="probing") == 1


def test_jobs_beyond_the_newest_are_summed_up_and_open_ones_come_first() -> None:
    through = [job(f"run-{n}", state="finished", at=float(n + 1), done=1, pending=0) for n in range(200)]
    samples = parsed(render_store(overview(job("long", done=1, at=0.5), *through)))
    tasks = [labels for labels in label_sets(samples, "shoal_tasks") if labels["state"] == "done"]
    names = {labels["job_name"] for labels in tasks}
    assert names == {"long", "other", *(f"run-{n}" for n in range(200 - MOST_JOBS + 1, 200))}
    assert len(names) == MOST_JOBS + 1
    assert sum(value(samples, "shoal_tasks", job_name=name, state="done") for name in names) == 201
    assert value(samples, "shoal_tasks", job_name="other", state="done") == 201 - MOST_JOBS
    assert "other" not in [labels["job_name"] for labels in label_sets(samples, "shoal_job_eta_seconds")]
    assert value(samples, "shoal_job_counter", job_name="long", name="variants") == 3
    counted = value(samples, "shoal_job_counter", job_name="other", name="(other)")
    assert counted == 4 * (201 - MOST_JOBS), "the names of all jobs together have no limit"


@pytest.mark.parametrize("name", ['quote"d', "back\\slash", "line\nbreak", "größe", "lone\udc80"])
def test_any_name_of_a_job_can_be_told(name: str) -> None:
    samples = parsed(render_store(overview(job(name, done=1))))
    [told] = {labels["job_name"] for labels in label_sets(samples, "shoal_tasks")}
    assert told == name.replace("\udc80", "?")


def test_what_is_not_known_is_left_out() -> None:
    assert parsed(render_store(None)) == {("shoal_store_up", frozenset()): 0}
    assert parsed(render_store(None, up=True)) == {("shoal_store_up", frozenset()): 1}
    names = {name for name, _ in parsed(render_store(overview(success=None)))}
    assert "shoal_success_ratio" not in names
    assert "shoal_hosts" not in names


# -- names

ALL = [*PROCESS, *STORE]


def test_process_and_store_can_be_told_in_one_answer() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)
    both = render_process(TallyReport(), Vitals()) + render_store(overview(job("a")))
    assert {"shoal_pages_total", "shoal_tasks"} <= {name for name, _ in parsed(both)}


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: metrics.Metric[Any]) -> None:
    assert re.fullmatch(r"shoal_[a-z][a-z_]*[a-z]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not re.search(r"_(ms|millis\w*|kb|mb|minutes|hours|percent)(_|$)", metric.name)
    assert metric.help.endswith(".")
    # `job` and `instance` are Prometheus' own, and a URL or a host may have a million values.
    assert not {"job", "instance", "url", "host", "le"} & set(metric.labels)


def test_a_standing_job_tells_how_fresh_its_pages_are() -> None:
    told = parsed(render_store(overview(standing(), job("books", pending=1))))
    assert value(told, "shoal_freshness_ratio", job_name="news") == 0.9
    assert value(told, "shoal_pages_followed", job_name="news") == 100
    assert value(told, "shoal_pages_waiting", job_name="news") == 90
    assert value(told, "shoal_pages_overdue", job_name="news") == 10
    assert value(told, "shoal_pages_failing", job_name="news") == 4
    assert value(told, "shoal_oldest_overdue_seconds", job_name="news") == 120
    assert value(told, "shoal_next_visit_seconds", job_name="news") == 60
    assert value(told, "shoal_job_visits", job_name="news", result="changed") == 90
    assert value(told, "shoal_tasks", job_name="news", state="delayed") == 2, "retries only"
    assert value(told, "shoal_tasks", job_name="news", state="waiting") == 90
    assert label_sets(told, "shoal_freshness_ratio") == [{"job_name": "news"}], "books ends"
    names = {
        labels["name"] for labels in label_sets(told, "shoal_job_counter") if labels["job_name"] == "news"
    }
    assert names == {"variants"}, "visits are no counters of the spider"


def test_a_process_tells_what_its_visits_found() -> None:
    told = parsed(render_process(busy_tally().report(), Vitals()))
    assert value(told, "shoal_visits_total", result="first") == 1
    assert value(told, "shoal_visits_total", result="unchanged") == 6
    assert value(told, "shoal_visits_total", result="missed") == 3
    assert value(told, "shoal_visit_wait_seconds_total") == 100
    assert value(told, "shoal_visit_late_seconds_total") == 20
    assert label_sets(parsed(render_process(TallyReport(), Vitals())), "shoal_visits_total") == []


def test_the_labels_told_are_those_of_the_table() -> None:
    told = parsed(
        render_process(busy_tally().report(), Vitals(memory=1, memory_limit=1, open_files=1, file_limit=1))
        + render_store(overview(job("a"), standing()), {"healthy": 1}, alarms=1)
    )
    for metric in [one for one in ALL if one.kind != "histogram"]:
        assert {tuple(sorted(labels)) for labels in label_sets(told, metric.name)} == {
            tuple(sorted(metric.labels))
        }, metric.name


def test_every_metric_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| `(shoal_\w+)` \| (\w+) \| (.*?) \| (.+?) \|$", DOC, re.MULTILINE)
    described = [(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in rows]
    assert described == [(metric.name, metric.kind, metric.labels) for metric in ALL]
    named = set(re.findall(r"`(shoal_[a-z_]+)", DOC))
    suffixes = r"_(bucket|sum|count)$"
    assert {re.sub(suffixes, "", name) for name in named} <= {metric.name for metric in ALL}


def test_prometheus_is_loaded_only_when_something_is_told() -> None:
    code = "import sys, shoal.telemetry.endpoint; print('prometheus_client' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == "False"


def test_a_missing_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.errors import UsageError

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"pip install 'shoal\[dashboard\]'"):
        metrics.check_installed()
