"""In every process of a crawl that is soaked: writes down, once a second, how many tasks there are."""

import asyncio.tasks
import os
import threading
import time
from pathlib import Path

_FOLDER = os.environ.get("SOAK_TASKS")


def _count() -> int:
    # Private, and named otherwise since Python 3.12: asyncio tells only the tasks of the loop that asks.
    tasks = getattr(asyncio.tasks, "_all_tasks", None) or getattr(asyncio.tasks, "_scheduled_tasks", ())
    return len(tasks)


def _write(path: Path) -> None:
    while path.parent.is_dir():
        path.write_text(str(_count()))
        time.sleep(1.0)


def _start() -> None:
    path = Path(_FOLDER or "") / str(os.getpid())
    threading.Thread(target=_write, args=(path,), daemon=True).start()


if _FOLDER:
    _start()
    os.register_at_fork(after_in_child=_start)  # threads do not come along when a guardian forks
