"""An S3 server (moto), and a front before it that can refuse, hang back, and be closed."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from shoal.testing.servers.server_process import ServerProcess, free_port

_HOP = frozenset({"connection", "transfer-encoding", "content-length", "server", "date"})


class S3Server(ServerProcess):
    """It keeps its objects in memory, and accepts any keys."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder, "s3", free_port())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> None:
        self._ask("PUT", f"/{name}")

    def forget(self) -> None:
        """Removes all buckets."""
        self._ask("POST", "/moto-api/reset")

    def _ask(self, method: str, path: str) -> None:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=20):
            pass

    def environment_for(self, endpoint: str = "") -> dict[str, str]:
        """What a process needs to use the server, or a front of it."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "AKIA-not-shown",
            "AWS_SECRET_ACCESS_KEY": "secret-not-shown",
        }

    def _command(self) -> Sequence[str]:
        if importlib.util.find_spec("moto") is None:
            raise RuntimeError("no S3 server here: pip install 'moto[s3]' flask flask-cors")
        code = "import sys; from moto.server import main; main(sys.argv[1:])"
        return [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(self.port)]

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/moto-api/data.json", timeout=2):
                return True
        except OSError:
            return False


class S3Front:
    """Passes requests on, unless `status` is set: then it answers with that. `delay`: seconds before each answer."""

    def __init__(self, server: S3Server) -> None:
        self.status = 0
        self.code = "SlowDown"
        self.delay = 0.0
        self.refused = 0
        self.mended_after = 0  # refusals; 0: never
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                time.sleep(front.delay)
                if status := front.status:
                    front.refused += 1
                    if front.refused == front.mended_after:
                        front.status = 0
                    self._say(status, {}, _refusal(front.code, self.headers.get("Authorization") or ""))
                    return
                behind = HTTPConnection("127.0.0.1", server.port, timeout=30)
                try:
                    headers = {
                        name: value for name, value in self.headers.items() if name.lower() not in _HOP
                    }
                    behind.request(self.command, self.path, body, headers)
                    answer = behind.getresponse()
                    data = answer.read()
                    kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
                    self._say(answer.status, kept, data)
                finally:
                    behind.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

            def _say(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _refusal(code: str, authorization: str) -> bytes:
    """As S3 does, it repeats what it was sent."""
    return f"<Error><Code>{code}</Code><Message>{authorization}</Message></Error>".encode()
