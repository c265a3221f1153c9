"""How deep the queue is, over HTTP, for an autoscaler: GET / answers {"open": 1234, "jobs": 2, "workers": 5}.

`open` counts the tasks of running jobs that wait, are delayed or are in flight. Delayed ones count, because nobody
wakes them when there is no worker. It is what `shoal status --json` tells, asked at most once in a few seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 8080
FRESH = 5.0  # seconds for which an answer may be given again
PATIENCE = 8.0  # seconds for the store

Answer = tuple[int, dict[str, Any]]  # HTTP status and body


class Depth:
    """Asks for the depth, for one caller at a time."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._answer: Answer = (503, {})
        self._until = 0.0

    def read(self) -> Answer:
        with self._lock:
            if time.monotonic() >= self._until:
                self._answer = ask(self._patience)
                self._until = time.monotonic() + FRESH
            return self._answer


def ask(patience: float) -> Answer:
    command = ["shoal", "status", "--json"]
    try:
        told = subprocess.run(command, capture_output=True, timeout=patience, check=True, text=True)
    except subprocess.TimeoutExpired:
        return 503, {"error": "the store does not answer"}
    except subprocess.CalledProcessError as error:
        return 503, {"error": error.stderr.strip()}
    return 200, summed(json.loads(told.stdout))


def summed(fleet: dict[str, Any]) -> dict[str, int]:
    running = [job for job in fleet["jobs"] if job["state"] == "running"]
    waiting = sum(job["pending"] + job["delayed"] + job["leased"] for job in running)
    return {"open": waiting, "jobs": len(running), "workers": len(fleet["workers"])}


class Handler(BaseHTTPRequestHandler):
    depth: Depth

    def do_GET(self) -> None:
        status, answer = (200, {}) if self.path == "/alive" else self.depth.read()
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A line for every question would say nothing."""


def main(host: str = "0.0.0.0", port: str = str(PORT), patience: str = str(PATIENCE)) -> None:
    Handler.depth = Depth(float(patience))
    with ThreadingHTTPServer((host, int(port)), Handler) as server:
        sys.stderr.write(f"listening on {server.server_address[0]}:{server.server_address[1]}\n")
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:4])
