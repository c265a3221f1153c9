"""A site on loopback: the files of a folder, or pages by path, in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Self
from urllib.parse import unquote, urlsplit

from multidict import CIMultiDict

from shoal.archive.saved_page import check_apart, read_all, read_saved
from shoal.errors import UsageError
from shoal.model import Response
from shoal.testing.pages import Content, saved_content

# Those of the connection, or of an answer that is made now.
_NOT_SENT = frozenset({"connection", "keep-alive", "date", "server", "alt-svc", "content-length"})


class ServedFolder:
    """`with ServedFolder("tests/site") as site`: every file at its path, `index.html` for folders. Pages that `shoal
    keep` saved are also at the path and query of their URL, with their status and headers; URLs that redirected to them
    do so again. Instead of a folder: pages by path."""

    def __init__(self, pages: Path | str | Mapping[str, Content]) -> None:
        self._folder = None if isinstance(pages, Mapping) else Path(pages).resolve()
        if self._folder is not None and not self._folder.is_dir():
            raise UsageError(f"there is no folder {pages} in {Path.cwd()}")
        self._answers = (
            {path: saved_content(content, None).response for path, content in pages.items()}
            if isinstance(pages, Mapping)
            else _saved(Path(pages))
        )
        self.requests: list[str] = []  # as they came: "GET /lamp?colour=red"; also those for robots.txt
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler.of(self))
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="shoal-site", daemon=True
        )

    def __repr__(self) -> str:
        return f"<ServedFolder {self._folder or 'of pages'} at {self.url}>"

    @property
    def url(self) -> str:
        """Of its first page, with a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, target: str) -> Response:
        """To a path with its query."""
        try:
            found = self._answers.get(target) or self._file(target)
        except UsageError as error:
            return _plain(500, str(error))
        return found or _plain(404, "not found")

    def _file(self, target: str) -> Response | None:
        if self._folder is None:
            return None
        try:
            path = (self._folder / unquote(urlsplit(target).path).lstrip("/")).resolve()
            path = path / "index.html" if path.is_dir() else path
            is_file = path.is_relative_to(self._folder) and path.is_file()
        except (OSError, ValueError):
            return None  # no file can have that name
        return read_saved(path).response if is_file else None


def _plain(status: int, text: str) -> Response:
    return Response("", status, CIMultiDict({"Content-Type": "text/plain; charset=utf-8"}), text.encode())


def _saved(folder: Path) -> dict[str, Response]:
    """Of one site, or of several that have no path in common."""
    pages = read_all(folder)
    check_apart({page.path: _target(page.response.url) for page in pages})
    answers: dict[str, Response] = {}
    moves: dict[str, Response] = {}
    for page in pages:
        answers[_target(page.response.url)] = page.response
        for hop, to in pairwise([*page.task.hops, page.response.url]):
            moves[_target(hop)] = Response(hop, 302, CIMultiDict({"Location": _target(to)}), b"")
    return moves | answers


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"


class _Handler(BaseHTTPRequestHandler):
    site: ServedFolder

    @staticmethod
    def of(site: ServedFolder) -> type[_Handler]:
        return type("Handler", (_Handler,), {"site": site})

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.site.requests.append(f"{self.command} {self.path}")
        response = self.site.answer(self.path)
        self.send_response(response.status)
        for name, value in response.headers.items():
            if name.lower() not in _NOT_SENT:
                self.send_header(name, value.encode("latin-1", "replace").decode("latin-1"))
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        pass
