"""The fuzzing engine finds what is planted: an exception, a hang, a death, and time that grows too fast."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from fuzz.planted import planted, planted_child
from shoal.testing.fuzz import TARGETS, watcher
from shoal.testing.fuzz.mutator import Mutator
from shoal.testing.fuzz.target import Reader, Run, lines
from shoal.testing.fuzz.trial import Share, Trial, Work, shrunk
from shoal.testing.fuzz.watcher import fuzz


def trial_of(run: Run) -> Trial:
    return Trial(planted(run), run)


def test_an_exception_is_found_once_a_place_and_shrunk() -> None:
    def run(data: bytes) -> None:
        if b"boom" in data:
            raise ValueError("it\nbroke")

    trial = trial_of(run)
    assert trial(b"quiet") is None
    found = trial(b"some boom here" * 20)
    assert found is not None
    assert (found.kind, found.data) == ("exception", b"boom")
    assert re.fullmatch(r"ValueError at test_engine.py:\d+: it broke", found.what)
    assert trial(b"boom again") is None
    assert len(trial.findings) == 1


def busy(steps: float) -> None:
    until = time.process_time() + steps
    while time.process_time() < until:
        pass


def test_time_that_grows_with_the_square_is_found_and_linear_time_is_not() -> None:
    square = trial_of(lambda data: busy((len(data) / 8_000) ** 2 * 4e-3))
    found = square.family(b"", b"ab", b"")
    assert found is not None
    assert found.kind == "growth"
    assert re.fullmatch(r"8192 bytes take [\d.]+ ms, 32768 bytes [\d.]+ ms", found.what)
    linear = trial_of(lambda data: busy(len(data) / 8_000 * 8e-3))
    assert linear.family(b"", b"ab", b"") is None


def test_an_input_beyond_its_bound_is_found_even_if_the_answer_is_cached() -> None:
    met: set[bytes] = set()

    def run(data: bytes) -> None:
        if data not in met:
            met.add(data)
            busy(0.3)

    found = trial_of(run)(b"x")
    assert found is not None
    assert found.kind == "slow"


def test_a_saved_finding_says_how_to_see_it_again(tmp_path: Path) -> None:
    found = trial_of(lambda data: 1 / 0)(b"x")  # type: ignore[arg-type,return-value]
    assert found is not None
    path = found.save(tmp_path)
    assert path.read_bytes() == found.data
    assert (
        f"again: python -m shoal.testing.fuzz planted --replay {path}\n"
        in path.with_suffix(".txt").read_text()
    )


@pytest.mark.parametrize("name", TARGETS)
def test_the_same_seed_gives_the_same_inputs(name: str) -> None:
    target = TARGETS[name]
    one, other, third = (Mutator([b"seed"], target.words, random.Random(seed), 300) for seed in (1, 1, 2))
    inputs = [one.next() for _ in range(200)]
    assert inputs == [other.next() for _ in range(200)]
    assert inputs != [third.next() for _ in range(200)]
    assert max(map(len, inputs)) <= 300
    assert len(set(inputs)) > 100


def test_shrinking_keeps_what_matters() -> None:
    assert sorted(shrunk(b"a" * 500 + b"X" + b"b" * 500 + b"Y", lambda data: {88, 89} <= {*data})) == [88, 89]


def test_a_reader_gives_values_for_any_bytes() -> None:
    reader = Reader(b"\x03abc\xff")
    assert reader.text() == "abc"
    assert reader.raw() == b""
    assert (reader.byte(), reader.number(), reader.choice("a", "b"), reader.texts(3)) == (0, 0, "a", [])
    assert lines(b"a\nb\nc", 2) == [b"a", b"b\nc"]
    assert lines(b"", 3) == [b"", b"", b""]


def test_what_a_process_was_at_is_still_there_when_it_is_gone(tmp_path: Path) -> None:
    share = Share(tmp_path / "share", new=True)
    Share(tmp_path / "share").begin(7, b"the last words")
    assert (share.done, share.beats, share.current) == (7, 1, b"the last words")


# -- processes


@pytest.mark.parametrize(("name", "kind"), [("dies", "death"), ("hangs", "hang")])
def test_a_process_that_dies_or_hangs_leaves_its_input_as_a_finding(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.testing.fuzz.watcher.run_child", planted_child)
    monkeypatch.setattr("shoal.testing.fuzz.watcher.HANG", 0.3)
    report = fuzz(Work(name, 2), tmp_path)
    assert report.inputs == 2, "it went on with the next input"
    assert [path.name.startswith(f"{name}-{kind}-") for path in report.findings].count(True) >= 1


def test_a_process_that_ends_while_it_is_looked_at_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after its exit code was asked for, and before the time it spent is read."""
    cpu_seconds = watcher._cpu_seconds
    looks: list[int | None] = []

    def at_its_end(pid: int | None) -> float:
        looks.append(pid)
        while len(looks) > 2 and Path(f"/proc/{pid}").exists():  # the first two are when it starts and begins
            time.sleep(0.001)
        return cpu_seconds(pid)

    monkeypatch.setattr(watcher, "run_child", planted_child)
    monkeypatch.setattr(watcher, "_cpu_seconds", at_its_end)
    assert fuzz(Work("waits", 1), tmp_path).findings == []


def test_a_run_of_two_processes_tries_as_many_inputs_as_asked(tmp_path: Path) -> None:
    report = fuzz(Work("cron", 500), tmp_path, jobs=2)
    assert (report.inputs, report.findings) == (500, [])
    assert str(report).startswith("cron                500 inputs in")
