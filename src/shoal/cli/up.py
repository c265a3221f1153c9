"""`shoal up`: a fleet on this machine."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

from shoal.cli import options
from shoal.cli.worker import make_plan
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.inspect.overview import JobView, Overview
    from shoal.terminal.above_panel import AbovePanel

_LINE_EVERY = 5.0


def up(
    spiders: options.Spiders = None,
    count: Annotated[
        int | None,
        options.option(
            "-n", "--workers", value="N", text="Worker processes.", panel=options.SPEED, default="one a core"
        ),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    jobs: options.JobPatterns = None,
    lanes: options.ServedLanes = None,
    concurrency: options.Concurrency = None,
    until_done: options.UntilDone = False,
    dashboard: options.Dashboard = False,
    dashboard_port: options.DashboardPort = None,
    metrics: options.Metrics = None,
    trace: options.Trace = False,
    pairs: options.Pairs = None,
    config: options.Config = None,
    quiet: options.Quiet = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Keep N workers running on this machine. One Ctrl-C drains them all, a second one stops them at once."""
    from shoal.cli.dashboard import beside
    from shoal.engine.event_loop import run_loop
    from shoal.runtime.fork_server import prepare_workers
    from shoal.runtime.signals import stoppable
    from shoal.runtime.supervisor import supervise

    options.set_up_logging(log_level, log_format, runs_spiders=True)
    if count is not None and count < 1:
        raise UsageError(f"-n {count}: at least 1")
    prepare_workers()
    flags = options.flags(pairs, concurrency=concurrency, serve=lanes)
    plan = make_plan(spiders, store, jobs, flags, config, until_done=until_done, metrics=metrics, trace=trace)

    async def keeping() -> Overview:
        async with beside(store, dashboard, dashboard_port):
            return await supervise(plan, count or os.cpu_count() or 1, board.update)

    with _Board(quiet) as board:
        last = run_loop(stoppable(keeping()))
    if last is not None and not quiet:
        board.end(last)


class _Board:
    """A live view in a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=sys.stderr, emoji=False)
        live = not quiet and console.is_terminal and not console.is_dumb_terminal
        self._quiet = quiet
        self._live = (
            Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) if live else None
        )
        self._up = ExitStack()
        self._above: AbovePanel | None = None
        self._shown: dict[str, str] = {}
        self._next = 0.0
        self._began: float | None = None  # the frontier's time

    def __enter__(self) -> _Board:
        from shoal.terminal.above_panel import panel

        if self._live is not None:
            self._above = self._up.enter_context(panel(self._live))
        return self

    def __exit__(self, *_: object) -> None:
        self._up.close()

    def update(self, seen: Overview) -> None:
        from shoal.terminal.status_view import Frame, render

        self._began = self._began or seen.now
        if self._live is not None and self._above is not None:
            self._above.show()
            size = self._live.console.size
            self._live.update(render(Frame("", seen, live="up"), size.width, size.height), refresh=True)
        elif not self._quiet:
            self._show(seen)

    def _show(self, seen: Overview) -> None:
        """A line for every job that runs every few seconds, and for each that changed its state."""
        due = time.monotonic() >= self._next
        if due:
            self._next = time.monotonic() + _LINE_EVERY
        for one in seen.jobs:
            name, state = one.job.spec.name, one.job.state
            if self._shown.get(name, "" if state == "running" else state) != state or (
                due and state == "running"
            ):
                _show_line(one, seen.now)
            self._shown[name] = state

    def end(self, last: Overview) -> None:
        """A line for every job that was open meanwhile."""
        for one in last.jobs:
            if one.job.state in ("running", "paused") or one.job.finished_at >= (self._began or last.now):
                _show_line(one, last.now)


def _show_line(one: JobView, now: float) -> None:
    from shoal.engine.tally import TallyReport
    from shoal.inspect.job import View
    from shoal.terminal.progress_lines import make_progress

    report = TallyReport(in_flight=one.job.counters.leased)
    view = View(one.job, report, rate=one.rate, eta=one.eta, freshness=one.freshness, now=now)
    make_progress(sys.stderr, live=False).update(view)
