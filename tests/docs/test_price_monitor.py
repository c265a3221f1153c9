"""docs/price-monitor.md: its files are written, and its commands run in their order, two days apart, against a shop
whose prices change."""

from __future__ import annotations

import re
import shlex
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from shoal.cli import run
from shoal.fetch.webhook_sending import signature
from shoal.testing.changing_site import later

DOC = Path(__file__).parents[2] / "docs" / "price-monitor.md"
SITE, HOOK = "https://shop.example/", "https://hooks.example.com/prices"
SECRET = "a-long-random-text"


class Shop(ThreadingHTTPServer):
    """Sells two lamps, and takes what is sent to it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.prices = {"a": "10.00", "b": "20.00"}
        self.received: list[tuple[str, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def html(self, path: str) -> str | None:
        if path == "/":
            return "".join(f'<a class="product" href="/{name}">{name}</a>' for name in self.prices)
        price = self.prices.get(path[1:])
        if price is None:
            return None
        return f'<h1>Lamp {path[1:]}</h1><p id="sku">{path[1:]}</p><p class="price">${price}</p>'


class _Answer(BaseHTTPRequestHandler):
    server: Shop

    def do_GET(self) -> None:
        html = self.server.html(self.path)
        self.send_response(404 if html is None else 200)
        body = (html or "").encode()
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.headers["X-Shoal-Signature"], body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as shop:
        thread = threading.Thread(target=shop.serve_forever)
        thread.start()
        yield shop
        shop.shutdown()
        thread.join()


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(sh|python|toml)\n(.*?)^```$", DOC.read_text("utf-8"), re.DOTALL | re.MULTILINE)


class Reader:
    """Somebody who does what it says; before each further crawl a day passes, and a price changes."""

    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shop = shop
        self.setenv = monkeypatch.setenv
        self.crawls = 0
        self.ends: list[tuple[str, int]] = []

    def follow(self, language: str, text: str) -> None:
        text = text.replace(SITE, self.shop.url).replace(HOOK, f"{self.shop.url}hook")
        if language == "python":
            Path("prices.py").write_text(text)
        elif language == "toml":
            known = Path("shoal.toml").read_text() if Path("shoal.toml").exists() else ""
            Path("shoal.toml").write_text(known + text.replace("rate = 1 ", "rate = 0 "))
        else:
            for line in text.splitlines():
                self.type(line)

    def type(self, line: str) -> None:
        first, *words = shlex.split(line)
        if first == "export":
            self.setenv(*words[0].split("=", 1))
            return
        assert first == "shoal"
        if words[0] == "crawl":
            if self.crawls:
                later(Path(".shoal/shoal.db"), hours=49)
                self.shop.prices["a"] = f"{10 + self.crawls}.00"
            self.crawls += 1
            words.append("-q")
        self.ends.append((line, run(words)))


def rows_of(path: str) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in Path(path).read_bytes().splitlines()]


def test_the_price_monitor(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(shop, monkeypatch)
    for language, text in blocks():
        reader.follow(language, text)
    assert [end for end in reader.ends if end[1] != 0] == []
    assert (reader.crawls, len(reader.ends)) == (3, 9)
    changes = rows_of("changes.jsonl")
    assert [(one["key"], one["field"], one["old"], one["new"]) for one in changes] == [
        ("a", "price", 10.0, 11.0),
        ("a", "price", 11.0, 12.0),
    ]
    with sqlite3.connect("prices.sqlite") as db:
        latest = dict(db.execute("SELECT sku, price FROM product ORDER BY rowid"))
    db.close()
    assert latest == {"a": 12.0, "b": 20.0}
    tried, sent = shop.received
    assert msgspec.json.decode(tried[1])["event"] == "test"
    told = msgspec.json.decode(sent[1])
    assert [one["new"] for one in told["changes"]] == [12.0], "the webhook was not there the day before"
    at = int(sent[0].partition(",")[0].removeprefix("t="))
    assert sent[0] == signature(sent[1], at, [SECRET])
    assert abs(time.time() - at) < 300


def test_the_service_runs_what_the_command_line_knows() -> None:
    [line] = re.findall(r"^ExecStart=\S+/shoal (.*)$", DOC.read_text("utf-8"), re.MULTILINE)
    from shoal.cli.app import command_line

    crawl = command_line().commands["crawl"]
    known = {name for param in crawl.params for name in param.opts}
    assert {word for word in shlex.split(line) if word.startswith("-")} <= known
