"""Several processes may make the same new store at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROUNDS, PROCESSES = 20, 4

# A process of its own, without threads, so that it may fork: all its children open the file at the same moment.
RACE = """
import os, sys, time
from shoal.frontier.sqlite.schema import connect

failed = 0
for number in range(int(sys.argv[2])):
    start = time.monotonic() + 0.02
    children = []
    for _ in range(int(sys.argv[3])):
        child = os.fork()
        if child == 0:
            while time.monotonic() < start:
                pass
            try:
                connect(f"{sys.argv[1]}/{number}.db").close()
            except Exception as error:
                print(error, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed += sum(os.waitpid(child, 0)[1] != 0 for child in children)
sys.exit(failed > 0)
"""


def test_several_processes_make_a_new_store_at_once(tmp_path: Path) -> None:
    race = [sys.executable, "-c", RACE, str(tmp_path), str(ROUNDS), str(PROCESSES)]
    done = subprocess.run(race, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
