"""How a process starts: the collector waits, but not for ever; what a command does not need is not imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shoal.cli.app import command_line

CODE = """
import gc
from shoal.engine import startup

usual = gc.get_threshold()
startup._OBJECTS = 5_000
startup.postpone_collection()
begun = [done["collections"] for done in gc.get_stats()]
kept = [[n] for n in range(4_000)]
assert [done["collections"] for done in gc.get_stats()] == begun, "it has not begun"
kept += [[n] for n in range(2_000)]
assert gc.get_threshold() == usual, "it has"
assert gc.get_freeze_count() > 4_000
assert not gc.callbacks
for _ in range(5_000):
    loop = []
    loop.append(loop)
assert sum(isinstance(found, list) and found and found[0] is found for found in gc.get_objects()) < 2_000
"""


def test_the_collector_begins_when_there_is_much() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


WITH_DUCKDB = """
from shoal.engine import startup
startup._OBJECTS = {objects}
startup.postpone_collection()
import duckdb
kept = [[n] for n in range(2_000)]
"""


@pytest.mark.parametrize("objects", [1_000, 10_000_000], ids=["frozen early", "frozen by the exit"])
def test_duckdb_finds_no_leaks_at_the_exit(objects: int) -> None:
    code = WITH_DUCKDB.format(objects=objects)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


AT_EXIT = """
import atexit, gc
from shoal.engine import startup
atexit.register(lambda: print(gc.get_freeze_count() > 1_000))  # called last
startup._OBJECTS = 1_000
startup.postpone_collection()
kept = [[n] for n in range(2_000)]
"""


def test_what_is_frozen_stays_so_where_duckdb_is_not_loaded() -> None:
    """An exit that looks at all objects is slower."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("name", ["status", "dead"])
def test_only_the_command_that_is_called_is_built(name: str) -> None:
    assert set(command_line(name).commands) == {name}


@pytest.mark.parametrize("name", ["", "statsu", "--help"])
def test_all_commands_are_there_for_a_name_that_is_none(name: str) -> None:
    assert {"crawl", "status", "dead"} <= set(command_line(name).commands)


AT_THE_FORK = """
import os, sys
from shoal.cli import main

def stop():
    print(*sys.modules)
    raise SystemExit(0)

os.fork = stop
main(["crawl", "http://127.0.0.1:9/"])
"""


def test_the_guardian_has_hardly_anything_imported() -> None:
    """All that it has is copied for the child, page by page, and taken down once more when it exits."""
    done = subprocess.run([sys.executable, "-c", AT_THE_FORK], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "shoal.engine.guardian" in loaded
    assert not loaded & {
        "asyncio",
        "ctypes",
        "inspect",
        "logging",
        "msgspec",
        "pathlib",
        "shoal.text",
        "typer",
    }


CRAWLING = """
import shoal.cli.app
from shoal.cli.app import command_line
command_line("crawl")
import shoal.cli.targets, shoal.runtime.crawl, shoal.terminal.progress_lines, shoal.terminal.summary
import shoal.frontier.sqlite, shoal.sink.text.text_outputs
import sys
print(*sys.modules)
"""
# What most crawls do not have, or not before a certain page or answer comes.
NOT_YET = """
    aiodns email.utils html isal.isal_zlib prometheus_client pycares rich.live tomllib xml.etree.ElementTree
    shoal.archive.cache shoal.archive.reader shoal.archive.records shoal.archive.index
    shoal.cli.status shoal.cli.suggestions
    shoal.engine.archiving shoal.fetch.ares_lookup
    shoal.html.attribute_bombs shoal.html.feed_dates shoal.html.markup_repair shoal.html.xml_css
    shoal.inspect.quality shoal.inspect.rejected shoal.inspect.why
    shoal.runtime.fleet_worker shoal.runtime.fork_server shoal.runtime.results shoal.runtime.served_jobs
    shoal.runtime.supervisor shoal.settings.keywords
    shoal.sink.objects.object_parts shoal.sink.objects.object_archive shoal.sink.objects.object_several
    shoal.sink.text.formats.xml shoal.sink.warc_files
    shoal.telemetry.metrics shoal.terminal.status_view
"""


def test_a_crawl_imports_what_all_crawls_need() -> None:
    done = subprocess.run([sys.executable, "-c", CRAWLING], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "shoal.engine.pipeline" in loaded
    assert not sorted(loaded & set(NOT_YET.split()))
