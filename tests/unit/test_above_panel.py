"""What is written while a live panel is up: whole lines above it, in their order, with nothing left out."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.live import Live

from shoal.terminal.above_panel import AbovePanel, panel

WIDTH = 40


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def above(shown: io.StringIO) -> AbovePanel:
    return AbovePanel(Console(file=shown, width=WIDTH), sys.stderr)


def test_a_line_waits_for_its_end(above: AbovePanel, shown: io.StringIO) -> None:
    above.write("no newline")
    above.show()
    assert shown.getvalue() == ""
    above.write(", and its end\n\nafter a blank")
    above.show()
    assert shown.getvalue() == "no newline, and its end\n\n"
    above.end()
    above.end()
    assert shown.getvalue() == "no newline, and its end\n\nafter a blank\n"


def test_a_long_line_is_not_broken(above: AbovePanel, shown: io.StringIO) -> None:
    line = "WARNING on https://shop.example/" + "x" * 3 * WIDTH
    above.write(f"{line}\n")
    assert shown.getvalue() == f"{line}\n"


def test_line_ends_of_windows_and_marks_of_rich_are_text(above: AbovePanel, shown: io.StringIO) -> None:
    above.write("[bold]a[/bold]\r\n:smile: 12\r\n")
    assert shown.getvalue() == "[bold]a[/bold]\n:smile: 12\n"


def test_a_long_line_in_small_pieces_is_quick(above: AbovePanel, shown: io.StringIO) -> None:
    for _ in range(200_000):  # joined each time, they would take minutes
        above.write(".")
    above.end()
    assert shown.getvalue() == "." * 200_000 + "\n"


def test_stderr_is_given_back(shown: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    before = io.StringIO()
    monkeypatch.setattr(sys, "stderr", before)
    live = Live(console=Console(file=shown, width=WIDTH), auto_refresh=False, redirect_stdout=False)
    with panel(live):
        sys.stderr.write("said\nand not ended")
    assert sys.stderr is before
    assert shown.getvalue().startswith("said\nand not ended\n")
