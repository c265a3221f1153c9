"""What the autoscaler is told: deploy/kubernetes/components/autoscale/depth.py on a real store."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.frontier import open_frontier
from shoal.frontier.values import JobSpec, JobState
from shoal.model import Task

SCRIPT = Path(__file__).parents[2] / "deploy" / "kubernetes" / "components" / "autoscale" / "depth.py"
PATIENCE = 60.0
STATES: dict[str, JobState] = {"a": "running", "b": "running", "c": "paused"}


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "shoal.db")


@pytest.fixture
def depth(store: str) -> Iterator[str]:
    """Its URL."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, "SHOAL_STORE": store}
    command = [sys.executable, str(SCRIPT), "127.0.0.1", "0"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield f"http://{process.stderr.readline().split()[-1]}"
        finally:
            process.kill()


async def fill(store: str) -> None:
    async with open_frontier(store) as frontier:
        for name, state in STATES.items():
            await frontier.open_job(JobSpec(name, "spider"))
            await frontier.add(name, [Task(f"http://{name}.example/{n}", host=name) for n in range(3)])
            await frontier.set_state(name, state)


def ask(depth: str) -> tuple[int, dict[str, Any]]:
    """Asks again, as an autoscaler does, where the machine is too busy for an answer in time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(depth, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = json.load(refusal)
            if said != {"error": "the store does not answer"} or time.monotonic() > deadline:
                return refusal.code, said


def test_the_depth_is_that_of_the_running_jobs(depth: str, store: str) -> None:
    asyncio.run(fill(store))
    assert ask(depth) == (200, {"open": 6, "jobs": 2, "workers": 0})


def test_a_store_that_cannot_be_read_is_no_depth(depth: str) -> None:
    """A zero would send all workers home. The server itself is well."""
    status, said = ask(depth)
    assert status == 503
    assert "there is no store" in said["error"]
    assert ask(f"{depth}/alive") == (200, {})
