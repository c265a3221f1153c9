"""`shoal coordinator`: feeds and schedules jobs, and fetches nothing."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.cli import options
from shoal.cli.worker import announce, make_plan


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
    options.set_up_logging(log_level, log_format, "info")
    plan = make_plan(spiders or (), store, None, options.flags(pairs), config, fetches=False)
    plan = replace(plan, metrics=metrics or "")
    from shoal.engine.loop import run_loop
    from shoal.runtime.signals import stoppable
    from shoal.runtime.worker import coordinate

    announce("coordinator", plan)
    run_loop(stoppable(coordinate(plan)))
