"""Whatever handlers print, and however few files or streams a command is given: nothing is lost."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.stage import LOOPBACK, Villain, html
from crash.harness import ROWS, SHOAL, Desk, environment, parse_rows

SPIDER = """
from pathlib import Path
from shoal import Spider

spider = Spider("site", start=Path(__file__).with_name("start.txt"), rate=0, per_host=50, robots=False,
                allow_network=["127.0.0.0/8"])

@spider.handler
def page(page):
    print(page.css("title")[0].text())
    yield {"url": page.url}
"""
PAGES = 30
TITLE = '{"error":"the disk is full"}'


@pytest.fixture(scope="module")
def villain() -> Iterator[Villain]:
    body = html(f"<title>{TITLE}</title>".encode())
    with Villain({f"/{n}": body for n in range(PAGES)}) as villain:
        yield villain


@pytest.fixture
def desk(tmp_path: Path, villain: Villain) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        desk.file("site.py", SPIDER)
        desk.file("start.txt", "\n".join(villain.urls) + "\n")
        yield desk


@pytest.mark.parametrize("processes", ["1", "2"])
def test_what_a_handler_prints_is_only_printed(desk: Desk, villain: Villain, processes: str) -> None:
    """A title like a message between processes is no message between processes, and goes where prints go: to stderr,
    since rows may go to stdout."""
    process = desk.finish("crawl", "site.py", "-o", ROWS, "-q", "--processes", processes)
    assert (process.out, process.err.splitlines()) == ("", [TITLE] * PAGES)
    assert desk.urls() == sorted(villain.urls)


@pytest.mark.parametrize(
    ("closed", "processes"), [("<&-", "1"), (">&-", "1"), ("2>&-", "1"), ("<&- >&- 2>&-", "2")]
)
def test_closed_streams(desk: Desk, villain: Villain, closed: str, processes: str) -> None:
    """No socket and no database takes the place of a stream that is not there."""
    command = [*SHOAL, "crawl", "site.py", "-o", ROWS, "--processes", processes]
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command], cwd=desk.folder, env=environment(), timeout=40
    )
    assert ended.returncode == 0
    assert desk.urls() == sorted(villain.urls)


def test_rows_for_a_closed_output_are_refused(desk: Desk) -> None:
    command = [*SHOAL, "crawl", "site.py", "-o", "-"]
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command],
        cwd=desk.folder,
        env=environment(),
        timeout=40,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == b"shoal: -o -: standard output is closed; name a file, or leave it open\n"


def test_rows_on_standard_output(desk: Desk, villain: Villain) -> None:
    """They come from a child of the command, and are as whole as before."""
    options = ("-o", "-", "-q", "--allow-network", LOOPBACK, "--no-robots", "--rate", "0")
    process = desk.finish("crawl", *villain.urls, *options)
    assert sorted(row["url"] for row in parse_rows(process.out.encode())) == sorted(villain.urls)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_few_files(desk: Desk, processes: str) -> None:
    """300 hosts, of which a request and a connection that is kept each hold a file."""
    with Villain({"/": html(b"<title>x</title>")}, hosts=300) as many:
        urls = [many.url("/", host) for host in range(300)]
        desk.file("start.txt", "\n".join(urls) + "\n")
        command = ("crawl", "site.py", "-o", ROWS, "-q", "--concurrency", "400", "--processes", processes)
        process = desk.run(*command, limits={resource.RLIMIT_NOFILE: 256})
    assert process.code() == 0, process.err
    assert desk.urls() == sorted(urls)
    assert process.err.count("ulimit -n is 256: 80 requests at once instead of") == int(processes)


def test_too_few_files(desk: Desk) -> None:
    process = desk.run("crawl", "site.py", "-o", ROWS, limits={resource.RLIMIT_NOFILE: 50})
    assert process.code() == 2
    assert process.err == "shoal: only 50 files may be open (ulimit -n), Shoal needs 80: raise it\n"
