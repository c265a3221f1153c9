"""Every fuzz target, for a moment: the corpus always, and inputs that Hypothesis makes of each target's words.

`python -m shoal.testing.fuzz` goes on where this stops.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.cli.targets import read_targets
from shoal.errors import UsageError
from shoal.testing.fuzz import TARGETS
from shoal.testing.fuzz.corpus import inputs
from shoal.testing.fuzz.target import Run
from shoal.testing.fuzz.targets import LIVE
from shoal.testing.fuzz.targets.texts import check_line

ROOT = Path(__file__).parents[2]
WORDS = ["a.py", "m:n", "a.example", "localhost:8000", "ftp://u:s3cret@h"]
EXAMPLES = 60
EXAMPLES_WITH_A_SERVER = 15


def test_the_corpus_holds(tmp_path: Path) -> None:
    """In processes of its own, which are watched: an input that hangs is a finding, and does not stop the suite."""
    ran = subprocess.run(
        [sys.executable, "-m", "shoal.testing.fuzz", "--corpus", "--findings", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("nothing found") == len(TARGETS)


@pytest.fixture(scope="module", params=TARGETS)
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[str, Run]]:
    with TARGETS[request.param].open() as run:
        yield request.param, run


def test_whatever_the_bytes_the_rule_of_the_target_holds(opened: tuple[str, Run]) -> None:
    name, run = opened
    target = TARGETS[name]
    words = st.sampled_from([*target.words, b"x"])
    small = [data for data in inputs(target).values() if len(data) <= target.largest]
    parts = st.lists(st.one_of(words, words, st.sampled_from(small), st.binary(max_size=20)), max_size=12)

    @settings(
        max_examples=EXAMPLES_WITH_A_SERVER if name in LIVE else EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(data=parts.map(b"".join))
    def holds(data: bytes) -> None:
        run(data[: target.largest])

    holds()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    words=st.lists(st.text(max_size=20) | st.sampled_from(["a.py", "m:n", "a.example", "ftp://u:s3cret@h"]))
)
def test_words_of_the_command_line_are_targets_or_refused_in_one_line(words: list[str]) -> None:
    try:
        source = read_targets(words, None)
    except UsageError as error:
        check_line(str(error))
    else:
        assert source.spec or source.urls
