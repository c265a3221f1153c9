"""What a crawl says about itself adds up: in the summary, the store, the metrics and the log, however it ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, ClassVar

import msgspec
import pytest

import shoal
from crash.harness import Desk
from shoal.cli.app import command_line
from shoal.telemetry.logging import set_up
from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider

spider = Spider(
    "mixed", start="{url}", rate=0, per_host=4, max_attempts=2, retry_base=0.05, robots=False, breaker_cooldown=0.1,
    min_timeout=30,
)

@spider.handler
def start(page):
    yield from page.follow_all("a", every)

@spider.handler
def every(page):
    if "/broken/" in page.url:
        raise ValueError("the handler does not like it")
    if "/junk/" in page.url:
        yield object()
    yield {{"url": page.url}}
"""
# How many of each kind; what becomes of them stands behind it.
PATHS = {
    "fine": 9,  # handled
    "missing": 3,  # dead at once
    "busy": 2,  # one retry, then dead
    "flaky": 4,  # one retry, then handled
    "broken": 5,  # fetched, and the handler fails
    "junk": 2,
    "moved": 3,  # to pages that the job has
}


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head
    seen: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        kind, _, number = self.path.strip("/").partition("/")
        self.seen[self.path] += 1
        if kind == "":
            links = [f'<a href="/{name}/{n}">x</a>' for name, count in PATHS.items() for n in range(count)]
            self._answer(200, "".join(links))
        elif kind == "moved":
            self._answer(302, "", f"/fine/{number}")
        else:
            bad = kind == "busy" or (kind == "flaky" and self.seen[self.path] == 1)
            self._answer(503 if bad else 404 if kind == "missing" else 200, "<p>page</p>")

    def _answer(self, status: int, text: str, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Site.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def read(path: Path) -> Any:
    return msgspec.json.decode(path.read_bytes())


def check_job(found: dict[str, Any]) -> None:
    places = ("pending", "delayed", "leased", "done", "dead", "merged")
    assert found["admitted"] == sum(found[place] for place in places)


def check_run(found: dict[str, Any]) -> None:
    """Of a run from beginning to end, of which no process died."""
    failures = sum(found["errors"].values())
    assert failures == found["retries"] + found["dead"]
    assert found["done"] == found["handled"]
    assert found["retried"] == found["retries"]
    assert found["pages"] == found["handled"] + sum(
        found["errors"].get(kind, 0) for kind in ("handler", "junk")
    )
    assert found["success_rate"] == pytest.approx(found["handled"] / (found["handled"] + failures))
    assert sum(found["statuses"].values()) == found["fetches"]


HOMES = ["sqlite", "sqlite, two processes", "valkey"]


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if request.param == "valkey":
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        return ("--store", valkey.url)
    return ("--processes", "2") if "two" in request.param else ()


@pytest.fixture
def as_before() -> Iterator[None]:
    """The log of this process is in JSON meanwhile."""
    yield
    set_up("WARNING", "text")


@pytest.mark.usefixtures("as_before")
def test_a_mixed_crawl_adds_up_everywhere(cli: Cli, site: str, tmp_path: Path, home: tuple[str, ...]) -> None:
    (tmp_path / "mixed.py").write_text(SPIDER.format(url=site))
    log = ("--log-format", "json", "--log-level", "debug")
    code, _, err = cli("crawl", "mixed.py", "--summary", "end.json", *log, *home)
    assert code == 0, err
    told = [msgspec.json.decode(line) for line in err.splitlines()]
    end = read(tmp_path / "end.json")
    check_job(end)
    check_run(end)
    assert end["errors"] == {"http_404": 3, "http_503": 2 * 2 + 4, "handler": 5, "junk": 2}
    assert (end["done"], end["dead"], end["merged"]) == (1 + 9 + 4, 3 + 2 + 5 + 2, PATHS["moved"])
    assert (end["rows"], end["statuses"]["302"]) == (9 + 4, 3)
    assert end["fetches"] == sum(Site.seen.values())

    [finished] = [one["fields"] for one in told if one["event"] == "job_finished"]
    assert (finished["done"], finished["dead"], finished["left"]) == (end["done"], end["dead"], 0)
    if "--processes" not in home:  # its children tell from warnings on
        assert sum(one["event"] == "page_dead" for one in told) == end["dead"]

    store = home if "--store" in home else ()
    [status] = msgspec.json.decode(cli("status", "--json", *store)[1])["jobs"]
    check_job(status)
    assert {name: status[name] for name in ("done", "dead", "retried")} == {
        name: end[name] for name in ("done", "dead", "retried")
    }
    top = msgspec.json.decode(cli("status", "--json", *store)[1])
    assert top["success"] == pytest.approx(end["success_rate"])
    letters = msgspec.json.decode(cli("dead", "list", "--json", *store)[1])
    assert Counter(letter["kind"] for letter in letters) == {
        "http_404": 3,
        "http_503": 2,
        "handler": 5,
        "junk": 2,
    }


def test_the_figures_of_a_run_go_on_when_its_process_dies(site: str, tmp_path: Path) -> None:
    (tmp_path / "mortal.py").write_text(
        SPIDER.format(url=site)
        .replace("rate=0", "rate=5")
        .replace(
            "    yield {",
            "    if page.url.endswith('/fine/8') and page.task.attempt == 1:\n"
            "        import os, signal\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "    yield {",
        )
    )
    with Desk(tmp_path) as desk:
        err = desk.finish("crawl", "mortal.py", "--summary", "end.json").err
    end = read(tmp_path / "end.json")
    check_job(end)
    assert end["restarts"] == 1
    assert "1; what was counted just before is missing" in err
    assert (end["done"], end["dead"], end["merged"]) == (1 + 9 + 4, 3 + 2 + 5 + 2, 3)
    fetched = sum(Site.seen.values())
    assert fetched - 8 <= end["fetches"] <= fetched, "all but what was in flight, and the last half second"
    assert end["retried"] > end["retries"], "the pages that were in flight"
    assert end["seconds"] > fetched / 5 * 0.7


# -- how a crawl ends


def test_a_page_limit_says_what_it_left(cli: Cli, site: str) -> None:
    command = ("crawl", site, "--rate", "0", "--no-robots", "--max-pages", "3", "--job", "few")
    left = "pages not fetched: it has its 3 pages; with a larger max_pages it goes on"
    code, _, err = cli(*command)
    assert code == 0, err
    assert left in err
    assert left in cli(*command)[2], "also when it is run again"
    [status] = msgspec.json.decode(cli("status", "--json")[1])["jobs"]
    assert status["left"] == f"{status['pending']} {left}"
    card = " ".join(cli("status", "few")[1].replace("│", " ").split())
    assert status["left"] in card
    assert f"3 of {status['admitted']} pages" in card
    assert status["left"] in " ".join(cli("status")[1].split())
    [job] = msgspec.json.decode(cli("status", "--json")[1])["jobs"]
    assert job["progress"] == pytest.approx(3 / status["admitted"])


@pytest.mark.parametrize(
    ("paths", "options", "code"),
    [
        (["missing/1", "missing/2"], (), 1),
        (["missing/1", "missing/2"], ("--fail-above", "100"), 0),
        (["fine/1", "missing/2"], (), 0),
        (["fine/1", "missing/2"], ("--fail-above", "49.9%"), 1),
        (["fine/1", "missing/2"], ("--fail-above", "50"), 0),
        (["fine/1", "missing/2"], ("--fail-above", "0"), 1),
        (["fine/1"], ("--fail-above", "0"), 0),
    ],
)
def test_the_exit_code_says_whether_too_much_failed(
    cli: Cli, site: str, paths: list[str], options: tuple[str, ...], code: int
) -> None:
    urls = [site + path for path in paths]
    command = ("crawl", *urls, "--rate", "0", "--no-robots", "--depth", "0", "--job", "j", "-q", *options)
    for _ in range(2):  # the same command again says the same
        found, _, err = cli(*command)
        assert found == code, err
        assert (" given up; see shoal dead list --job j\n" in err) == bool(code)


EXITS = [
    ("crawl {site}fine/1 -q --no-robots --job other", 0),
    ("crawl {site}missing/1 -q --no-robots", 1),
    ("crawl {site}fine/1 -q --fail-above many", 2),
    ("crawl {site}fine/1 -q --no-robots -o taken.jsonl", 3),
    ("submit nowhere.py", 2),
    ("worker nowhere.py", 2),
    ("submit lost.py --store redis://127.0.0.1:1", 3),
    ("add known {site}fine/2", 0), ("add nobody {site}fine/2", 2), ("add known ftp://a/", 2),
    ("store", 0), ("store --store missing.db", 3),
    ("up nowhere.py", 2),
    ("coordinator nowhere.py", 2),

    ("status", 0), ("status nobody", 2), ("status --store missing.db", 3),
    ("top", 0), ("top --store missing.db", 3),
    ("pause nobody", 2), ("resume nobody", 2), ("cancel nobody", 2),
    ("report known", 0), ("report nobody", 2), ("report known -o taken.txt", 2),
    ("why {site}fine/1", 0), ("why http//a", 2),
    ("hosts", 0), ("hosts show nobody.test", 2), ("hosts block {site}", 0),
    ("proxies", 0), ("proxies test --url {site}", 2),
    ("dead list", 0), ("dead show 99", 2), ("dead replay", 2), ("dead drop --all", 0),
    ("rejected list", 0), ("rejected show 99", 2), ("rejected replay", 2), ("rejected drop --all", 0),
    ("rows known", 0), ("rows nobody", 2), ("rows known --store missing.db", 3),
    ("changes known", 2), ("changes nobody", 2), ("changes known --store missing.db", 3),
    ("quality", 0), ("quality show nobody.test", 2), ("quality accept nobody.test", 2),
    ("webhook test", 2),
    ("export known -o other.csv", 0), ("export nobody -o other.json", 2), ("export known -o other.cvs", 2),
    ("extract lost.py --from nowhere -o x.jsonl", 2),
    ("fetch {site}fine/1 --no-robots", 0), ("fetch {site}missing/1 --no-robots", 1), ("fetch ftp://a/", 2),
    ("init a-project", 0), ("init --spider two/words {site}", 2),
    ("try lost.py {site}fine/1 --no-cache", 1), ("try nowhere.py", 2), ("try lost.py {site}fine/1 --offline", 1),
    ("keep {site}fine/1 kept", 0), ("keep ftp://a/", 2), ("guess {site}fine/1 --no-robots", 1), ("guess ftp://a/", 2),
    ("shell {site}fine/1 -c page", 0), ("shell ftp://a/", 2),
    ("check lost.py", 0), ("check nowhere.py", 2),
    ("doctor ftp://a/", 2),
    ("completion bash", 0), ("completion nonsense", 2),
    ("nonsense", 2), ("--version", 0),
]  # fmt: skip


def test_every_command_keeps_to_the_table_of_exit_codes(
    cli: Cli, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken.txt").write_text("something else\n")
    (tmp_path / "taken.jsonl").write_text("something else\n")
    (tmp_path / "lost.py").write_text(
        "from shoal import Spider\nspider = Spider('lost', 'http://a.test/')\n@spider.handler\ndef page(page): pass\n"
    )
    assert cli("crawl", f"{site}fine/1", "-q", "--no-robots", "--job", "known", "--rate", "0")[0] == 0
    monkeypatch.setenv("SHOAL_RATE", "0")  # else `guess` looks at a page a second
    for argv, code in EXITS:
        found, _, err = cli(*argv.format(site=site).split())
        assert (found, "Traceback" in err) == (code, False), f"{argv}: {err}"
    commands = command_line().commands
    served = {"dashboard", "demo"}  # they run until they are stopped, or for half a minute
    assert commands.keys() - {argv.split()[0] for argv, _ in EXITS} == served


def test_a_file_without_a_single_url_is_a_failure(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("nonsense\nmailto:me@example.com\n")
    code, _, err = cli("crawl", "-i", "urls.txt", "-q", "--job", "j")
    assert code == 1
    assert "job j: nothing was crawled, 2 start URLs refused: not a URL 1 · scheme 1" in err


@pytest.mark.parametrize("command", ["crawl", "submit"])
def test_a_spider_without_a_start_is_told_so(cli: Cli, tmp_path: Path, command: str) -> None:
    (tmp_path / "lost.py").write_text(
        "from shoal import Spider\nspider = Spider('lost')\n@spider.handler\ndef page(page): pass\n"
    )
    code, _, err = cli(command, "lost.py")
    assert (code, err) == (
        2, "shoal: spider 'lost' has no start, so there is nothing to crawl: Spider('lost', start=…)\n"
    )  # fmt: skip
    assert msgspec.json.decode(cli("status", "--json")[1])["jobs"] == []


def test_a_start_that_gives_nothing_says_so(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("# nothing new today\n")
    code, _, err = cli("crawl", "-i", "urls.txt")
    assert code == 0
    assert "its start gave no URL: there was nothing to crawl" in err


# -- URLs from standard input


def test_urls_are_read_from_standard_input_as_they_come(site: str, tmp_path: Path) -> None:
    command = (
        "crawl",
        "-i",
        "-",
        "-s",
        "trust_start=true",
        "--no-robots",
        "--rate",
        "0",
        "-o",
        "rows.jsonl",
        "-q",
    )
    with crawling(*command, cwd=tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(f"# two\n{site}fine/1\n\nhttp//nonsense\n".encode())
        process.stdin.flush()
        wait_until(lambda: Site.seen["/fine/1"])  # before the input has ended
        process.stdin.write(b"http://" + b"x" * 3_000_000 + f"\n{site}fine/2".encode())
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0
    assert "stdin:4: http//nonsense is not crawled: not a URL; did you mean http://nonsense?" in err.decode()
    assert "stdin:5: http://xxx" in err.decode()
    assert "is not crawled: line longer than 1,048,576 characters" in err.decode()
    assert len((tmp_path / "rows.jsonl").read_bytes().splitlines()) == 2


def test_standard_input_that_is_a_file_is_gone_on_with(site: str, tmp_path: Path) -> None:
    """It is read from its beginning every time, so that lines which were added are found; no page is fetched twice."""
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{site}fine/{n}\n" for n in range(5)))
    options = ("-s", "trust_start=true", "--no-robots", "--rate", "0")
    names = set()
    for pages, added in ((5, ""), (5, f"{site}fine/5\n"), (6, "")):
        with (
            urls.open("rb") as file,
            crawling("crawl", "-i", "-", *options, cwd=tmp_path, stdin=file) as process,
        ):
            said = process.communicate(timeout=30)[1].decode()
        assert process.returncode == 0
        [name] = re.findall(r"(stdin-\w+) finished after", said)
        names.add(name)
        assert Site.seen == {f"/fine/{n}": 1 for n in range(pages)}
        assert len((tmp_path / f"{name}.jsonl").read_bytes().splitlines()) == pages
        with urls.open("a") as more:
            more.write(added)
    assert len(names) == 1


# -- mistakes in a spider

BREAKS = """
from shoal import Request, Spider

def start():
    yield "{url}fine/1"
    {mistake}
    yield "{url}fine/2"

spider = Spider("breaks", start=start, rate=0, robots=False, trust_start=True)

@spider.handler
def page(page):
    yield {{"url": page.url}}
"""
MISTAKES = {
    "raise ValueError('the list is gone')": (
        "breaks.py:6: the start of spider 'breaks' failed after start request 1: ValueError: the list is gone"
    ),
    "yield Request('http://a.test/', meta={'d': object()})": (
        "spider 'breaks': breaks.py:6: start request 2: its meta cannot be stored: Encoding objects of type object "
        "is unsupported (http://a.test/)"
    ),
    "yield Request('http://a.test/', handler=len)": (
        "breaks.py:6: len is not a handler: put @spider.handler above it, or give the name of a handler"
    ),
    "yield 7": "breaks.py:6: spider 'breaks': start gave a int; give URLs (str) or Requests",
}


@pytest.mark.parametrize(
    ("home", "mistake"),
    [*(("sqlite", mistake) for mistake in MISTAKES), *((home, next(iter(MISTAKES))) for home in HOMES[1:])],
    indirect=["home"],
)
def test_a_start_that_breaks_keeps_what_it_gave_and_goes_on_when_it_is_mended(
    cli: Cli, site: str, tmp_path: Path, home: tuple[str, ...], mistake: str
) -> None:
    spider, store = tmp_path / "breaks.py", home if "--store" in home else ()
    spider.write_text(BREAKS.format(url=site, mistake=mistake))
    code, _, err = cli("crawl", "breaks.py", "-q", *home)
    said = MISTAKES[mistake]
    assert (code, err) == (2, f"shoal: {said}; put it right and run the same command again to go on\n")
    [status] = msgspec.json.decode(cli("status", "--json", *store)[1])["jobs"]
    assert (status["state"], status["trouble"], status["admitted"]) == ("paused", said, 1)

    spider.write_text(BREAKS.format(url=site, mistake="pass"))
    code, _, err = cli("crawl", "breaks.py", "-q", *home)
    assert (code, err) == (0, "")
    [status] = msgspec.json.decode(cli("status", "--json", *store)[1])["jobs"]
    assert (status["state"], status["trouble"], status["done"]) == ("finished", None, 2)


@pytest.mark.parametrize("store", ["sqlite", "valkey"])
def test_no_worker_of_a_fleet_dies_of_a_mistake_in_a_spider(
    cli: Cli, site: str, tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    where = ("--store", request.getfixturevalue("valkey").url if store == "valkey" else "jobs.db")
    mistake = next(iter(MISTAKES))
    (tmp_path / "breaks.py").write_text(BREAKS.format(url=site, mistake=mistake))
    assert cli("submit", "breaks.py", *where)[0] == 0
    code, _, err = cli("worker", "breaks.py", "--until-done", "--log-level", "error", *where)
    assert code == 1, err
    assert "Traceback" not in err
    at = f" --store {where[1]}"
    assert err.splitlines()[-1] == (
        f"shoal: not all is done: job breaks is paused: {MISTAKES[mistake]}; put it right and run:"
        f" shoal resume breaks{at}"
    )
    code, _, err = cli("up", "breaks.py", "-n", "1", "--until-done", "-q", "--log-level", "error", *where)
    assert (code, "not all is done: job breaks is paused" in err) == (1, True), err
    assert cli("cancel", "breaks", *where)[0] == 0
    assert cli("worker", "breaks.py", "--until-done", *where)[0] == 0, "a person has decided"
    assert cli("submit", "breaks.py", *where)[0] == 0
    assert cli("worker", "breaks.py", "--until-done", "--log-level", "error", *where)[0] == 1
    [job] = msgspec.json.decode(cli("status", "--json", *where)[1])["jobs"]
    assert (job["state"], job["trouble"], job["admitted"]) == ("paused", MISTAKES[mistake], 1)
    assert MISTAKES[mistake] in " ".join(cli("status", *where)[1].split())


def test_requests_that_cannot_be_stored_are_dead_letters_that_say_so(
    cli: Cli, site: str, tmp_path: Path
) -> None:
    (tmp_path / "odd.py").write_text(
        f"""
from shoal import Request, Spider

ODD = [{{"meta": {{"d": object()}}}}, {{"handler": len}}, {{"handler": "nobody"}}, {{"priority": "high"}},
       {{"priority": 2**70}}]
spider = Spider("odd", start=[f"{site}fine/{{n}}" for n in range(6)], rate=0, robots=False)

@spider.handler
def first(page):
    number = int(page.url[-1])
    if number < len(ODD):
        yield Request("{site}fine/9", **ODD[number])
    else:
        yield Request("{site}fine/8", handler=second)

@spider.handler
def second(page):
    yield {{"url": page.url}}
"""
    )
    code, _, err = cli("crawl", "odd.py", "-q", "--log-level", "error")
    assert (code, err) == (0, "")
    letters = msgspec.json.decode(cli("dead", "list", "--json")[1])
    assert {letter["kind"] for letter in letters} == {"junk"}
    assert sorted(letter["attempts"][-1]["detail"] for letter in letters) == [
        "handler 'first' yielded a request: its meta cannot be stored: Encoding objects of type object is unsupported "
        f"(odd.py:8, for {site}fine/9)",
        "handler 'first' yielded a request: spider 'odd' has no handler named 'nobody'; it has first, second "
        f"(odd.py:8, for {site}fine/9)",
        "odd.py:12: Request: its priority is a str; give a whole number",
        "odd.py:12: Request: its priority is beyond 2,147,483,647",
        "odd.py:12: len is not a handler: put @spider.handler above it, or give the name of a handler",
    ]
    assert [
        row["url"] for row in map(msgspec.json.decode, (tmp_path / "odd.jsonl").read_bytes().splitlines())
    ] == [f"{site}fine/8"]


@pytest.mark.parametrize("store", ["sqlite", "valkey"])
def test_fresh_does_not_forget_a_job_that_is_being_crawled(
    cli: Cli, site: str, tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    where = request.getfixturevalue("valkey").url if store == "valkey" else "jobs.db"
    command = ("crawl", site, "--no-robots", "--job", "j", "--store", where, "-q")
    with Desk(tmp_path) as desk:
        other = desk.start(*command, "--rate", "0.5")
        wait_until(lambda: cli("status", "--json", "--store", where)[0] == 0 and workers(cli, where))
        code, _, err = cli(*command, "--fresh")
        assert code == 2
        assert re.fullmatch(
            r"shoal: job j is being crawled by process \d+, last heard of \S+ s ago: stop it before you start again "
            r"with --fresh; if it has died, try again in a few seconds\n",
            err,
        )
        assert msgspec.json.decode(cli("status", "--json", "--store", where)[1])["jobs"][0]["admitted"] > 0
        other.kill()
    wait_until(lambda: cli(*command, "--rate", "0", "--max-pages", "1", "--fresh")[0] == 0)


@contextmanager
def crawling(
    *argv: str, cwd: Path, stdin: int | IO[bytes] = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    source = str(Path(shoal.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", "from shoal.cli import main; main()", *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": source},
        stdin=stdin,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def workers(cli: Cli, store: str) -> list[Any]:
    found: list[Any] = msgspec.json.decode(cli("status", "--json", "--store", store)[1])["workers"]
    return [one for one in found if one["jobs"]]


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
