"""kill -9 while files are downloaded: every file whole, every row once, and no part left in the end."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from crash.harness import FAST, ROWS, Desk, until

PAGES, SIZE, PIECE = 24, 600_000, 20_000
SPIDER = """
from shoal import Spider

spider = Spider("files", [f"{url}/{{n}}" for n in range({pages})], robots=False, retry_base=0.1)


@spider.handler(files=["own", "shared"])
async def page(page):
    n = int(page.url.rpartition("/")[2])
    again = await page.download(f"/file/{{n}}")
    yield {{"n": n, "own": f"/file/{{n}}", "shared": f"/file/{{n % 3}}?copy={{n}}", "path": again.path}}
"""


def content(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE)


class _Handler(BaseHTTPRequestHandler):
    """Pages, and files that take a while and may be asked for in part."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head
    server: FileServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not path.startswith("/file/"):
            self._head(200, 4)
            self.wfile.write(b"page")
            return
        number = int(path.removeprefix("/file/"))
        data, etag, start = self.server.contents[number], f'"{number}"', 0
        asked = self.headers.get("Range")
        if asked is not None and self.headers.get("If-Range") == etag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            self.server.resumed += 1
            self._head(206, SIZE - start, etag, f"bytes {start}-{SIZE - 1}/{SIZE}")
        else:
            self._head(200, SIZE, etag)
        for at in range(start, SIZE, PIECE):
            self.wfile.write(data[at : at + PIECE])
            self.server.sent += PIECE
            time.sleep(0.001)  # the pace of the server

    def _head(self, status: int, length: int, etag: str = "", part: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if etag:
            self.send_header("ETag", etag)
            self.send_header("Content-Disposition", f"attachment; filename=file-{etag[1:-1]}.bin")
        if part:
            self.send_header("Content-Range", part)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # whoever asked was killed
            pass


class FileServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents = [content(number) for number in range(PAGES)]
        self.sent = self.resumed = 0


@pytest.fixture(scope="module")
def server() -> Iterator[FileServer]:
    with FileServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_while_files_arrive(desk: Desk, server: FileServer, processes: int) -> None:
    url = f"http://127.0.0.1:{server.server_address[1]}"
    spider = desk.file("files.py", SPIDER.format(url=url, pages=PAGES))
    command = ("crawl", spider, "-o", ROWS, *FAST, "--processes", str(processes), "-s", "concurrency=6")
    rng = random.Random(processes)
    folder, resumed = desk.folder / "files", server.resumed
    for _ in range(5):
        process, sent = desk.start(*command), server.sent
        more = rng.randrange(PIECE, PAGES * SIZE // 5)
        until(lambda: server.sent >= sent + more or not process.running, f"{more} bytes: {process.err}")  # noqa: B023
        process.kill()
        for path in folder.glob("??/*/*"):  # what has its name is whole
            number = int(path.stem.removeprefix("file-"))
            assert path.read_bytes() == server.contents[number]
    desk.finish(*command)
    rows = desk.rows()
    assert sorted(row["n"] for row in rows) == list(range(PAGES))
    for row in rows:
        for field, number in (("own", row["n"]), ("shared", row["n"] % 3)):
            file, data = row[field], server.contents[number]
            assert (file["size"], file["sha256"]) == (SIZE, hashlib.sha256(data).hexdigest())
            assert (desk.folder / file["path"]).read_bytes() == data
        assert row["path"] == row["own"]["path"]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == PAGES
    assert not (folder / ".shoal").exists()
    assert server.resumed > resumed
