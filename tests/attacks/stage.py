"""A stage for attacks: an honest web, a villain beside it, and a real `shoal crawl` that meets both.

The honest web has ten hosts of twenty pages, at a pace that its limits set, so that a run takes about as long on a
busy machine as on a quiet one. The villain answers with whatever bytes an attack needs. What counts is that every
honest page is obtained, how long that took, how much memory it took, and where the hostile pages ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crash.harness import DEADLINE, ROWS, Desk
from lateness import DiskLateness
from shoal.testing import HostProfile, WebProcess

HONEST_HOSTS = 10
HONEST_PAGES = 20  # on each of them
RATE = 5.0  # requests a second and host: the honest web takes about four seconds
LOOPBACK = "127.0.0.0/8"

Speech = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
Answer = bytes | Speech  # whole bytes of an answer, or a coroutine that writes them


def honest_web() -> WebProcess:
    return WebProcess({f"honest-{n}": HostProfile("fast", pages=HONEST_PAGES) for n in range(HONEST_HOSTS)})


def honest_pages(web: WebProcess) -> set[str]:
    return {url for host in web.spec.hosts for url in web.pages_of(host)}


def html(body: bytes, content_type: str | None = "text/html", **headers: str) -> bytes:
    """A whole answer with that body; `content_type=None` leaves the header out."""
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {content_type}"] if content_type is not None else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Villain:
    """A server on loopback, in a thread of its own, that answers each path with the bytes of an attack.

    `hosts`: how many addresses (127.9.x.y) it answers on, all with the same port and the same answers.
    """

    def __init__(self, answers: Mapping[str, Answer], *, hosts: int = 1) -> None:
        self.answers = dict(answers)
        self.addresses = [f"127.9.{n // 250}.{n % 250 + 1}" for n in range(hosts)]
        self.port = 0
        self.hits: list[tuple[str, str]] = []  # (address, path), as they came
        self._tasks: set[asyncio.Task[None] | None] = set()  # who waits for ever is else collected as garbage
        self._loop = asyncio.new_event_loop()
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="villain", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20), "the villain did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def url(self, path: str, host: int = 0) -> str:
        return f"http://{self.addresses[host]}:{self.port}{path}"

    @property
    def urls(self) -> list[str]:
        """Every path but robots.txt, on the first address."""
        return [self.url(path) for path in self.answers if path != "/robots.txt"]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        first = await asyncio.start_server(self._connected, self.addresses[0], 0)
        self.port = first.sockets[0].getsockname()[1]
        servers = [
            first,
            *[await asyncio.start_server(self._connected, a, self.port) for a in self.addresses[1:]],
        ]
        self._ready.set()
        await self._stop.wait()
        for server in servers:
            server.close()
        await asyncio.sleep(0)  # a connection that was just accepted gets its task
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        address = writer.get_extra_info("sockname")[0]
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1].decode("latin-1")
                self.hits.append((address, path))
                answer = self.answers.get(path, NOT_FOUND)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(head, writer)
        writer.transport.abort()


@dataclass(frozen=True)
class Result:
    """What came of a crawl."""

    code: int
    err: str
    rows: list[str]  # URLs
    letters: list[dict[str, Any]]  # `shoal dead list --json`
    seconds: float  # from the first honest request to the last
    disk_late: float  # seconds that the disk stood still meanwhile: nothing is stored then
    peak_rss: int  # bytes, of the largest process

    def kinds(self, *urls: str) -> Counter[str]:
        """The kinds of the dead letters: of these URLs, or of all."""
        return Counter(letter["kind"] for letter in self.letters if not urls or letter["url"] in urls)


class Stage:
    def __init__(self, desk: Desk, web: WebProcess) -> None:
        self.desk = desk
        self.web = web

    def crawl(
        self,
        *targets: str,
        options: Sequence[str] = (),
        seconds: float = DEADLINE,
        start: Iterable[str] = (),
        allow: str = LOOPBACK,
    ) -> Result:
        """Crawls the honest web and `targets` in one command, to its end: typed URLs, or the file of a spider, which
        must start the honest web itself."""
        before = len(self.web.hits())
        honest = [] if any(target.endswith(".py") for target in targets) else self.web.start_urls
        process = self.desk.start(
            "crawl",
            *targets,
            *honest,
            *start,
            *("-o", ROWS, "--rate", str(RATE), "--allow-network", allow),
            # A host that was quick at first may take longer than the usual 2 s on a busy machine.
            *("-s", "min_timeout=30"),
            *options,
        )
        with DiskLateness(self.desk.folder) as disk:
            code = process.code(seconds)
        hits = self.web.hits()[before:]
        took = max(hit.ended for hit in hits) - min(hit.started for hit in hits) if hits else 0.0
        rows = [row["url"] for row in self.desk.rows()] if self.desk.rows_path.exists() else []
        return Result(code, process.err, rows, self.desk.dead(), took, disk.seconds, process.peak_rss)

    def check_honest(self, result: Result, *, at_most: float) -> None:
        """Every honest page has exactly one row, and the last of them came no later than twice the usual time."""
        honest = honest_pages(self.web)
        rows = Counter(url for url in result.rows if url in honest)
        assert set(rows) == honest, f"{len(honest - set(rows))} honest pages are missing:\n{result.err}"
        assert set(rows.values()) == {1}, "rows are doubled"
        if result.seconds > at_most:  # perhaps the machine has become slower: then so has a crawl in peace
            peace = in_peace(self.desk.folder / "peace", self.web)
            # What it takes longer than its pace is the machine's fault, which makes the work of an attack long, too.
            at_most = 2 * peace + 3 * max(0.0, peace - HONEST_PAGES / RATE) + result.disk_late
        said = f"{result.seconds:.1f} s instead of {at_most:.1f} (disk late by {result.disk_late:.1f} s)"
        assert result.seconds <= at_most, f"{said}:\n{result.err}"


def in_peace(folder: Path, web: WebProcess) -> float:
    """Seconds that the honest web takes without an attack."""
    folder.mkdir(parents=True, exist_ok=True)
    with Desk(folder) as desk:
        stage = Stage(desk, web)
        result = stage.crawl()
        stage.check_honest(result, at_most=60.0)
    return result.seconds
