"""The soak runs, on a web so small that only its structure and its counts can be looked at, not its figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from benchmarks.soak.samples import Sample, second_half, slope

ROOT = Path(__file__).parents[2]
# Those that need no timeout to end; what parsers make of the others has tests of its own.
ATTACKS = ("bomb", "headers", "header", "short", "chunks", "cookies", "redirects", "bytes", "flood", "deep")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("soak")
    web = ["--pages", "160", "--hosts", "4", "--rate", "40", "--hostile-pages", "10", "--robots-bombs", "0"]
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.soak", *web, "--attacks", *ATTACKS),
            *("--kills", "1", "--every", "0.2", "--json", "soak.json", "--plot", "soak.svg"),
        ],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "verdict: nothing lost, nothing doubled" in ran.stdout
    return folder


def test_nothing_is_lost_or_doubled_beside_hostile_hosts_and_a_kill(folder: Path) -> None:
    verdict, samples = msgspec.json.decode((folder / "soak.json").read_bytes())
    assert verdict["honest_pages"] == 160
    assert (verdict["missing"], verdict["doubled"], verdict["strange"], verdict["open"]) == (0, 0, 0, 0)
    assert verdict["starts"] == 2
    assert verdict["balanced"]
    assert verdict["kinds"]["too_large"] >= 1, "the attacks were made"
    assert verdict["kinds"]["redirect_loop"] >= 1
    assert verdict["alone"] > 0
    assert verdict["beside"] > 0
    assert {sample["start"] for sample in samples} == {1, 2}
    last = samples[-1]
    assert last["memory"] > 20_000_000
    # The last may be of a process that is ending, and has closed them.
    assert max(sample["descriptors"] for sample in samples if sample["start"] == 2) > 3
    assert max(sample["tasks"] for sample in samples) > 0, "the processes tell how many tasks they have"
    assert last["store"] > 10_000


def test_the_plot_has_a_line_for_every_figure(folder: Path) -> None:
    plot = ElementTree.parse(folder / "soak.svg")
    assert len(plot.findall(".//{http://www.w3.org/2000/svg}polyline")) == 5


def test_a_slope_is_by_100_000_rows_of_the_second_half() -> None:
    samples = [
        Sample(
            at=n,
            rows=n * 1_000,
            start=1,
            memory=5_000 if n < 50 else n * 10,
            descriptors=7,
            threads=1,
            tasks=1,
            store=0,
        )
        for n in range(101)
    ]
    half = second_half(samples)
    assert [half[0].rows, half[-1].rows] == [50_000, 90_000]
    assert slope(half, "memory") == pytest.approx(1_000)
    assert slope(half, "descriptors") == 0
    assert slope(half[:1], "memory") == 0
