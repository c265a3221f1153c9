"""The benchmark of peers runs, with those that need nothing but Shoal, on sites so small that figures mean nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from benchmarks.peers.results import Results

ROOT = Path(__file__).parents[2]
# As `python -m benchmarks.peers`, but a site that a busy machine keeps waiting is not asked again.
PATIENT = """
import sys
from msgspec.structs import replace
from benchmarks.peers.__main__ import main
from benchmarks.peers.contenders import PEERS, shoal

PEERS["shoal"] = replace(PEERS["shoal"], command=lambda task: shoal(task, "-s", "min_timeout=60"))
sys.exit(main())
"""


def test_loop_and_shoal_fetch_the_same_pages(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-c", PATIENT, "--only", "aiohttp", "shoal"),
            *("--shapes", "list", "tls", "--pages", "60", "--rounds", "1", "--json", "peers.json"),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    results = msgspec.json.decode((tmp_path / "peers.json").read_bytes(), type=Results)
    assert not results.failures
    assert [shape.name for shape in results.shapes] == ["list", "tls"]
    for shape in results.shapes:
        loop, ours = (results.runs[shape.name][name][0].asked for name in ("aiohttp", "shoal"))
        assert (loop.pages, loop.again, loop.robots) == (shape.pages, 0, 0)
        assert (ours.pages, ours.again, ours.robots) == (shape.pages, 0, shape.hosts)
    assert list(tmp_path.iterdir()) == [tmp_path / "peers.json"]  # every folder of a crawl is gone
