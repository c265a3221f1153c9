"""`shoal worker` and `shoal coordinator`: one process of a fleet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli import options

if TYPE_CHECKING:
    from shoal.runtime.worker_plan import WorkerPlan


def worker(
    spiders: options.Spiders = None,
    store: options.Store = options.DEFAULT_STORE,
    jobs: options.JobPatterns = None,
    lanes: options.ServedLanes = None,
    concurrency: options.Concurrency = None,
    no_coordinator: options.NoCoordinator = False,
    until_done: options.UntilDone = False,
    metrics: options.Metrics = None,
    trace: options.Trace = False,
    pairs: options.Pairs = None,
    config: options.Config = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Work on the jobs of these SPIDERs, wherever they were submitted. Ctrl-C or SIGTERM drains it."""
    options.set_up_logging(log_level, log_format, "info", runs_spiders=True)
    flags = options.flags(pairs, concurrency=concurrency, serve=lanes)
    plan = make_plan(
        spiders,
        store,
        jobs,
        flags,
        config,
        coordinates=not no_coordinator,
        until_done=until_done,
        metrics=metrics,
        trace=trace,
    )
    from shoal.engine.event_loop import run_loop
    from shoal.runtime.fleet_worker import serve
    from shoal.runtime.signals import stoppable

    run_loop(stoppable(serve(plan)))


def coordinator(
    spiders: options.Spiders = None,
    store: options.Store = options.DEFAULT_STORE,
    metrics: options.Metrics = None,
    pairs: options.Pairs = None,
    config: options.Config = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Feed start URLs, start recurring jobs and end finished ones. One of a fleet leads; others wait to take over."""
    options.set_up_logging(log_level, log_format, "info", runs_spiders=True)
    flags = options.flags(pairs)
    plan = make_plan(spiders, store, None, flags, config, metrics=metrics, fetches=False)
    from shoal.engine.event_loop import run_loop
    from shoal.runtime.fleet_worker import coordinate
    from shoal.runtime.signals import stoppable

    run_loop(stoppable(coordinate(plan)))


def make_plan(
    spiders: Sequence[str] | None,
    store: str,
    jobs: Sequence[str] | None,
    flags: dict[str, object],
    config: Path | None,
    *,
    coordinates: bool = True,
    until_done: bool = False,
    metrics: str | None = None,
    trace: bool = False,
    fetches: bool = True,
) -> WorkerPlan:
    """A plan with checked settings and spiders. With `fetches`, its proxies are checked too."""
    from shoal.fetch.proxy.pools import load_pools
    from shoal.runtime.worker_plan import WorkerPlan

    where = str(config) if config is not None else None
    plan = WorkerPlan(
        tuple(spiders or ()),
        store,
        tuple(jobs or ()),
        flags,
        where,
        coordinates,
        until_done,
        metrics or "",
        trace,
    )
    for spider in (None, *plan.load_spiders().values()):
        settings = plan.settings(spider)
        if fetches:
            load_pools(settings, os.environ)
    return plan
