from __future__ import annotations

import msgspec
import pytest

from shoal.engine import tally
from shoal.engine.tally import HostTally, Tally, TallyReport, merge
from shoal.model import Failure, Response


def page(elapsed: float = 0.1, status: int = 200, size: int = 100) -> Response:
    return Response(
        url="http://a/", status=status, headers={}, body=b"x" * 10, elapsed=elapsed, wire_bytes=size
    )


def test_pages_failures_and_refusals_are_counted() -> None:
    counts = Tally()
    counts.fetched("a", page(size=700))
    counts.fetched("a", page(status=302, size=50))
    counts.failed("b", Failure(kind="http_503", status=503, elapsed=0.2), retry=True)
    counts.failed("b", Failure(kind="timeout", elapsed=9.0), retry=False)
    counts.refused("depth")
    report = counts.report(in_flight=3)

    assert (report.pages, report.fetches, report.retries, report.dead) == (1, 4, 1, 1)
    assert report.bytes == 750
    assert report.in_flight == 3
    assert report.errors == {"http_503": 1, "timeout": 1}
    assert report.statuses == {200: 1, 302: 1, 503: 1}
    assert report.refused == {"depth": 1}
    assert report.success_rate == 0  # the page has not been handled yet
    counts.handled("a")
    report = counts.report()
    assert report.handled == 1
    assert report.success_rate == pytest.approx(1 / 3)


def test_a_page_whose_handler_fails_is_one_attempt() -> None:
    counts = Tally()
    for _ in range(4):
        counts.fetched("a", page())
    for _ in range(3):
        counts.handled("a")
    counts.failed("a", Failure(kind="handler"), retry=False)
    report = counts.report()
    assert (report.pages, report.handled, report.attempts, report.fetches) == (4, 3, 4, 4)
    assert report.success_rate == 0.75
    [host] = report.hosts
    assert (host.pages, host.handled, host.attempts) == (4, 3, 4)
    assert merge([report, report]).attempts == 8


def test_a_failure_that_took_no_time_was_not_a_fetch() -> None:
    counts = Tally()
    counts.failed("a", Failure(kind="robots"), retry=False)
    report = counts.report()
    assert report.fetches == 0
    assert report.percentile(50) is None
    assert report.errors == {"robots": 1}


def test_wire_bytes_fall_back_to_the_body() -> None:
    counts = Tally()
    counts.fetched("a", page(size=0))
    assert counts.report().bytes == 10


@pytest.mark.parametrize("seconds", [0.002, 0.05, 0.7, 3.3, 60.0])
def test_percentiles_are_right_within_a_bucket(seconds: float) -> None:
    counts = Tally()
    for _ in range(100):
        counts.fetched("a", page(elapsed=seconds))
    for p in (1, 50, 99, 100):
        found = counts.report().percentile(p)
        assert found is not None
        assert seconds / 1.21 <= found <= seconds * 1.21


def test_percentiles_rank_fetches() -> None:
    counts = Tally()
    for elapsed in [0.01] * 90 + [5.0] * 10:
        counts.fetched("a", page(elapsed=elapsed))
    report = counts.report()
    assert report.percentile(50) == pytest.approx(0.01, rel=0.25)
    assert report.percentile(89) == pytest.approx(0.01, rel=0.25)
    assert report.percentile(95) == pytest.approx(5.0, rel=0.25)


@pytest.mark.parametrize("elapsed", [0.0, 1e-9, 1e6])
def test_latencies_off_the_scale_are_kept_at_its_ends(elapsed: float) -> None:
    counts = Tally()
    counts.fetched("a", page(elapsed=elapsed))
    report = counts.report()
    assert sum(report.latency) == 1
    found = report.percentile(100)
    assert found is not None
    assert 0 <= found <= 150


def test_hosts_are_reported_slowest_first() -> None:
    counts = Tally()
    for host, elapsed in [("quick", 0.01), ("slow", 4.0), ("middling", 0.5)]:
        counts.fetched(host, page(elapsed=elapsed))
    counts.failed("slow", Failure(kind="reset", elapsed=4.0), retry=True)
    report = counts.report(hosts=2)
    assert [host.host for host in report.hosts] == ["slow", "middling"]
    assert report.hosts[0] == HostTally("slow", pages=1, retries=1, latency=4.0, last_error="reset")


def test_a_hosts_latency_follows_the_newest_fetches() -> None:
    counts = Tally()
    counts.fetched("a", page(elapsed=10.0))
    for _ in range(50):
        counts.fetched("a", page(elapsed=1.0))
    assert counts.report().hosts[0].latency == pytest.approx(1.0, abs=0.01)


def test_memory_is_bounded_however_many_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "HOSTS_KEPT", 10)
    counts = Tally()
    for number in range(1_000):
        counts.fetched(f"host-{number}", page())
    report = counts.report(hosts=1_000)
    assert len(report.hosts) == 10
    assert report.pages == 1_000


def test_a_report_survives_the_way_to_another_process() -> None:
    counts = Tally()
    counts.fetched("a", page())
    counts.failed("b", Failure(kind="timeout", elapsed=1.0), retry=True)
    report = counts.report()
    assert msgspec.json.decode(msgspec.json.encode(report), type=TallyReport) == report
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=TallyReport) == report


def test_a_report_does_not_change_afterwards() -> None:
    counts = Tally()
    report = counts.report()
    counts.fetched("a", page())
    counts.refused("depth")
    assert report == Tally().report()


def test_merging_makes_one_picture_of_several_processes() -> None:
    both, first, second = Tally(), Tally(), Tally()
    for number in range(40):
        part = first if number % 2 else second
        for counts in (both, part):
            counts.fetched("a", page(elapsed=0.5))
            counts.failed("b", Failure(kind="timeout", elapsed=2.0), retry=True)
            counts.refused("host")
    merged = merge([first.report(in_flight=2), second.report(in_flight=3), TallyReport()])
    assert merged == msgspec.structs.replace(both.report(), in_flight=5, hosts=merged.hosts)
    assert [(h.host, h.pages, h.retries) for h in merged.hosts] == [("b", 0, 40), ("a", 40, 0)]
    assert merged.hosts[0].latency == pytest.approx(2.0)


def test_merging_nothing_is_an_empty_report() -> None:
    assert merge([]) == TallyReport()
