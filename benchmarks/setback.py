"""Set the store back while four workers crawl, again and again, and count what was obtained.

    python -m benchmarks.setback                    one server that loses its last second in power cuts (everysec)
    python -m benchmarks.setback --kind cluster     three of them, of which one at a time loses its last second
    python -m benchmarks.setback --kind sentinel    a replica that lags by a second is promoted
    python -m benchmarks.setback --kind cluster-failover    the same in a cluster of three primaries with replicas

A power cut is real: the server is killed, and its append-only file is cut to the length that it had a second earlier.
So is a failover: what the primary sends to its replica is held up on the way, a second later the primary is killed, and
a sentinel promotes the replica; in a cluster the replica has lost its primary for a second, and takes over.

The site is a tree of pages on twelve hosts: each page is linked from one other, so that a link which is lost takes
everything below it along. The verdict: every page is obtained, and the job ends.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from redis.exceptions import RedisError

from shoal.errors import StoreError
from shoal.frontier import open_frontier
from shoal.frontier.values import Job
from shoal.testing.servers import ValkeyCluster, ValkeySentinel, ValkeyServer
from shoal.testing.servers.server_process import free_port, wait_until

HOSTS, BRANCHES = 12, 4
LEASE = 6.0
SPIDER = """
from shoal import Spider

spider = Spider("tree", start=["{start}"], hosts={hosts}, depth=None, robots=False, rate=0, per_host=20)


@spider.handler
def page(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a", page_of)


@spider.handler(name="page_of")
def page_of(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a", page_of)
"""


def main() -> int:
    arguments = _arguments()
    logging.getLogger("shoal").setLevel(logging.ERROR)  # the workers have a log of their own
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        outcome = run(
            Path(folder),
            arguments.kind,
            pages=arguments.pages,
            moments=arguments.moments,
            lose=arguments.lose,
            workers=arguments.workers,
            seed=arguments.seed,
            deadline=arguments.deadline,
            wait=arguments.wait,
        )
    print(outcome)
    return 0 if outcome.good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.setback", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--kind", choices=KINDS, default="server")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--moments", type=int, default=10, help="how often it is set back")
    parser.add_argument("--lose", type=float, default=1.0, help="seconds lost each time")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--wait", type=int, default=0, help="replicas that settlements wait for (?wait=)")
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds after which it hangs")
    return parser.parse_args()


class Outcome(msgspec.Struct, frozen=True):
    kind: str
    pages: int
    obtained: int  # pages with a row
    doubled: int  # rows that are there once more
    again: int  # requests for pages that had been asked for before
    times: int  # that it went back
    finished: bool
    seconds: float
    job: Job | None

    @property
    def good(self) -> bool:
        return self.finished and self.obtained == self.pages

    def __str__(self) -> str:
        end = "finished" if self.finished else f"HANGS ({self.job.counters if self.job else 'no job'})"
        return (
            f"{self.kind}: set back {self.times} times; {self.obtained} of {self.pages} pages obtained, {end} after"
            f" {self.seconds:.0f} s; {self.doubled} rows doubled, {self.again} pages fetched again"
        )


def run(
    folder: Path,
    kind: str,
    *,
    pages: int,
    moments: int,
    lose: float,
    workers: int,
    seed: int,
    deadline: float,
    latency: float = 0.25,
    wait: int = 0,
) -> Outcome:
    rng = random.Random(seed)
    store: Store = KINDS[kind](folder, lose)
    if wait:
        store.url += f"{'&' if '?' in store.url else '?'}wait={wait}"
    with store, Site(pages, latency) as site, _workers(folder, store.url, site, workers) as check:
        started, times = time.monotonic(), 0
        next_at = started + rng.uniform(1.0, 3.0)
        job: Job | None = None
        while time.monotonic() < started + deadline:
            check()
            with suppress(StoreError):  # it may be away for longer than one waits who only looks
                job = asyncio.run(_job(store.url))
            if job is not None and job.state == "finished":
                break
            if times < moments and time.monotonic() >= next_at and site.obtained > 60:
                store.go_back(rng)
                times += 1
                next_at = time.monotonic() + rng.uniform(0.5, 4.0)
            time.sleep(0.2)
        rows = Counter(_rows(folder / "rows.jsonl"))
    return Outcome(
        kind,
        pages,
        len(rows),
        rows.total() - len(rows),
        site.requests - site.obtained,
        times,
        job is not None and job.state == "finished",
        time.monotonic() - started,
        job,
    )


async def _job(store: str) -> Job | None:
    async with open_frontier(store) as frontier:
        return await frontier.job("tree")


def _rows(path: Path) -> Iterator[str]:
    for line in path.read_bytes().splitlines() if path.exists() else ():
        yield msgspec.json.decode(line)["url"]


@contextmanager
def _workers(folder: Path, store: str, site: Site, count: int) -> Iterator[Callable[[], None]]:
    """Submits the job and starts workers; gives a function that raises if one has ended."""
    (folder / "tree.py").write_text(
        SPIDER.format(start=site.url(0), hosts=[f"127.0.0.{2 + n}" for n in range(HOSTS)])
    )
    (folder / "shoal.toml").write_text(
        f"lease = {LEASE}\nconcurrency = 8\nallow_network = ['127.0.0.0/8']\nsettle_delay = 0.05\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def shoal(*words: str) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", "from shoal.cli import main; main()", *words, "--store", store],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )

    running: list[subprocess.Popen[bytes]] = []

    def check() -> None:
        for process in running:
            if process.poll() is not None:
                raise RuntimeError(f"a worker ended with {process.returncode}: {_tail(folder / 'log')}")

    try:
        if shoal("submit", "tree.py", "-j", "tree", "-o", "rows.jsonl").wait() != 0:
            raise RuntimeError(f"cannot submit: {_tail(folder / 'log')}")
        running += [shoal("worker", "tree.py") for _ in range(count)]
        yield check
    finally:
        for process in running:
            process.terminate()
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-30:])


def _end_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    async def cancel() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(cancel(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


# -- the site


class Site:
    """A tree of pages on several addresses of loopback, in a thread of its own."""

    def __init__(self, pages: int, latency: float) -> None:
        self._pages, self._latency = pages, latency
        self._port = free_port()
        self._hits: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []

    @property
    def obtained(self) -> int:
        return len(self._hits)

    @property
    def requests(self) -> int:
        return self._hits.total()

    def url(self, page: int) -> str:
        return f"http://127.0.0.{2 + page % HOSTS}:{self._port}/{page}"

    def __enter__(self) -> Site:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            self._loop.call_soon_threadsafe(server.close)
        _end_loop(self._loop, self._thread)

    async def _serve(self) -> None:
        for host in range(HOSTS):
            server = await asyncio.start_server(self._answer, f"127.0.0.{2 + host}", self._port)
            self._servers.append(server)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1].lstrip(b"/")
                page = int(path) if path.isdigit() else -1
                await asyncio.sleep(self._latency)
                self._hits[page] += 1
                body = self._body(page)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
                await writer.drain()
        writer.close()

    def _body(self, page: int) -> bytes:
        first = page * BRANCHES + 1
        links = [
            self.url(child) for child in range(first, first + BRANCHES) if page >= 0 and child < self._pages
        ]
        return "".join(f'<a href="{link}">{link}</a>\n' for link in links).encode()


# -- stores that go back


class Store:
    url: str

    def __enter__(self) -> Store:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def go_back(self, rng: random.Random) -> None:
        raise NotImplementedError


class Tail(threading.Thread):
    """Notes how long the append-only file of a server is, so that it can be cut to the length it had."""

    def __init__(self, server: ValkeyServer) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._lengths: deque[tuple[float, Path, int]] = deque()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            for path in (self._server.folder / "appendonlydir").glob("*.incr.aof"):
                with suppress(OSError):
                    self._lengths.append((time.monotonic(), path, path.stat().st_size))
            while self._lengths and self._lengths[0][0] < time.monotonic() - 30:
                self._lengths.popleft()

    def cut(self, seconds: float) -> None:
        """Of a server that was killed. A command that is cut in its middle is dropped when it starts."""
        before = time.monotonic() - seconds
        lengths = {path: size for at, path, size in list(self._lengths) if at <= before}
        for path in {path for _, path, _ in list(self._lengths)}:
            with suppress(OSError):
                os.truncate(path, min(path.stat().st_size, lengths.get(path, 0)))
        self._lengths.clear()


_NO_REWRITE = {"auto-aof-rewrite-percentage": "0"}


class OneServer(Store):
    def __init__(self, folder: Path, lose: float) -> None:
        self._server = ValkeyServer(folder / "store", appendonly=True, settings=_NO_REWRITE)
        self._tail, self._lose = Tail(self._server), lose
        self.url = self._server.url

    def __enter__(self) -> OneServer:
        self._server.start()
        self._tail.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.ended.set()
        self._server.kill()

    def go_back(self, rng: random.Random) -> None:
        self._server.kill()
        self._tail.cut(self._lose)
        self._server.start()


class Cluster(Store):
    def __init__(self, folder: Path, lose: float) -> None:
        self._cluster = ValkeyCluster(folder / "store")
        for node in self._cluster.nodes:
            node._config.update(_NO_REWRITE)
        self._tails = [Tail(node) for node in self._cluster.nodes]
        self._lose = lose
        self.url = self._cluster.url + "?shards=6"

    def __enter__(self) -> Cluster:
        self._cluster.start()
        for tail in self._tails:
            tail.start()
        return self

    def __exit__(self, *_: object) -> None:
        for tail in self._tails:
            tail.ended.set()
        self._cluster.kill()

    def go_back(self, rng: random.Random) -> None:
        """One of them; now and then all of them together."""
        places = range(len(self._tails))
        victims = list(places) if rng.random() < 0.2 else [rng.choice(places)]
        for place in victims:
            self._cluster.nodes[place].kill()
        for place in victims:
            self._tails[place].cut(self._lose)
            self._cluster.nodes[place].start()
        self._cluster.wait()


class Failover(Store):
    """Two servers that take turns as primary; the other replicates through a relay that can be frozen."""

    def __init__(self, folder: Path, lose: float) -> None:
        self._servers = [ValkeyServer(folder / f"store{n}", appendonly=True) for n in (0, 1)]
        self._sentinel = ValkeySentinel(folder / "sentinel", self._servers[0])
        self._lose = lose
        self._relay: Relay | None = None
        self.url = self._sentinel.url

    def __enter__(self) -> Failover:
        for server in self._servers:
            server.start()
        self._follow(self._servers[1], self._servers[0])
        self._sentinel.start()
        wait_until(self._knows_replica, 30, "the sentinel does not find the replica")
        return self

    def __exit__(self, *_: object) -> None:
        if self._relay is not None:
            self._relay.close()
        self._sentinel.kill()
        for server in self._servers:
            server.kill()

    def _follow(self, replica: ValkeyServer, primary: ValkeyServer) -> None:
        self._relay = Relay(primary.port)
        replica.command("REPLICAOF", "127.0.0.1", self._relay.port)
        wait_until(lambda: _linked(replica), 30, "the replica does not follow")

    def _knows_replica(self) -> bool:
        replicas = self._sentinel.command("SENTINEL", "REPLICAS", self._sentinel.service)
        return any(dict(zip(one[::2], one[1::2], strict=True))[b"flags"] == b"slave" for one in replicas)

    def go_back(self, rng: random.Random) -> None:
        primary, replica = self._servers
        assert self._relay is not None
        self._relay.freeze()
        time.sleep(self._lose)
        primary.kill()
        self._relay.close()
        wait_until(lambda: _role(replica) == "master", 60, "the sentinel promotes nobody")
        primary.start()
        self._servers.reverse()
        self._follow(primary, replica)
        wait_until(self._knows_replica, 60, "the sentinel does not find the replica")


class ClusterFailover(Store):
    """Three primaries with a replica each, which take turns. To lag, a replica is given a password that its primary
    does not know, and its connection is cut: it cannot come back."""

    def __init__(self, folder: Path, lose: float) -> None:
        self._cluster = ValkeyCluster(folder / "store", replicas=True)
        self._pairs = [
            list(pair) for pair in zip(self._cluster.nodes[:3], self._cluster.nodes[3:], strict=True)
        ]
        self._lose = lose
        self.url = self._cluster.url + "?shards=6"

    def __enter__(self) -> ClusterFailover:
        self._cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.kill()

    def go_back(self, rng: random.Random) -> None:
        pair = rng.choice(self._pairs)
        primary, replica = pair
        replica.command("CONFIG", "SET", "masterauth", "wrong")
        replica.command("CLIENT", "KILL", "TYPE", "master")
        time.sleep(self._lose)
        primary.kill()
        replica.command("CLUSTER", "FAILOVER", "TAKEOVER")
        wait_until(lambda: _role(replica) == "master", 30, "the replica does not take over")
        replica.command("CONFIG", "SET", "masterauth", "")
        primary.start()
        pair.reverse()
        wait_until(lambda: _linked(primary), 60, "the old primary does not follow")
        self._cluster.wait()


KINDS: dict[str, Callable[[Path, float], Store]] = {
    "server": OneServer,
    "cluster": Cluster,
    "sentinel": Failover,
    "cluster-failover": ClusterFailover,
}


def _role(server: ValkeyServer) -> str:
    return str(_replication(server).get("role"))


def _replication(server: ValkeyServer) -> dict[str, object]:
    """Nothing while it is being told what to be: then it drops its connections."""
    try:
        info: dict[str, object] = server.command("INFO", "replication")
    except (OSError, RedisError):
        return {}
    return info


def _linked(replica: ValkeyServer) -> bool:
    info = _replication(replica)
    return info.get("master_link_status") == "up" and not info.get("master_sync_in_progress")


class Relay:
    """Passes a replica's connection on to its primary, in a thread of its own; frozen, it swallows what comes."""

    def __init__(self, to: int) -> None:
        self.port = free_port()
        self._to = to
        self._frozen = False
        self._loop = asyncio.new_event_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        start = asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(10)

    def freeze(self) -> None:
        self._frozen = True

    def close(self) -> None:
        if not self._thread.is_alive():
            return

        async def end() -> None:
            self._server.close()
            for writer in self._writers:
                writer.close()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        _end_loop(self._loop, self._thread)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, back]
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if not self._frozen:
                    writer.write(data)
                    await writer.drain()
        if not self._frozen:
            writer.close()


if __name__ == "__main__":
    sys.exit(main())
