"""A site in a thread of its own that notes who visits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class VisitedSite:
    """`pages`: by path, HTML or (status, headers, body)."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pages: dict[str, str | tuple[int, dict[str, str], bytes]] = {}
        self._visits: list[str] = []

    def note(self, visit: str) -> None:
        self._visits.append(visit)

    def visits(self) -> list[str]:
        """Since the last time, without those of robots.txt."""
        visits, self._visits = self._visits, []
        return [visit for visit in visits if visit != "/robots.txt"]


@contextmanager
def visited_site() -> Iterator[VisitedSite]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.note(self.path)
            found = site.pages.get(self.path, (404, {}, b"not here"))
            if isinstance(found, str):
                found = 200, {"Content-Type": "text/html; charset=utf-8"}, found.encode()
            status, headers, body = found
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # the visitor may have left
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    site = VisitedSite(server.server_port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
