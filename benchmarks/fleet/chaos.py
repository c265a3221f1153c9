"""A crawl by a fleet whose parts fail all the time. It must end by itself, with one row a page, and polite throughout.

A host is asked `rate` times a second at most, so the crawl of a host with `pages` pages cannot end before
`pages / rate` seconds: that is the time for mischief. Start URLs are fed slowly, so that coordinators die meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from benchmarks.fleet.mischief import Mischief
from benchmarks.fleet.processes import Begin, FleetError, Member, Members, execute, until
from benchmarks.fleet.shoal_fleet import ROWS, ShoalFleet
from benchmarks.fleet.verdict import Verdict, judge
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import PostgresServer, ValkeyCluster, ValkeyServer

_DROPPED = "is dropped: its lease could not be renewed in time"
_BEGINNING = 2.0  # seconds until every host has been asked, about


class Terms(Struct, frozen=True):
    seconds: float = 11.0  # for mischief
    seed: int = 1
    cluster: bool = False  # three nodes instead of one server
    files: bool = False  # rows go to two files, each shared by half of the workers, instead of PostgreSQL
    workers: int = 4
    hosts: int = 40
    rate: float = 2.0  # requests a second and host
    per_host: int = 2
    latency: float = (
        0.9  # with the rate and the slots, such that every worker has pages in flight all the time
    )
    slots: int = 14  # of a worker
    lease: float = 3.0
    patience: float = 90.0  # seconds for the crawl to end once nothing fails any more
    rounds: int = 1  # how often each act is done

    @property
    def total_timeout(self) -> float:
        return 2 * self.lease

    @property
    def longest_lease(self) -> float:
        """A place is not given to another before the request could be over, and a page may start a little late."""
        return self.total_timeout + self.lease / 4

    @property
    def pages(self) -> int:
        """On each host."""
        return int((self.seconds + _BEGINNING) * self.rate)


class Servers(Struct, frozen=True):
    store: str
    valkeys: list[ValkeyServer]
    database: PostgresServer | None


def run(terms: Terms, begin: Begin = execute) -> Verdict:
    """`begin`: how the processes of the fleet are begun."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="shoal-chaos-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # PostgreSQL does not run as root
        servers = _start_servers(terms, folder, stack)
        web = stack.enter_context(WebProcess(_make_web(terms), terms.seed))
        members = stack.enter_context(Members(folder / "fleet", begin))
        members.folder.mkdir()
        return _crawl(terms, ShoalFleet(members, servers.store, _start_urls(web, terms)), servers, web)


def _start_servers(terms: Terms, folder: Path, stack: ExitStack) -> Servers:
    database = None if terms.files else stack.enter_context(PostgresServer(folder / "postgres"))
    if terms.cluster:
        cluster = stack.enter_context(ValkeyCluster(folder / "cluster"))
        return Servers(cluster.url, cluster.nodes, database)
    valkey = stack.enter_context(ValkeyServer(folder / "valkey", appendonly=True, fsync="always"))
    return Servers(valkey.url, [valkey], database)


def _make_web(terms: Terms) -> dict[str, HostProfile]:
    """Two thirds of the hosts take their time, so that there is always something in flight; the others flap."""
    slow = HostProfile("slow", pages=terms.pages, links=6, latency=terms.latency)
    flapping = HostProfile("flapping", pages=terms.pages, links=6, failure_share=0.05)
    return {f"host-{number}": flapping if number % 3 == 0 else slow for number in range(terms.hosts)}


def _start_urls(web: WebProcess, terms: Terms) -> list[str]:
    """Every second page of every host, in turn: the rest must be found."""
    return [web.url(host, f"/p/{number}") for number in range(0, terms.pages, 2) for host in web.spec.hosts]


def _crawl(terms: Terms, fleet: ShoalFleet, servers: Servers, web: WebProcess) -> Verdict:
    output = servers.database.create_database("rows") if servers.database else ROWS
    rng = random.Random(terms.seed)

    def start(number: int) -> Member:
        machine = f"machine-{number % 2}" if terms.files else None
        return fleet.worker(
            number, "--concurrency", str(terms.slots), "-s", f"lease={terms.lease}", machine=machine
        )

    workers = {number: start(number) for number in range(terms.workers)}
    mischief = Mischief(fleet, servers.valkeys, servers.database, workers, start, terms.longest_lease, rng)
    began = time.monotonic()
    submitted = fleet.submit(*_flags(terms), output=output)
    until(lambda: len(web.hits()) >= 2 * terms.hosts, "the first pages", submitted, *workers.values())
    _misbehave(mischief, submitted, terms, rng)
    code = submitted.code(terms.patience)
    seconds = time.monotonic() - began
    urls = [str(row["url"]) for row in fleet.rows()] if terms.files else asyncio.run(_urls(output))
    counters, dropped = fleet.job().counters, fleet.said(_DROPPED)
    return judge(web, urls, code, seconds, counters, fleet.buried(), dropped, mischief.story, terms.rate)


def _flags(terms: Terms) -> list[str]:
    # The breaker is for hosts that fail, and stays out of it: the hosts are well, the fleet is not.
    settings = {"max_attempts": 25, "retry_base": 0.2, "high_water": 10 * terms.hosts, "breaker_rate": 2}
    settings["total_timeout"] = terms.total_timeout
    pairs = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    return ["--rate", str(terms.rate), "--per-host", str(terms.per_host), *pairs]


def _misbehave(mischief: Mischief, submitted: Member, terms: Terms, rng: random.Random) -> None:
    """All acts in random order, spread over the time in which the crawl cannot be through."""
    acts = mischief.acts() * terms.rounds
    rng.shuffle(acts)
    began = time.monotonic()
    span = 0.9 * terms.seconds / len(acts)
    for number, act in enumerate(acts):
        mischief.wait_until(began + (number + rng.random()) * span)
        if not submitted.running:
            raise FleetError(f"the job ended too soon: {submitted.words[-2000:]}")
        mischief.do(act)
    mischief.wait_until_all_are_awake()


async def _urls(output: str) -> list[str]:
    import asyncpg  # type: ignore[import-untyped]

    connection = await asyncpg.connect(output)
    try:
        return [row[0] for row in await connection.fetch("SELECT item->>'url' FROM page")]
    finally:
        await connection.close()
