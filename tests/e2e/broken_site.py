"""A site on loopback with every kind of link that does not work, and the truth about each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOME, AWAY, DOWN = "127.0.0.1", "127.0.0.2", "127.0.0.3"


@dataclass
class BrokenSite:
    port: int = 0
    silent: bool = True  # a page that is never answered
    hits: list[tuple[str, str, str]] = field(default_factory=list)  # host, method, path
    asked: threading.Condition = field(default_factory=threading.Condition)  # told of every hit
    release: threading.Event = field(default_factory=threading.Event)

    def at(self, path: str, host: str = HOME) -> str:
        return f"http://{host}:{self.port}{path}"

    def pages(self) -> dict[str, str]:
        a, b = self.at, lambda path: self.at(path, AWAY)
        links = [
            *(
                "/ok",
                "/deep",
                "/gone404",
                "/gone410",
                "/error500",
                "/moved",
                "/old-ok",
                "/old-gone",
                "/loop",
                "/away",
            ),
            *(
                "/ok?utm_source=x",
                "/ok#part",
                "/ok#nope",
                "/ok#p%C3%A4rt",
                "/#top",
                "/manual.pdf",
                "/big.pdf",
            ),
            *(
                b("/ok"),
                b("/missing"),
                b("/no-head"),
                b("/wrong-head"),
                b("/refuses"),
                b("/private"),
            ),
            *(
                *([b("/silent")] if self.silent else []),
                f"http://{DOWN}:9/",
                f"https://{AWAY}:{self.port}/tls",
                "http://exa mple/",
                "http://no-such.example/",
            ),
            *("mailto:a@b.example", "tel:+1", "javascript:void(0)", "data:,x", ""),
        ]
        index = "".join(f'<a href="{link}">to {number}</a>\n' for number, link in enumerate(links))
        return {
            "/": f"<h1>Home</h1>{index}<img src=/there.png alt=there><img src=/missing.png alt='a picture'>",
            "/ok": "<p id=part>ok</p><a name='pärt'>x</a><a href=/deep>deep</a>",
            "/deep": f"<a href='{a('/gone404')}'>again</a><a href='/'>home</a>",
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head
    site: BrokenSite

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        site, path = self.site, self.path
        host = self.headers["Host"].partition(":")[0]
        with site.asked:
            site.hits.append((host, self.command, path))
            site.asked.notify_all()
        if path == "/robots.txt":
            self._answer(
                200, b"User-agent: *\nDisallow: /private\n" if host == AWAY else b"", kind="text/plain"
            )
        elif host == AWAY:
            self._away(path)
        elif path.partition("?")[0] in (pages := site.pages()):
            self._answer(200, pages[path.partition("?")[0]].encode())
        elif path in ("/moved", "/old-ok", "/old-gone", "/loop", "/loop2", "/away"):
            to = {
                "/moved": "/ok",
                "/old-ok": "/ok",
                "/old-gone": "/gone404",
                "/loop": "/loop2",
                "/loop2": "/loop",
            }
            self._answer(301, b"", to=to.get(path) or site.at("/missing", AWAY))
        else:
            there = path in ("/there.png", "/manual.pdf", "/big.pdf")
            self._answer(
                200 if there else {"/gone410": 410, "/error500": 500}.get(path, 404), b"x", kind="image/png"
            )

    def _away(self, path: str) -> None:
        if path == "/silent":
            self.site.release.wait(20)
            self.close_connection = True
            return
        heads = {"/no-head": 405, "/wrong-head": 404}
        if self.command == "HEAD" and path in heads:
            self._answer(heads[path], b"")
            return
        there = path in ("/ok", *heads)
        self._answer(200 if there else 403 if path == "/refuses" else 404, b"<p>x")

    def _answer(self, status: int, body: bytes, kind: str = "text/html; charset=utf-8", to: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header(
            "LinkChecker", "welcome"
        )  # by which linkchecker takes more than ten requests a second
        self.send_header("Content-Length", str(len(body)))
        if to:
            self.send_header("Location", to)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that speaks TLS, or has gone away


@contextmanager
def broken_site(*, silent: bool = True) -> Iterator[BrokenSite]:
    site = BrokenSite(silent=silent)
    handler = type("Handler", (_Handler,), {"site": site})
    home = _Server((HOME, 0), handler)
    site.port = home.server_port
    servers = [home, _Server((AWAY, site.port), handler)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield site
    finally:
        site.release.set()
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()
