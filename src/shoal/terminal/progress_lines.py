"""Progress on stderr: a live panel in a terminal, a line now and then elsewhere, or nothing.

Results may go to stdout, so nothing here does.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from rich.console import Console

from shoal.events import event
from shoal.inspect.freshness import in_words
from shoal.inspect.job import View, remaining
from shoal.spider import debugging
from shoal.spider.attached import is_attached
from shoal.telemetry.logging import only_json
from shoal.terminal import live_panel
from shoal.text import humanize

if TYPE_CHECKING:
    from shoal.terminal.above_panel import AbovePanel

LIVE_EVERY = 0.25  # seconds between refreshes of the panel
LINE_EVERY = 5.0  # seconds between log lines


class Progress(Protocol):
    def update(self, view: View) -> None:
        """Shows the view, unless one was shown a moment ago."""
        ...

    def log(self, message: str) -> None:
        """One line that stays."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SilentProgress:
    """Nothing but what must be said (`log`)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def update(self, view: View) -> None:
        pass

    def log(self, message: str) -> None:
        self._stream.write(f"{humanize.printable(message)}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class PlainProgress(SilentProgress):
    """A line every few seconds, and one whenever the job changes its state."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._phase: tuple[str, str] | None = None
        self._next = 0.0

    def update(self, view: View) -> None:
        phase = (view.job.state, view.note)
        if phase == self._phase and view.elapsed < self._next:
            return
        self._phase, self._next = phase, view.elapsed + LINE_EVERY
        self.show(view)

    def show(self, view: View) -> None:
        self.log(line(view))


class EventProgress(PlainProgress):
    """The same lines, as events."""

    def show(self, view: View) -> None:
        counters = view.job.counters
        event(
            "progress",
            line(view),
            job=view.job.spec.name,
            state=view.job.state,
            done=counters.done,
            admitted=counters.admitted,
            rate=round(view.rate, 2),
            in_flight=view.report.in_flight,
            pending=counters.pending,
            delayed=counters.delayed,
            dead=counters.dead,
            rejected=counters.rejected,
            eta=view.eta if view.freshness is None else None,
            waiting=counters.waiting,
            followed=view.freshness.followed if view.freshness is not None else None,
            overdue=view.freshness.overdue if view.freshness is not None else None,
        )


class LiveProgress:
    """A panel that is redrawn in place and gives way to the summary. It also gives way to a debugger: from then on
    there are lines."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._lines: PlainProgress | None = None
        # stdout belongs to the results and stays untouched.
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._up = ExitStack()
        self._above: AbovePanel | None = None
        self._next = 0.0

    def update(self, view: View) -> None:
        if self._lines is not None:
            if not debugging.at_prompt():  # of another thread than the loop's
                self._lines.update(view)
        elif view.elapsed >= self._next:
            self._next = view.elapsed + LIVE_EVERY
            self._show_lines()
            self._live.update(live_panel.render(view), refresh=True)

    def _show_lines(self) -> None:
        if self._above is not None:
            self._above.show()

    def log(self, message: str) -> None:
        self._show_lines()
        self._live.console.print(humanize.printable(message), markup=False, highlight=False)

    def _at_prompt(self, opened: bool) -> None:
        if opened and self._lines is None:
            self._up.close()
            self._above = None
            self._lines = PlainProgress(self._live.console.file)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        from shoal.terminal.above_panel import panel

        self._up.enter_context(debugging.listening(self._at_prompt))
        self._above = self._up.enter_context(panel(self._live))
        return self

    def __exit__(self, *_: object) -> None:
        self._up.close()


def line(view: View) -> str:
    """The view as one line of a log."""
    counters, report = view.job.counters, view.report
    done = f"{humanize.count(counters.done)} of {humanize.count(counters.admitted)} pages"
    parts = [
        done if view.freshness is None else in_words(view.freshness, view.now),
        f"{humanize.rate(view.rate)}/s",
        f"{humanize.count(report.in_flight)} in flight",
        f"{humanize.count(counters.pending)} queued",
        f"{humanize.count(counters.delayed - counters.waiting)} delayed",
        f"{humanize.count(counters.dead)} dead",
    ]
    if counters.rejected:
        parts.append(f"{humanize.plural(counters.rejected, 'rejected item')}")
    if view.eta is not None and remaining(view.job):
        ends = "ETA" if view.freshness is None else "caught up in"
        parts.append(f"{ends} {humanize.duration(view.eta)}")
    state = view.note or ("" if view.job.state == "running" else view.job.state)
    return f"{view.job.spec.name}: {', '.join(parts)}" + (f" ({state})" if state else "")


def make_progress(stream: TextIO, quiet: bool = False, live: bool = True) -> Progress:
    """What suits the stream: `live` only if it is a terminal that can move its cursor."""
    if quiet:
        return SilentProgress(stream)
    console = Console(file=stream, emoji=False)
    if (
        live
        and not debugging.is_active()
        and not is_attached()
        and console.is_terminal
        and not console.is_dumb_terminal
    ):
        return LiveProgress(console)
    return EventProgress(stream) if only_json() else PlainProgress(stream)
