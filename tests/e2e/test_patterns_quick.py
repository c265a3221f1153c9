"""The patterns benchmark runs, on a web so small that only its structure can be looked at, not its figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from benchmarks.patterns.contenders.shoal import scaled_settings
from benchmarks.patterns.terms import Terms

from shoal.settings import Settings

ROOT = Path(__file__).parents[2]
DOCUMENT = "# Race\n\n<!-- table by-host -->\nold\n<!-- end of table -->\n\nThe end.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a race of two contenders leaves behind."""
    folder = tmp_path_factory.mktemp("race")
    (folder / "race.md").write_text(DOCUMENT)
    web = ["--hosts", "20", "--pages", "4", "--scale", "40", "--deadline", "1200"]
    files = ["--json", "race.json", "--plot", "race.svg", "--document", "race.md"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.patterns",
            *web,
            "--only",
            "semaphore",
            "shoal",
            "--order",
            "by-host",
            *files,
        ],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        check=True,
        timeout=120,
    )
    return folder


def test_every_figure_is_there_for_every_contender(folder: Path) -> None:
    race = msgspec.json.decode((folder / "race.json").read_bytes())["orders"]["by-host"]
    assert list(race["contenders"]) == ["semaphore", "shoal"]
    for name, figures in race["contenders"].items():
        # One host in twenty hangs: nobody gets its pages, and every request to it is a timeout.
        assert figures["obtainable"] == 19 * 4, name
        assert 60 <= figures["obtained"] <= 76, name
        assert figures["requests"] >= 76, name
        assert 0 < figures["timeout_rate"] < 0.5, name
        assert 0 <= figures["rate_429"] < 0.5, name
        assert 0 < figures["mean"] <= figures["p95"], name
        assert 0 <= figures["waited"] < figures["fetched"], name
        assert figures["cpu"] > 0, name
        assert figures["peak_rss"] > 10_000_000, name
        shares = [share for _, share in figures["curve"]]
        assert shares == sorted(shares), name
        assert shares[-1] == figures["obtained"] / figures["obtainable"], name
    assert len(race["claims"]) == 8


def test_the_plot_has_a_line_for_every_contender(folder: Path) -> None:
    plot = ElementTree.parse(folder / "race-by-host.svg")
    assert len(plot.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2


def test_the_table_takes_its_place_in_the_document(folder: Path) -> None:
    text = (folder / "race.md").read_text()
    assert text.startswith("# Race\n\n<!-- table by-host -->\n| | obtained | pages/min |")
    assert text.endswith("|\n<!-- end of table -->\n\nThe end.\n")
    assert "\n| `semaphore` | " in text
    assert "\n| `shoal` | " in text
    assert "old" not in text


def test_nothing_is_left_in_the_directory(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["race-by-host.svg", "race.json", "race.md"]


def test_only_times_of_the_web_are_scaled() -> None:
    """Shares, rates and days are numbers of the same kind: a breaker that opens at a twentieth loses pages."""
    scaled, usual = scaled_settings(Terms(10.0)), Settings()
    assert {"connect_timeout", "retry_base", "breaker_cooldown", "first_timeout"} <= scaled.keys()
    assert all(value == getattr(usual, name) / 10 for name, value in scaled.items())
    others = {
        "rate",
        "breaker_rate",
        "retry_budget",
        "store_high_water",
        "max_growth",
        "min_rate",
        "keep_days",
    }
    assert not scaled.keys() & (others | {"max_loop_lag", "settle_delay"})
