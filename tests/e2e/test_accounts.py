"""What a crawl says about itself adds up: in the summary, the store, the metrics and the log, however it ends."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider

spider = Spider("mixed", start="{url}", rate=0, per_host=4, max_attempts=2, retry_base=0.05, robots=False)

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
    seen: Counter[str] = Counter()

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
    assert found["admitted"] == sum(found[place] for place in ("pending", "delayed", "leased", "done", "dead"))


def check_run(found: dict[str, Any], merged: int = 0) -> None:
    """Of a run from beginning to end, of which no process died."""
    failures = sum(found["errors"].values())
    assert failures == found["retries"] + found["dead"]
    assert found["done"] == found["handled"] + merged
    assert found["retried"] == found["retries"]
    assert found["pages"] == found["handled"] + sum(found["errors"].get(kind, 0) for kind in ("handler", "junk"))
    assert found["success_rate"] == pytest.approx(found["handled"] / (found["handled"] + failures))
    assert sum(found["statuses"].values()) == found["fetches"]


@pytest.fixture(params=["sqlite", "sqlite, two processes", "valkey"])
def home(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if request.param == "valkey":
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        return ("--store", valkey.url)
    return ("--processes", "2") if "two" in request.param else ()


def test_a_mixed_crawl_adds_up_everywhere(cli: Cli, site: str, tmp_path: Path, home: tuple[str, ...]) -> None:
    (tmp_path / "mixed.py").write_text(SPIDER.format(url=site))
    code, _, err = cli("crawl", "mixed.py", "--summary", "end.json", "--log-level", "error", *home)
    assert code == 0, err
    end = read(tmp_path / "end.json")
    check_job(end)
    check_run(end, merged=PATHS["moved"])
    assert end["errors"] == {"http_404": 3, "http_503": 2 * 2 + 4, "handler": 5, "junk": 2}
    assert (end["done"], end["dead"]) == (1 + 9 + 4 + 3, 3 + 2 + 5 + 2)
    assert (end["rows"], end["statuses"]["302"]) == (9 + 4, 3)
    assert end["fetches"] == sum(Site.seen.values())

    store = home if "--store" in home else ()
    [status] = msgspec.json.decode(cli("status", "--json", *store)[1])
    check_job(status)
    assert {name: status[name] for name in ("done", "dead", "retried")} == {
        name: end[name] for name in ("done", "dead", "retried")
    }
    top = msgspec.json.decode(cli("top", "--json", *store)[1])
    assert top["success"] == pytest.approx(end["success_rate"])
    letters = msgspec.json.decode(cli("dead", "list", "--json", *store)[1])
    assert Counter(letter["kind"] for letter in letters) == {"http_404": 3, "http_503": 2, "handler": 5, "junk": 2}
