"""HTTP/1.1 and HTTP/2 side by side: what a page costs over each, with 1, 8 and 32 requests at once to one host.

    python -m benchmarks.http2                         about half a minute

Both ways of fetching, as a crawl uses them, ask one TLS server for the same page, in turns. CPU is that of the
fetching process with all its threads. Connections are open before the clock starts. The server (granian) speaks both
and is quick; it comes with `pip install 'shoal[bench]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from shoal.clock import SystemClock
from shoal.engine.event_loop import run_loop
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.http2 import Http2Transport
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Response
from shoal.settings import Settings
from shoal.testing.servers.server_process import ServerProcess, free_port

ROOT = Path(__file__).parents[1]
CERTS = ROOT / "tests" / "integration" / "certs"
PAGE = (b"<html><body>" + b'<p>Some text with a <a href="/page">link</a> in it.</p>\n' * 300)[:15_000]
AT_ONCE = (1, 8, 32)


class Figures(msgspec.Struct, frozen=True):
    way: str
    at_once: int
    rate: float  # pages a second
    cpu: float  # seconds a page


async def app(_: Any, protocol: Any) -> None:
    """What the server runs."""
    protocol.response_bytes(200, [("content-type", "text/html")], PAGE)


class TlsServer(ServerProcess):
    last_word = signal.SIGTERM  # it has a child of its own

    def _command(self) -> list[str]:
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--working-dir", str(ROOT)]
        keys = [
            "--ssl-certificate",
            str(CERTS / "loopback.pem"),
            "--ssl-keyfile",
            str(CERTS / "loopback.key"),
        ]
        quiet = ["--log-level", "error", "--interface", "rsgi"]
        return [sys.executable, "-m", "granian", *where, *keys, *quiet, "benchmarks.http2:app"]

    def _ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


async def ask(transport: Transport, url: str, at_once: int, until: float) -> int:
    """Fetches the page again and again; how many were fetched."""

    async def one_after_another() -> int:
        pages = 0
        while time.perf_counter() < until:
            outcome = await transport.fetch(FetchRequest(url))
            if not isinstance(outcome, Response) or outcome.body != PAGE:
                raise RuntimeError(f"not the page, but {outcome}")
            pages += 1
        return pages

    return sum(await asyncio.gather(*(one_after_another() for _ in range(at_once))))


async def measure(url: str, seconds: float, rounds: int) -> list[Figures]:
    settings, guard, clock = Settings(http2=True), Guard(["127.0.0.0/8"]), SystemClock()
    http = HttpTransport(settings, guard, clock)
    ways: dict[str, Transport] = {"HTTP/2": Http2Transport(settings, guard, clock, http), "HTTP/1.1": http}
    found: list[Figures] = []
    for at_once in AT_ONCE:
        for way in ways.values():
            await ask(way, url, at_once, time.perf_counter() + 0.3)
        for _ in range(rounds):
            for name, way in ways.items():
                started, cpu = time.perf_counter(), time.process_time()
                pages = await ask(way, url, at_once, started + seconds)
                spent = time.process_time() - cpu
                found.append(Figures(name, at_once, pages / (time.perf_counter() - started), spent / pages))
    for way in ways.values():
        await way.close()
    return found


def show(found: list[Figures]) -> None:
    def middle(way: str, at_once: int, what: str) -> float:
        return median(getattr(one, what) for one in found if (one.way, one.at_once) == (way, at_once))

    print("| at once | pages/s 1.1 | pages/s 2 | ratio | CPU µs a page 1.1 | CPU µs a page 2 | ratio |")
    print("|---|---|---|---|---|---|---|")
    for at_once in AT_ONCE:
        one, two = middle("HTTP/1.1", at_once, "rate"), middle("HTTP/2", at_once, "rate")
        cost, other = middle("HTTP/1.1", at_once, "cpu") * 1e6, middle("HTTP/2", at_once, "cpu") * 1e6
        print(
            f"| {at_once} | {one:,.0f} | {two:,.0f} | {two / one:.2f} "
            f"| {cost:,.0f} | {other:,.0f} | {other / cost:.2f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.2, help="of every turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        found = run_loop(measure(args.measure, args.seconds, args.rounds))
        sys.stdout.buffer.write(msgspec.json.encode(found))
        return
    terms = ["--seconds", str(args.seconds), "--rounds", str(args.rounds)]
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
        TlsServer(folder, "tls", free_port()) as server,
    ):
        # In a process of its own: which certificates are trusted is decided when it starts.
        output = subprocess.run(
            [
                sys.executable,
                "-m",
                "benchmarks.http2",
                *terms,
                "--measure",
                f"https://127.0.0.1:{server.port}/",
            ],
            env=os.environ | {"SSL_CERT_FILE": str(CERTS / "loopback.pem")},
            stdout=subprocess.PIPE,
            check=True,
            cwd=ROOT,
        ).stdout
    show(msgspec.json.decode(output, type=list[Figures]))


if __name__ == "__main__":
    main()
