"""`shoal crawl`, `shoal fetch` and `shoal demo` against a real web on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import shoal
from shoal.testing import HostProfile, WebProcess

Cli = Callable[..., tuple[int, str, str]]

PAGES = 12
DEADLINE = 30.0


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {
        "site": HostProfile("fast", pages=PAGES),
        "slow": HostProfile("slow", pages=40, latency=0.8, links=8),
        "closed": HostProfile("fast", pages=2, robots="User-agent: *\nDisallow: /\n"),
        "winding": HostProfile("redirecting", pages=4),
    }
    with WebProcess(hosts) as web:
        yield web


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def start(*argv: str, cwd: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    source = str(Path(shoal.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", "from shoal.cli import main; main()", *argv],
        cwd=cwd,
        env={**environment, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# -- crawl


def test_a_site_becomes_a_file_of_rows(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    code, out, err = cli("crawl", web.url("site"), "-o", "rows.jsonl", "--rate", "0", "--summary", "end.json")
    assert (code, out) == (0, ""), err
    rows = rows_of(tmp_path / "rows.jsonl")
    assert sorted(row["url"] for row in rows) == sorted(web.pages_of("site"))
    assert "finished after" in err

    summary = msgspec.json.decode((tmp_path / "end.json").read_bytes())
    assert (summary["state"], summary["done"], summary["rows"], summary["dead"]) == (
        "finished",
        PAGES,
        PAGES,
        0,
    )
    assert summary["statuses"] == {"200": PAGES}
    assert summary["success_rate"] == 1.0
    assert summary["latency"]["p50"] > 0


def test_the_same_command_again_says_that_it_is_finished(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    command = ("crawl", web.url("site"), "--rate", "0")
    assert cli(*command)[0] == 0
    (file,) = tmp_path.glob("*.jsonl")
    before = file.read_bytes()
    code, out, err = cli(*command)
    assert (code, out) == (0, "")
    assert err == (
        f"job {web.addresses['site']}-{file.stem[-6:]} is finished: {PAGES} pages, {PAGES} rows in {file.name}; "
        "run with --fresh to start again\n"
    )
    assert file.read_bytes() == before

    code, _, err = cli(*command, "--fresh")
    assert code == 0
    assert "finished after" in err
    assert len(rows_of(file)) == PAGES


def test_rows_on_stdout_and_everything_else_on_stderr(cli: Cli, web: WebProcess) -> None:
    code, out, err = cli("crawl", web.url("site"), "-o", "-", "--rate", "0")
    assert code == 0, err
    assert len([msgspec.json.decode(line) for line in out.splitlines()]) == PAGES


def test_quiet_is_quiet(cli: Cli, web: WebProcess) -> None:
    assert cli("crawl", web.url("site"), "--rate", "0", "-q") == (0, "", "")


def test_budget_and_depth(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    assert (
        cli("crawl", web.url("site"), "-o", "few.jsonl", "--rate", "0", "--max-pages", "3", "--job", "few")[0]
        == 0
    )
    assert len(rows_of(tmp_path / "few.jsonl")) == 3
    assert (
        cli("crawl", web.url("site"), "-o", "one.jsonl", "--rate", "0", "--depth", "0", "--job", "one")[0]
        == 0
    )
    assert [row["depth"] for row in rows_of(tmp_path / "one.jsonl")] == [0]


def test_a_file_of_urls_with_junk_in_it(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    urls = [web.url("site", f"/p/{n}") for n in range(3)]
    lines = [urls[0], "", "# a comment", urls[1], "ftp://junk/", urls[2], urls[0]]
    (tmp_path / "urls.txt").write_text("\n".join(lines))
    trusted = ("-s", "trust_start=true")
    code, _, err = cli("crawl", "-i", "urls.txt", "-o", "rows.jsonl", "--rate", "0", "--depth", "0", *trusted)
    assert code == 0, err
    assert sorted(row["url"] for row in rows_of(tmp_path / "rows.jsonl")) == urls


def test_a_spider_in_a_file(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(
        "from shoal import Spider\n"
        f"spider = Spider('pages', start={web.url('site')!r}, rate=0)\n"
        "@spider.handler\n"
        "def page(page):\n"
        "    yield {'title': page.text('title')}\n"
        "    yield from page.follow_all('a')\n"
    )
    code, _, err = cli("crawl", "pages.py")
    assert code == 0, err
    assert len(rows_of(tmp_path / "pages.jsonl")) == PAGES


def test_an_interrupted_crawl_drains_and_goes_on_later(web: WebProcess, tmp_path: Path) -> None:
    command = ("crawl", web.url("slow"), "-o", "rows.jsonl", "--rate", "0", "--per-host", "4")
    first = start(*command, cwd=tmp_path)
    rows, deadline = tmp_path / "rows.jsonl", time.monotonic() + DEADLINE
    while len(web.hits_of("slow")) < 5 and first.poll() is None and time.monotonic() < deadline:
        pass  # each look is a question to the server and its answer
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=DEADLINE)
    assert first.returncode == 0, err
    assert "run the same command again to go on" in err
    assert 0 < len(rows_of(rows)) < 40

    web.hurry("slow")
    second = start(*command, cwd=tmp_path)
    _, err = second.communicate(timeout=DEADLINE)
    assert second.returncode == 0, err
    found = [row["url"] for row in rows_of(rows)]
    assert sorted(found) == sorted(web.pages_of("slow"))


# -- fetch


def test_fetch_shows_what_shoal_sees(cli: Cli, web: WebProcess) -> None:
    code, out, err = cli("fetch", web.url("site").removeprefix("http://"))
    assert (code, err) == (0, "")
    for words in (
        "ok",
        web.url("site"),
        web.addresses["site"],
        "allowed",
        "200",
        "would be followed",
        "Content-Type",
    ):
        assert words in out


def test_fetch_follows_redirects_and_tells_them(cli: Cli, web: WebProcess) -> None:
    code, out, _ = cli("fetch", web.url("winding", "/r/1"), "--json")
    seen = msgspec.json.decode(out)
    assert code == 0
    assert (seen["url"], seen["final_url"]) == (web.url("winding", "/r/1"), web.url("winding", "/p/1"))
    assert len(seen["hops"]) == 2
    assert seen["links"] > 0
    assert seen["title"]


def test_fetch_stops_in_a_loop(cli: Cli, web: WebProcess) -> None:
    code, out, _ = cli("fetch", web.url("winding", "/loop/0"), "--json", "-s", "max_redirects=3")
    assert code == 1
    assert msgspec.json.decode(out)["kind"] == "redirect_loop"


def test_fetch_of_a_missing_page_fails(cli: Cli, web: WebProcess) -> None:
    code, out, err = cli("fetch", web.url("site", "/none"))
    assert (code, err) == (1, "")
    assert "http_404" in out


def test_fetch_obeys_robots_unless_told_otherwise(cli: Cli, web: WebProcess) -> None:
    hits = len(web.hits_of("closed"))
    code, out, _ = cli("fetch", web.url("closed"), "--json")
    assert code == 1
    assert msgspec.json.decode(out)["kind"] == "robots"
    assert {hit.path for hit in web.hits_of("closed")[hits:]} == {"/robots.txt"}
    assert cli("fetch", web.url("closed"), "--no-robots")[0] == 0


def test_fetch_prints_the_body_alone(cli: Cli, web: WebProcess) -> None:
    code, out, err = cli("fetch", web.url("site"), "--body")
    assert (code, err) == (0, "")
    assert out.lstrip().lower().startswith("<!doctype html")
    assert "would be followed" not in out


# -- demo


def test_the_demo_ends_by_itself_and_explains_each_host(tmp_path: Path) -> None:
    process = start("demo", "--seconds", "3", cwd=tmp_path)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err
    assert out == ""
    for words in ("shop", "tarpit", "what happens", "dead letters", "demo ", "latency"):
        assert words in err
    assert list(tmp_path.iterdir()) == []
