"""Serves a chaotic web until standard input closes: `python -m shoal.testing.web [--spec FILE] [--log FILE]`.

Prints one line, the hosts' addresses as JSON. Then each line read is answered with one: `flush` writes the log out,
`cpu` tells the processor seconds used, `busy` the hosts' requests under way, as JSON; `hurry HOST` ends its latency.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import uvloop

from shoal.testing.web.chaotic import ChaoticWeb
from shoal.testing.web.profile import Hit, WebSpec, demo_profiles


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.web", description=__doc__.splitlines()[0])
    parser.add_argument("--spec", metavar="FILE", help="the web as JSON; -: the first line of standard input")
    parser.add_argument("--log", metavar="FILE", default=os.devnull, help="every hit, as JSON lines")
    arguments = parser.parse_args()
    _raise_file_limit()
    # Unbuffered: a thread that waits in a buffered reader holds its lock, and the interpreter could not end.
    with open(0, "rb", buffering=0) as lines, open(arguments.log, "wb", buffering=1 << 20) as log:
        try:
            uvloop.run(_serve(_read_spec(arguments.spec, lines), lines, log))
        except KeyboardInterrupt:
            pass


def _read_spec(source: str | None, lines: IO[bytes]) -> WebSpec:
    if source is None:
        return WebSpec.of(demo_profiles())
    text = lines.readline() if source == "-" else Path(source).read_bytes()
    return msgspec.json.decode(text, type=WebSpec)


async def _serve(spec: WebSpec, lines: IO[bytes], log: IO[bytes]) -> None:
    encode = msgspec.json.Encoder().encode

    def record(hit: Hit) -> None:
        log.write(encode(hit) + b"\n")

    def answer(line: bytes) -> None:
        log.flush()
        match line.decode().split():
            case ["cpu"]:
                _say(f"{time.process_time()}")
            case ["busy"]:
                _say(encode(web.under_way()).decode())
            case ["hurry", name]:
                web.hurry(name)
                _say("ok")
            case _:
                _say("ok")

    async with ChaoticWeb(spec.hosts, spec.seed, record) as web:
        _say(encode(web.addresses).decode())
        await _answer_lines(lines, answer)


async def _answer_lines(lines: IO[bytes], answer: Callable[[bytes], None]) -> None:
    """Returns when there are no more lines. They are read in a thread: they may come from a file or a terminal."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def read() -> None:
        for line in lines:
            loop.call_soon_threadsafe(answer, line)
        loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=read, daemon=True).start()
    await closed.wait()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass  # macOS may refuse "unlimited"; the limit then stays as it was


if __name__ == "__main__":
    main()
