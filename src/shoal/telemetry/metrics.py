"""What Prometheus is told: a table of every metric, and how each is read from what Shoal knows of itself.

    render_process(report, vitals)   one process, or several that are one command
    render_store(overview)           the whole store: its jobs, queues and workers

The labels of a metric are few, however large a crawl is: no URL and no host is one. Jobs beyond the newest are summed
up as "other". The names of jobs are under `job_name`, for Prometheus itself says `job` for what it scrapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, get_args

from msgspec import Struct

from shoal import __version__
from shoal.engine.tally import LATENCY_EDGES, TallyReport
from shoal.engine.vitals import Vitals
from shoal.errors import UsageError
from shoal.frontier.values import JobState
from shoal.model import counts
from shoal.policy.outcomes import row_of
from shoal.settings import BackpressureRule

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from shoal.inspect.freshness import Freshness
    from shoal.inspect.overview import JobView, LaneLoad, Overview

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_JOBS = 50
OTHER = "other"
RULES = get_args(BackpressureRule)

S = TypeVar("S")
Samples = Mapping[tuple[str, ...], float]  # by the values of the labels
Kind = Literal["counter", "gauge", "histogram"]


class Histogram(Struct, frozen=True):
    counts: Sequence[int]  # fetches in each bucket of `EDGES`, and slower ones
    sum: float


class Metric(Struct, Generic[S], frozen=True):
    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    read: Callable[[S], float | Samples | Histogram | None]  # None: there is nothing to tell


# -- one process

# Every fourth edge of a tally's, each about twice the one before it.
_STEP = 4
EDGES = LATENCY_EDGES[::_STEP]

_OUTCOMES = ("2xx", "3xx", "4xx", "5xx", OTHER, "none")
_RESULTS = ("unchanged", "changed", "gone", "missed", "held")
_REASONS = frozenset({"allow", "deny", "depth", "host", "nofollow", "not a URL", "scheme", "trap"})


class Process(Struct, frozen=True):
    report: TallyReport
    vitals: Vitals


def _fetches(of: Process) -> Samples:
    """By the class of the answer; "none": there was no answer."""
    counts = dict.fromkeys(_OUTCOMES, 0)
    for status, count in of.report.statuses.items():
        outcome = f"{status // 100}xx"
        counts[outcome if outcome in counts else OTHER] += count
    counts["none"] = max(0, of.report.fetches - sum(of.report.statuses.values()))
    return {(outcome,): count for outcome, count in counts.items()}


def _failures(of: Process) -> Samples:
    counts: Counter[tuple[str, ...]] = Counter()
    for kind, count in of.report.errors.items():
        counts[(row_of(kind),)] += count
    return counts


def _refused(of: Process) -> Samples:
    counts: Counter[tuple[str, ...]] = Counter()
    for reason, count in of.report.refused.items():
        group = reason.partition(":")[0]
        counts[(group if group in _REASONS else OTHER,)] += count
    return counts


def _visits(of: Process) -> Samples:
    """By what they found; "first": there was nothing to compare with."""
    visits = of.report.visits
    if not visits:
        return {}
    first = visits.visits - visits.unchanged - visits.changed - visits.held
    return {("first",): first, **{(name,): getattr(visits, name) for name in _RESULTS}}


def _fetch_seconds(of: Process) -> Histogram:
    counts = [0] * (len(EDGES) + 1)
    for bucket, count in enumerate(of.report.latency):
        counts[-(-bucket // _STEP)] += count
    return Histogram(counts, of.report.seconds)


PROCESS: tuple[Metric[Process], ...] = (
    Metric("shoal_build_info", "gauge", ("version",),
           "The version that runs; always 1.", lambda of: {(__version__,): 1}),
    Metric("shoal_processes", "gauge", (),
           "Processes that these figures are of.", lambda of: of.vitals.processes),
    Metric("shoal_pages_total", "counter", (),
           "Pages received, redirects not counted.", lambda of: of.report.pages),
    Metric("shoal_handled_total", "counter", (),
           "Pages whose handler ended well, and that are committed.", lambda of: of.report.handled),
    Metric("shoal_fetches_total", "counter", ("outcome",),
           "Requests sent, by the class of the answer's status; none: no answer.", _fetches),
    Metric("shoal_failures_total", "counter", ("kind",),
           "Attempts that failed, by kind; with a handler's error a page had come.", _failures),
    Metric("shoal_retries_total", "counter", (),
           "Failed attempts that are repeated.", lambda of: of.report.retries),
    Metric("shoal_dead_total", "counter", (),
           "Pages given up: they went to the dead letters.", lambda of: of.report.dead),
    Metric("shoal_rejected_total", "counter", (),
           "Items that were not written, and are kept with the reason.", lambda of: of.report.rejected),
    Metric("shoal_refused_total", "counter", ("reason",),
           "URLs that were found and not admitted, by reason.", _refused),
    Metric("shoal_cut_total", "counter", ("what",),
           "Links of a page and cookies of a redirect beyond what is taken; items of pages that ask for noindex.",
           lambda of: {(what,): count for what, count in of.report.cut.items()}),
    Metric("shoal_logins_total", "counter", ("outcome",),
           "Logins of sessions, by outcome: ok or failed.",
           lambda of: {("ok",): of.report.logins, ("failed",): of.report.failed_logins}),
    Metric("shoal_cached_total", "counter", (),
           "Pages and requests inside handlers that were answered from the archive.", lambda of: of.report.cached),
    Metric("shoal_visits_total", "counter", ("result",),
           "Visits of pages that are visited again and again, by what they found.", _visits),
    Metric("shoal_visit_wait_seconds_total", "counter", (),
           "Seconds from the visits before to these, in all.", lambda of: of.report.visits.waited or None),
    Metric("shoal_visit_late_seconds_total", "counter", (),
           "Of these seconds, those after the visits were due.",
           lambda of: of.report.visits.late if of.report.visits.waited else None),
    Metric("shoal_stale_total", "counter", (),
           "Pages that were finished after their lease had been given away.", lambda of: of.vitals.stale),
    Metric("shoal_received_bytes_total", "counter", (),
           "Bytes received, before decoding.", lambda of: of.report.bytes),
    Metric("shoal_files_total", "counter", (),
           "Files that were downloaded.", lambda of: of.report.files),
    Metric("shoal_file_bytes_total", "counter", (),
           "Bytes of files that were downloaded.", lambda of: of.report.file_bytes),
    Metric("shoal_fetch_seconds", "histogram", (),
           "How long requests took, from sent to complete.", _fetch_seconds),
    Metric("shoal_in_flight", "gauge", (),
           "Pages being fetched or handled.", lambda of: of.report.in_flight),
    Metric("shoal_waiting", "gauge", (),
           "Pages in flight that only wait, and hold no slot.", lambda of: of.vitals.waiting),
    Metric("shoal_slots", "gauge", (),
           "How many pages may be worked on at once.", lambda of: of.vitals.slots),
    Metric("shoal_usable_slots", "gauge", (),
           "How many of the slots backpressure leaves.", lambda of: of.vitals.usable),
    Metric("shoal_backpressure_active", "gauge", ("rule",),
           "Processes that the backpressure rule holds back.",
           lambda of: {(rule,): of.vitals.held_by.get(rule, 0) for rule in RULES}),
    Metric("shoal_settling_lag_seconds", "gauge", (),
           "How long the oldest finished page has waited to be committed.", lambda of: of.vitals.settling_lag),
    Metric("shoal_loop_lag_seconds", "gauge", (),
           "How late the event loop was at worst, in the last two seconds.", lambda of: of.vitals.loop_lag),
    Metric("shoal_cpu_seconds_total", "counter", (),
           "Processor time used.", lambda of: of.vitals.cpu),
    Metric("shoal_memory_bytes", "gauge", (),
           "Memory in use.", lambda of: of.vitals.memory or None),
    Metric("shoal_memory_limit_bytes", "gauge", (),
           "Memory that may be used before backpressure sets in.", lambda of: of.vitals.memory_limit or None),
    Metric("shoal_open_files", "gauge", (),
           "Files and connections that are open.", lambda of: of.vitals.open_files or None),
    Metric("shoal_open_files_limit", "gauge", (),
           "How many files and connections the system allows.", lambda of: of.vitals.file_limit or None),
)  # fmt: skip


# -- the store


class Store(Struct, frozen=True):
    up: bool
    overview: Overview | None = None  # None: not known
    conditions: Mapping[str, int] | None = None  # how many hosts are in which
    alarms: int | None = None  # of the quality of rows

    @property
    def jobs(self) -> Sequence[tuple[str, JobView]]:
        """With their labels: the newest have their own, and those that are open before those that are through."""
        if self.overview is None:
            return ()
        first = sorted(self.overview.jobs, key=_importance, reverse=True)
        return [
            (_utf8(one.job.spec.name) if place < MOST_JOBS else OTHER, one) for place, one in enumerate(first)
        ]


def _importance(one: JobView) -> tuple[bool, float]:
    return one.job.state in ("running", "paused"), one.job.created_at


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()


def _of_overview(
    read: Callable[[Overview], float | Samples | None],
) -> Callable[[Store], float | Samples | None]:
    return lambda of: None if of.overview is None else read(of.overview)


def _by_job(read: Callable[[JobView], float]) -> Callable[[Store], Samples]:
    def samples(of: Store) -> Samples:
        sums: dict[tuple[str, ...], float] = {}
        for label, one in of.jobs:
            sums[(label,)] = sums.get((label,), 0) + read(one)
        return sums

    return samples


def _tasks(of: Store) -> Samples:
    counts: Counter[tuple[str, ...]] = Counter()
    for label, one in of.jobs:
        for state in ("pending", "delayed", "waiting", "leased", "done", "dead", "merged"):
            counts[(label, state)] += getattr(one.job.counters, state)
        counts[(label, "delayed")] -= one.job.counters.waiting
    return counts


def _counters(of: Store) -> Samples:
    sums: Counter[tuple[str, ...]] = Counter()
    for label, one in of.jobs:
        for name, number in counts.without_visits(counts.without_costs(one.job.counts)).items():
            sums[(label, name if label != OTHER else counts.OTHER)] += number
    return sums


def _costs(of: Store) -> Samples:
    sums: dict[tuple[str, ...], float] = {}
    for label, one in of.jobs:
        for pool, cost in counts.costs(one.job.counts).items():
            sums[(label, pool)] = sums.get((label, pool), 0.0) + cost
    return sums


def _fresh(read: Callable[[Freshness, float], float | None]) -> Callable[[Store], Samples]:
    """Of standing jobs, by their freshness and the time. Those that are "other" are left out: a ratio or an age cannot
    be summed up."""

    def samples(of: Store) -> Samples:
        found = {
            label: read(one.freshness, of.overview.now)
            for label, one in of.jobs
            if one.freshness is not None and label != OTHER and of.overview is not None
        }
        return {(label,): value for label, value in found.items() if value is not None}

    return samples


def _oldest(one: Freshness, now: float) -> float:
    return 0.0 if one.oldest_due is None else max(0.0, now - one.oldest_due)


def _next_visit(one: Freshness, now: float) -> float | None:
    return None if one.next_due is None else max(0.0, one.next_due - now)


def _job_visits(of: Store) -> Samples:
    return {
        (label, result): getattr(one.freshness.visits, result)
        for label, one in of.jobs
        if one.freshness is not None and label != OTHER
        for result in ("visits", *_RESULTS)
    }


def _jobs(overview: Overview) -> Samples:
    states = Counter(one.job.state for one in overview.jobs)
    return {(state,): states[state] for state in get_args(JobState)}


def _eta(of: Store) -> Samples:
    return {(label,): one.eta for label, one in of.jobs if one.eta is not None and label != OTHER}


def _by_lane(read: Callable[[LaneLoad], float]) -> Callable[[Store], float | Samples | None]:
    return _of_overview(lambda of: {(_utf8(lane),): read(load) for lane, load in of.lanes.items()})


def _hosts(of: Store) -> Samples | None:
    return None if of.conditions is None else {(name,): count for name, count in of.conditions.items()}


def _held(overview: Overview) -> Samples:
    held = Counter(reason.rule for worker in overview.workers for reason in worker.pressure)
    return {(rule,): held[rule] for rule in RULES}


STORE: tuple[Metric[Store], ...] = (
    Metric("shoal_store_up", "gauge", (),
           "Whether the store answered in time.", lambda of: of.up),
    Metric("shoal_jobs", "gauge", ("state",),
           "Jobs in the store, by state.", _of_overview(_jobs)),
    Metric("shoal_tasks", "gauge", ("job_name", "state"),
           "Where the tasks of a job are.", _tasks),
    Metric("shoal_job_running", "gauge", ("job_name",),
           "Whether a job is running.", _by_job(lambda one: one.job.state == "running")),
    Metric("shoal_job_rows", "gauge", ("job_name",),
           "Rows that a job has written.", _by_job(lambda one: one.job.counters.items)),
    Metric("shoal_job_counter", "gauge", ("job_name", "name"),
           "What the spider of a job counts itself; what its handlers and hooks dropped.", _counters),
    Metric("shoal_job_cost", "gauge", ("job_name", "pool"),
           "What the requests of a job have cost, by pool of proxies.", _costs),
    Metric("shoal_job_rate", "gauge", ("job_name",),
           "Pages a second of a job, lately, of all workers.", _by_job(lambda one: one.rate)),
    Metric("shoal_job_workers", "gauge", ("job_name",),
           "Workers that serve a job.", _by_job(lambda one: one.workers)),
    Metric("shoal_job_eta_seconds", "gauge", ("job_name",),
           "Until a job is through; missing when there is no telling.", _eta),
    Metric("shoal_freshness_ratio", "gauge", ("job_name",),
           "Share of the pages that a job follows which were checked within their interval.",
           _fresh(lambda one, _: one.ratio)),
    Metric("shoal_pages_followed", "gauge", ("job_name",),
           "Pages that a job visits again and again.", _fresh(lambda one, _: one.followed)),
    Metric("shoal_pages_waiting", "gauge", ("job_name",),
           "Of these, those that wait for their next visit, and are on time.", _fresh(lambda one, _: one.on_time)),
    Metric("shoal_pages_overdue", "gauge", ("job_name",),
           "Of these, those whose visit is due.", _fresh(lambda one, _: one.overdue)),
    Metric("shoal_pages_failing", "gauge", ("job_name",),
           "Of these, those whose last visit came to nothing: missed or gone.",
           _fresh(lambda one, _: one.failing)),
    Metric("shoal_pages_held", "gauge", ("job_name",),
           "Of these, those whose items lacked something at their last visit: the rows from before stay.",
           _fresh(lambda one, _: one.held)),
    Metric("shoal_oldest_overdue_seconds", "gauge", ("job_name",),
           "How long the visit is due that is overdue longest; 0: none is.", _fresh(_oldest)),
    Metric("shoal_next_visit_seconds", "gauge", ("job_name",),
           "Until the next page is due that waits; missing if none waits.", _fresh(_next_visit)),
    Metric("shoal_job_visits", "gauge", ("job_name", "result"),
           "Visits of a job, by what they found; visits: all that were answered.", _job_visits),
    Metric("shoal_queue_pending", "gauge", ("lane",),
           "Tasks that wait for their turn, by lane.", _by_lane(lambda load: load.pending)),
    Metric("shoal_queue_in_flight", "gauge", ("lane",),
           "Tasks in hand, by lane.", _by_lane(lambda load: load.in_flight)),
    Metric("shoal_workers", "gauge", (),
           "Workers that are alive.", _of_overview(lambda overview: len(overview.workers))),
    Metric("shoal_held_workers", "gauge", ("rule",),
           "Workers that the backpressure rule holds back.", _of_overview(_held)),
    Metric("shoal_success_ratio", "gauge", (),
           "Share of the attempts of the last minutes whose page was handled.",
           _of_overview(lambda overview: overview.success)),
    Metric("shoal_hosts", "gauge", ("condition",),
           "Hosts by condition; told by the dashboard only.", _hosts),
    Metric("shoal_quality_alarms", "gauge", (),
           "Fields that are empty or out of their range, and were not; told by the dashboard only.",
           lambda of: of.alarms),
)  # fmt: skip


# -- as text


def render_process(report: TallyReport, vitals: Vitals) -> bytes:
    return _render(PROCESS, Process(report, vitals))


def render_store(
    overview: Overview | None,
    conditions: Mapping[str, int] | None = None,
    *,
    alarms: int | None = None,
    up: bool | None = None,
) -> bytes:
    """Without an overview, only whether the store is `up`."""
    return _render(STORE, Store(overview is not None if up is None else up, overview, conditions, alarms))


def check_installed() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError(
            "metrics need the package prometheus-client: pip install 'shoal[dashboard]'"
        ) from None


def _render(metrics: Iterable[Metric[S]], source: S) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest

    class Collector:
        def collect(self) -> Iterator[Family]:
            for metric in metrics:
                found = metric.read(source)
                if found is not None and found != {}:
                    yield _family(metric, found)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry)


def _family(metric: Metric[S], found: float | Samples | Histogram) -> Family:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if isinstance(found, Histogram):
        return HistogramMetricFamily(
            metric.name, metric.help, buckets=list(_buckets(found)), sum_value=found.sum
        )
    family: CounterMetricFamily | GaugeMetricFamily
    if metric.kind == "counter":
        family = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
    else:
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in found.items() if isinstance(found, Mapping) else [((), found)]:
        family.add_metric(labels, value)
    return family


def _buckets(histogram: Histogram) -> Iterator[tuple[str, float]]:
    """Cumulative, as Prometheus wants them. The edges are written short: nobody minds the fourth digit."""
    passed = 0
    for edge, count in zip([*(f"{edge:.3g}" for edge in EDGES), "+Inf"], histogram.counts, strict=True):
        passed += count
        yield edge, passed
