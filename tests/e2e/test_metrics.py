"""A running crawl over HTTP: its figures move, agree with its summary, and it tells whether it is well."""

from __future__ import annotations

import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from crash.fleet import SQLITE, Fleet
from crash.harness import Desk, Process, cpu_seconds, family_of, until
from shoal.testing import HostProfile, WebProcess

PAGES = 120
PATIENT = tuple(
    word for name in ("total", "read", "first", "min") for word in ("-s", f"{name}_timeout=300")
)  # the server is a process of its own, which a busy machine may keep waiting


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {
        "site": HostProfile("slow", pages=PAGES, links=6, latency=0.05),
        "down": HostProfile("down"),
        "hanging": HostProfile("hanging"),
    }
    with WebProcess(hosts) as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


class Asked:
    """The endpoint of a process."""

    def __init__(self, process: Process) -> None:
        found = until(lambda: re.search(r"metrics are at (http://\S+)/metrics", process.err), "the address")
        self.url = found[1]

    def get(self, path: str, timeout: float = 10.0) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_ready(self) -> None:
        """In time: a store on a busy machine may be late once."""
        until(lambda: self.get("/readyz") == (200, "ok\n"), "a process that is ready")

    def figures(self) -> dict[str, float]:
        """By name; those with labels also by name{value,value}, in the order of the labels' names."""
        status, text = self.get("/metrics")
        assert status == 200
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(sample.labels[name] for name in sorted(sample.labels))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found


def processor_time(process: Process) -> float:
    """Of the process and its children, as the system counts it."""
    return sum(map(cpu_seconds, (process.pid, *family_of(process.pid))))


def crawl(desk: Desk, web: WebProcess, *options: str, hosts: tuple[str, ...]) -> Process:
    return desk.start(
        "crawl", *(web.url(host) for host in hosts), "--metrics", "0", "--job", "seen", "-o", "rows.jsonl",
        "--rate", "0", "--per-host", "3", "--no-robots", "--summary", "summary.json", "-q",
        "-s", "max_attempts=2", "-s", "retry_base=0.05", *options,
    )  # fmt: skip


def test_a_crawl_tells_how_it_is_while_it_runs_and_agrees_with_its_summary(
    desk: Desk, web: WebProcess
) -> None:
    """One host never answers, so that the crawl stands still when all else is done."""
    running = crawl(desk, web, *PATIENT, hosts=("site", "down", "hanging"))
    asked = Asked(running)
    first = until(lambda: (f := asked.figures())["shoal_pages_total"] > 0 and f, "the first page")
    assert asked.get("/healthz") == (200, "ok\n")
    asked.is_ready()
    assert asked.get("/nothing")[0] == 404
    later = until(
        lambda: (
            (f := asked.figures())["shoal_pages_total"] > first["shoal_pages_total"]
            and "shoal_jobs{running}" in f
            and f
        ),
        "more pages, and the store",
    )
    assert later["shoal_received_bytes_total"] > first["shoal_received_bytes_total"]
    assert later["shoal_store_up"] == 1
    assert later["shoal_slots"] == 64
    assert later["shoal_memory_bytes"] > 1 << 20
    assert later["shoal_jobs{running}"] == 1
    last = until(
        lambda: (f := asked.figures()).get("shoal_tasks{seen,done}") == PAGES and f["shoal_dead_total"] and f,
        "all",
    )
    assert last["shoal_in_flight"] == 1
    running.signal(signal.SIGTERM)
    until(lambda: asked.get("/readyz") == (503, "stopping\n"), "the word that it stops")
    assert asked.get("/healthz")[0] == 200
    running.signal(signal.SIGTERM)
    assert running.code() == 0, running.err
    summary = msgspec.json.decode((desk.folder / "summary.json").read_bytes())
    assert last["shoal_pages_total"] == summary["pages"] == PAGES
    assert last["shoal_received_bytes_total"] == summary["bytes"]
    assert last["shoal_failures_total{connect}"] == summary["errors"]["connect"] == 2
    assert (last["shoal_retries_total"], last["shoal_dead_total"]) == (1, 1)
    assert last["shoal_fetch_seconds_count"] == summary["fetches"]
    outcomes = [count for name, count in last.items() if name.startswith("shoal_fetches_total")]
    assert sum(outcomes) == summary["fetches"]


def test_several_processes_are_told_as_one(desk: Desk, web: WebProcess) -> None:
    running = crawl(desk, web, "--processes", "2", *PATIENT, hosts=("site", "hanging"))
    asked = Asked(running)
    seen = until(
        lambda: (f := asked.figures())["shoal_slots"] == 64 and f["shoal_pages_total"] > 20 and f,
        "both children",
    )
    assert seen["shoal_processes"] == 3  # the parent is one of them
    used = processor_time(running)
    later = until(lambda: (f := asked.figures())["shoal_cpu_seconds_total"] >= used and f, "what both used")
    ticks = 2 * 3 * 0.01  # the system cuts user and system time of each process to whole ticks
    assert later["shoal_cpu_seconds_total"] <= processor_time(running) + ticks
    asked.is_ready()
    running.signal(signal.SIGTERM)
    until(lambda: asked.get("/readyz") == (503, "stopping\n"), "the word that it stops")
    running.signal(signal.SIGTERM)
    assert running.code() == 0, running.err


def test_a_process_that_does_not_turn_does_not_answer(desk: Desk, web: WebProcess) -> None:
    running = crawl(desk, web, "--rate", "5", hosts=("site",))
    asked = Asked(running)
    asked.is_ready()
    running.freeze()
    with pytest.raises(TimeoutError):
        asked.get("/healthz", timeout=0.5)
    running.thaw()
    assert asked.get("/healthz")[0] == 200
    running.kill()


def test_a_worker_keeps_counting_from_one_job_to_the_next(desk: Desk, web: WebProcess) -> None:
    fleet = Fleet(desk, SQLITE)
    fleet.start_at(web.url("site"))
    fleet.submit("--max-pages", "10", job="short")
    worker = fleet.worker("--metrics", "0")
    asked = Asked(worker)
    fleet.finishes("short")
    until(lambda: "no longer serving job short" in worker.err, "the end of the job here")
    short = asked.figures()
    assert short["shoal_pages_total"] >= 10
    assert "shoal_workers" not in short  # that is for the coordinator to tell
    fleet.submit(job="site")
    until(
        lambda: asked.figures()["shoal_pages_total"] > short["shoal_pages_total"] + 20, "pages of both jobs"
    )
    worker.signal(signal.SIGTERM)
    assert worker.code() == 0, worker.err


def test_a_fleet_on_one_machine_is_told_as_one_and_a_coordinator_tells_of_the_store(
    desk: Desk, web: WebProcess
) -> None:
    fleet = Fleet(desk, SQLITE)
    fleet.start_at(web.url("site"))
    fleet.submit()
    up = desk.start(
        "up", "site.py", "-n", "2", "-q", "--store", SQLITE, "--metrics", "0", "--concurrency", "4"
    )
    asked = Asked(up)
    seen = until(
        lambda: (f := asked.figures()).get("shoal_workers") == 2 and f["shoal_pages_total"] > 5 and f, "2"
    )
    assert seen["shoal_slots"] == 8
    until(
        lambda: asked.figures().get("shoal_tasks{site,done}", 0) > 0, "the store, which is asked now and then"
    )
    coordinator = fleet.coordinator("--metrics", "0")
    told = Asked(coordinator)
    jobs = ("shoal_jobs{running}", "shoal_jobs{finished}")
    until(lambda: (f := told.figures()) and sum(f.get(name, 0) for name in jobs) == 1, "the job")
    told.is_ready()
    for process in (up, coordinator):
        process.signal(signal.SIGTERM)
    for process in (up, coordinator):
        assert process.code() == 0, process.err


def test_a_port_that_is_taken_ends_in_one_line(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = desk.run("crawl", "http://127.0.0.1:9/", "--metrics", port)
    assert refused.code() == 2
    [line] = refused.err.splitlines()
    assert line.startswith(f"shoal: --metrics {port}: cannot listen there")


def test_traces_of_a_crawl_go_to_stderr(desk: Desk, web: WebProcess) -> None:
    running = crawl(desk, web, "--trace", "--max-pages", "3", hosts=("site",))
    assert running.code() == 0, running.err
    spans = [msgspec.json.decode(line) for line in running.err.splitlines() if line.startswith("{")]
    names = [span["name"] for span in spans]
    assert names.count("shoal.task") >= 3
    assert {"fetch", "handle", "settle"} <= set(names)
    by_id = {span["context"]["span_id"]: span["name"] for span in spans}
    assert {by_id[span["parent_id"]] for span in spans if span["name"] == "fetch"} == {"shoal.task"}
