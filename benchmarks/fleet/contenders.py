"""The two fleets behind one face, so that both are measured alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from benchmarks.fleet.processes import Member, Members
from benchmarks.fleet.proxied import write_settings
from benchmarks.fleet.shoal_fleet import ShoalFleet
from shoal.testing.servers import ValkeyServer

START, QUEUE, ITEMS = "fleet:start_urls", "fleet:requests", "fleet:items"  # where scrapy-redis keeps them

LEASE = 10  # seconds after which Shoal gives the pages of a worker that was killed to others, and a page takes at most


class Limits(Struct, frozen=True):
    """The same for both."""

    rate: float  # requests a second and host
    per_host: int  # requests at once and host
    slots: int  # requests at once and worker
    waiting: int = 0  # pages of Shoal besides, for each slot, that only wait for a slow server


class Contender(Protocol):
    def worker(self, number: int) -> Member: ...

    def ready(self, worker: Member) -> bool:
        """Whether it waits for work."""
        ...

    def begin(self) -> None:
        """Hands in the start URLs."""
        ...

    def through(self) -> bool:
        """Whether nothing is left to do."""
        ...

    def rows(self) -> list[str]:
        """The URLs of the rows."""
        ...

    def given_up(self) -> int:
        """Pages that were tried in vain, so far."""
        ...


class Shoal:
    def __init__(
        self,
        members: Members,
        store: ValkeyServer,
        start_urls: Sequence[str],
        limits: Limits,
        proxies: Sequence[str] = (),
    ) -> None:
        settings = write_settings(members.folder / "shoal.toml", proxies) if proxies else None
        self._fleet = ShoalFleet(members, store.url, start_urls, settings)
        self._limits = limits
        self._submitted: Member | None = None

    def worker(self, number: int) -> Member:
        slots = ("--concurrency", str(self._limits.slots), "-s", f"waiting_per_slot={self._limits.waiting}")
        return self._fleet.worker(number, *slots, "-s", f"lease={LEASE}")

    def ready(self, worker: Member) -> bool:
        return "worker for" in worker.words

    def begin(self) -> None:
        limits = ["--rate", str(self._limits.rate), "--per-host", str(self._limits.per_host)]
        self._submitted = self._fleet.submit("--no-robots", *limits, "-s", f"total_timeout={LEASE}")

    def through(self) -> bool:
        return self._submitted is not None and not self._submitted.running

    def rows(self) -> list[str]:
        return [str(row["url"]) for row in self._fleet.rows()]

    def given_up(self) -> int:
        return self._fleet.job().counters.dead


class ScrapyRedis:
    def __init__(
        self,
        members: Members,
        store: ValkeyServer,
        start_urls: Sequence[str],
        limits: Limits,
        proxies: Sequence[str] = (),
    ) -> None:
        self._members = members
        self._proxies = list(proxies)
        self._store = store
        self._start_urls = start_urls
        self._limits = limits

    def worker(self, number: int) -> Member:
        limits = self._limits
        told = {
            "url": self._store.url,
            "rate": limits.rate,
            "per_host": limits.per_host,
            "slots": limits.slots,
            "timeout": LEASE,
            "proxies": self._proxies,
        }
        command = [sys.executable, "-m", "benchmarks.fleet.scrapy_worker", json.dumps(told)]
        return self._members.start(f"worker-{number}", command)

    def ready(self, worker: Member) -> bool:
        return "Spider opened" in worker.words

    def begin(self) -> None:
        self._store.command("RPUSH", START, *self._start_urls)

    def through(self) -> bool:
        """Nobody knows what a worker has in flight; that the queues are empty is all there is to see."""
        return not any(self._store.command("LLEN", key) for key in (START, QUEUE))

    def rows(self) -> list[str]:
        return [json.loads(item)["url"] for item in self._store.command("LRANGE", ITEMS, 0, -1)]

    def given_up(self) -> int:
        logs = self._members.folder.glob("worker-*.log")
        return sum(log.read_text(errors="replace").count("Gave up retrying") for log in logs)


CONTENDERS: dict[str, type[Shoal] | type[ScrapyRedis]] = {"shoal": Shoal, "scrapy-redis": ScrapyRedis}
