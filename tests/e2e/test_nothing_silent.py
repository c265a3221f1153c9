"""What does not become a row can be found: links beyond max_links, and pages that were merged into others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest

Cli = Callable[..., tuple[int, str, str]]

MANY = 5_000


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        moved = self.path.startswith("/old")
        self.send_response(301 if moved else 200)
        if moved:
            self.send_header("Location", "/new")
        body = b"" if self.path != "/" else "".join(f'<a href="/old{n}">x</a>' for n in range(MANY)).encode()
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_where_people_look(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_MAX_LINKS", "4")
    with site() as home:
        code, _, err = cli(
            *("crawl", home, "--rate", "0", "--no-robots", "-o", "rows.jsonl", "--summary", "summary.json"),
        )
    assert code == 0, err
    cut = MANY - 4
    assert f"{home}/ has more links than max_links = 4: {cut} were not taken" in err
    assert f"links {cut:,}" in err
    assert "3 redirected to pages that have a task of their own" in err
    counted = msgspec.json.decode((tmp_path / "summary.json").read_bytes())
    assert (counted["links_cut"], counted["cut"]) == (cut, {"links": cut})
    assert (counted["admitted"], counted["done"], counted["merged"], counted["rows"]) == (5, 2, 3, 2)
    [job] = msgspec.json.decode(cli("status", "--json")[1])["jobs"]
    shown = cli("status", job["job"])[1]
    assert "merged  3 redirected to pages that have a task of their own" in shown
    assert f"{cut:,} links beyond max_links of their pages" in shown
    answers = [cli("why", f"{home}/old{n}")[1] for n in range(4)]
    merged = [answer for answer in answers if f"merged into {home}/new" in " ".join(answer.split())]
    assert len(merged) == 3, "one of them went there first"
    assert "done: fetched" in cli("why", f"{home}/new")[1]
    assert "never seen" in cli("why", f"{home}/old4")[1]
