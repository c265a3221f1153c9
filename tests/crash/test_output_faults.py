"""What goes wrong with an output: a clear line, nothing lost, and the same command goes on when it is mended."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.outputs.cases import CASES, Places
from benchmarks.outputs.killing import SPIDER
from benchmarks.outputs.site import Site, changing_rows_of

from crash.harness import SHOAL, Desk, Process, until
from shoal.limits import MB

PAGES = 200
FAST = ("--rate", "0", "--per-host", "20")
SLOW = ("--rate", "60", "--per-host", "20")
# A user who may not do everything, also if that is root.
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", *SHOAL)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Rows of five megabytes, with fields of changing types."""
    with Site(PAGES, changing_rows_of) as site:
        yield site


@pytest.fixture
def suffix() -> str:
    raise NotImplementedError


@pytest.fixture
def places(suffix: str, desk: Desk, site: Site, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("SITE_URL", site.url)
    (desk.folder / "out").mkdir()
    return Places([f"out/rows.{suffix}"], desk.folder)


def crawl(places: Places, *options: str) -> Sequence[str]:
    return ("crawl", str(SPIDER), "-o", *places.outputs, *options)


def complaint(process: Process) -> str:
    assert process.code() == 3, process.err
    assert "Traceback" not in process.err
    [line] = [line for line in process.err.splitlines() if line.startswith("shoal: ")]
    return line


def check(places: Places, site: Site) -> None:
    faults, rows = CASES["jsonl"].judge(places, site)
    assert faults == []
    assert rows > PAGES


def output(places: Places) -> Path:
    return places.folder / places.outputs[0]


def size(places: Places) -> int:
    """Of the file and of what is beside it."""
    total = 0
    for path in output(places).parent.rglob("*"):
        with suppress(FileNotFoundError):  # its writer has renamed or removed it just now
            total += path.stat().st_size if path.is_file() else 0
    return total


@pytest.mark.parametrize("suffix", ["csv", "parquet", "sqlite"])
def test_files_that_may_grow_no_further(desk: Desk, site: Site, places: Places) -> None:
    """The limit is the kernel's, for every file; that of the store stays small."""
    full = desk.run(*crawl(places, *FAST), limits={resource.RLIMIT_FSIZE: 2 * MB})
    line = complaint(full)
    assert places.outputs[0] in line
    desk.finish(*crawl(places, *FAST))
    check(places, site)


@pytest.mark.parametrize("suffix", ["csv", "sqlite"])
def test_a_file_that_is_made_read_only(desk: Desk, site: Site, places: Places) -> None:
    running = desk.start(*crawl(places, *SLOW))
    until(lambda: size(places) > MB // 2, "rows")
    running.kill()
    before = {
        path: path.stat().st_mode for path in [output(places).parent, *output(places).parent.rglob("*")]
    }
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    line = complaint(desk.run(*crawl(places, *FAST), program=UNPRIVILEGED))
    assert places.outputs[0] in line
    for path, mode in before.items():
        path.chmod(mode)
    desk.finish(*crawl(places, *FAST))
    check(places, site)


@pytest.mark.parametrize("suffix", ["csv", "duckdb"])
def test_a_file_that_is_removed(desk: Desk, site: Site, places: Places) -> None:
    running = desk.start(*crawl(places, *SLOW))
    until(lambda: size(places) > MB // 2, "rows")
    for path in output(places).parent.glob("*rows*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    line = complaint(running)
    assert "removed" in line
    assert "--fresh" in line
    complaint(desk.run(*crawl(places, *FAST)))
    desk.finish(*crawl(places, *FAST, "--fresh"))
    check(places, site)


@pytest.mark.parametrize("suffix", ["parquet"])
def test_a_file_that_another_job_writes(desk: Desk, site: Site, places: Places) -> None:
    running = desk.start(*crawl(places, *SLOW))
    until(lambda: size(places) > MB // 2, "rows")
    refused = complaint(desk.run(*crawl(places, *FAST, "--job", "other")))
    assert places.outputs[0] in refused
    assert running.code() == 0, running.err
    check(places, site)
