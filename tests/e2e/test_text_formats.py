"""Text formats from the command line: several at once, their columns, and standard output."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest

from written import unpacked

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from dataclasses import dataclass
from shoal import Spider

@dataclass
class Product:
    sku: int
    title: str
    tags: list[str]
    price: float | None = None

# Without backpressure: a busy machine is late, and Shoal would warn of that.
spider = Spider("shop", start=[f"SITE/{n}" for n in range(20)], rate=0, robots=False, backpressure=[])

@spider.handler(item=Product)
def page(page):
    n = int(page.url.rpartition("/")[2])
    if page.body != b"empty":
        yield Product(n, "=SUM(1)" if n == 7 else 'a, "b"\\r\\nc', ["x", "y"])
"""


class Page(BaseHTTPRequestHandler):
    body = b"page"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def spider(site: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SPIDER.replace("SITE", site))


def lines_of(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


@pytest.mark.usefixtures("spider")
def test_a_crawl_writes_all_text_formats_at_once(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text('csv_formulas = "escape"\n[columns]\nproduct = ["title", "sku"]\n')
    outputs = ["rows.csv", "rows.json", "rows.xml.gz", "rows.tsv.zst", "rows.jsonl"]
    code, _, err = cli("crawl", "shop.py", "--quiet", *(word for name in outputs for word in ("-o", name)))
    assert (code, err) == (0, "")
    names, *lines = lines_of((tmp_path / "rows.csv").read_bytes().decode())
    assert names == ["title", "sku", "tags", "price"]
    titles = {n: "'=SUM(1)" if n == 7 else 'a, "b"\r\nc' for n in range(20)}
    assert sorted(lines, key=lambda line: int(line[1])) == [
        [title, str(n), '["x","y"]', ""] for n, title in titles.items()
    ]
    assert lines_of(unpacked((tmp_path / "rows.tsv.zst").read_bytes()).decode(), "\t") == [names, *lines]
    rows = json.loads((tmp_path / "rows.json").read_bytes())
    assert rows == [json.loads(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    assert len(rows) == 20
    root = ElementTree.fromstring(gzip.decompress((tmp_path / "rows.xml.gz").read_bytes()))
    assert [item.findtext("sku") for item in root] == [str(row["sku"]) for row in rows]


@pytest.mark.usefixtures("spider")
def test_standard_output_has_a_format(cli: Cli) -> None:
    code, out, err = cli("crawl", "shop.py", "--quiet", "-o", "-:csv")
    assert (code, err) == (0, "")
    names, *lines = lines_of(out)
    assert names == ["sku", "title", "tags", "price"]
    assert len(lines) == 20
    code, out, _ = cli("crawl", "shop.py", "--quiet", "-o", "-:json", "--job", "again")
    assert code == 0
    assert len(json.loads(out)) == 20


@pytest.mark.usefixtures("spider")
def test_a_crawl_without_rows_leaves_complete_files(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Page, "body", b"empty")
    for name, text in (
        ("rows.csv", b"sku,title,tags,price\r\n"),
        ("rows.json.gz", b"[\n]\n"),
        ("rows.xml", b'<?xml version="1.0" encoding="utf-8"?>\n<items>\n</items>\n'),
    ):
        assert cli("crawl", "shop.py", "--quiet", "-o", name, "--job", name)[0] == 0
        assert unpacked((tmp_path / name).read_bytes()) == text
