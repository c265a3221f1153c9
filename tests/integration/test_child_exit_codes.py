"""What a worker process ends with comes out of its supervisor: the message and the exit code. With real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.errors import ShoalError
from shoal.runtime.supervisor import Supervisor
from shoal.runtime.worker_plan import CrawlPlan, WorkerPlan
from shoal.settings import Settings
from shoal.spider.loading import SpiderSource

SPIDER = """
from shoal import Spider
from shoal.errors import ShoalError

spider = Spider("site", start="http://127.0.0.1:9/")

@spider.handler
def page(page):
    pass
"""


def supervisor(folder: Path, code: str, store: str = "") -> Supervisor:
    (folder / "site.py").write_text(code)
    crawl = CrawlPlan(
        SpiderSource("site", str(folder / "site.py")), Settings(), "job", (str(folder / "rows.jsonl"),)
    )
    return Supervisor(WorkerPlan((), store or str(folder / "shoal.db"), crawl=crawl), 1)


async def failure_of(one: Supervisor) -> ShoalError:
    with pytest.raises(ShoalError) as caught:
        await one.run()
    return caught.value


async def test_a_spider_that_cannot_be_loaded_is_wrong_usage(tmp_path: Path) -> None:
    failure = await failure_of(supervisor(tmp_path, SPIDER + "1 / 0\n"))
    assert failure.exit_code == 2
    assert "site.py:10: ZeroDivisionError" in str(failure)


async def test_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    failure = await failure_of(supervisor(tmp_path, SPIDER, str(tmp_path / "folder.db")))
    assert failure.exit_code == 3
    assert "folder.db" in str(failure)


async def test_any_other_failure(tmp_path: Path) -> None:
    failure = await failure_of(supervisor(tmp_path, SPIDER + 'raise ShoalError("too much failed")\n'))
    assert failure.exit_code == 1
    assert "too much failed" in str(failure)


def test_the_command_ends_with_the_exit_code_of_its_child(tmp_path: Path) -> None:
    only_in_a_child = """
from shoal.engine.guardian import guarded
if guarded().ledger is None:
    raise ShoalError("too much failed")
"""
    (tmp_path / "site.py").write_text(SPIDER + only_in_a_child)
    command = f"{sys.executable} -m shoal crawl site.py -o rows.jsonl --processes 2 -q".split()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "shoal: site.py:13: too much failed"
