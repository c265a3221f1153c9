"""The same URL added by a hundred workers at once, in several processes: exactly one is pending."""

from __future__ import annotations

import sys

from crash.harness import STORE, Desk, until

PROCESSES, TASKS = 4, 25
ADDER = """
import asyncio, pathlib, sys
from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import JobSpec
from shoal.model import Task

async def main(name, store, tasks):
    url = "http://same.test/page"
    task = Task(url, host=host_key(url), fingerprint=fingerprint(url))
    async with SqliteFrontier(store) as frontier:
        await frontier.open_job(JobSpec("job"))
        pathlib.Path(f"ready-{name}").touch()
        while not pathlib.Path("go").exists():
            await asyncio.sleep(0.001)
        added = await asyncio.gather(*(frontier.add("job", [task]) for _ in range(tasks)))
        print(sum(one.new for one in added), sum(one.duplicates for one in added))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_one_is_pending(desk: Desk) -> None:
    adder = (sys.executable, desk.file("adder.py", ADDER))
    adders = [desk.start(str(n), STORE, str(TASKS), program=adder) for n in range(PROCESSES)]
    until(lambda: len(list(desk.folder.glob("ready-*"))) == PROCESSES, "all processes at the start line")
    (desk.folder / "go").touch()
    assert [process.code() for process in adders] == [0] * PROCESSES
    told = [tuple(map(int, process.out.split())) for process in adders]
    assert (sum(new for new, _ in told), sum(old for _, old in told)) == (1, PROCESSES * TASKS - 1)
    counters = desk.job().counters
    assert (counters.admitted, counters.pending, counters.duplicates) == (1, 1, PROCESSES * TASKS - 1)
