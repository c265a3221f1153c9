"""The store is set back while workers live: the benchmark of it, on a small site."""

from __future__ import annotations

from pathlib import Path

from benchmarks.setback import run


def test_every_page_is_obtained_though_the_store_forgets(tmp_path: Path) -> None:
    """The server is killed, and its file cut to what it had half a second earlier."""
    outcome = run(
        tmp_path,
        "server",
        pages=250,
        moments=2,
        lose=0.5,
        workers=2,
        seed=1,
        deadline=120.0,
        latency=0.05,
    )
    assert outcome.good, outcome
    assert (outcome.times, outcome.doubled) == (2, 0), outcome
