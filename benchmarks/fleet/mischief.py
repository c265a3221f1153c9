"""What is done to a fleet while it works. The generator of randomness decides to whom, and how."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence

from benchmarks.fleet.processes import Member, until
from benchmarks.fleet.shoal_fleet import ShoalFleet
from shoal.errors import ShoalError
from shoal.frontier.values import FLIGHTS_SEEN
from shoal.jobs.leader import leader
from shoal.testing.servers import PostgresServer, ValkeyServer

_OVERSLEEP = 1.2  # leases that a frozen worker sleeps
_LONGEST_OUTAGE = 1.0  # seconds for which a server is down
_SPARED = 10.0  # seconds for which a worker that woke up is not killed, to see what it does with what it had
_TICK = 0.02

Act = Callable[[], str]


class Mischief:
    def __init__(
        self,
        fleet: ShoalFleet,
        store: Sequence[ValkeyServer],
        database: PostgresServer | None,
        workers: dict[int, Member],
        start_worker: Callable[[int], Member],
        lease: float,
        rng: random.Random,
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._database = database
        self._workers = workers
        self._start_worker = start_worker
        self._coordinator = fleet.coordinator()
        self._lease = lease
        self._rng = rng
        self._sleeper: Member | None = None
        self._woken: Member | None = None
        self._wake_at = 0.0
        self._began = time.monotonic()
        self.story: list[str] = []

    def acts(self) -> list[Act]:
        acts = [self.kill_worker, self.kill_worker, self.kill_leader, self.freeze_worker]
        acts += [self.restart_store, self.forget_scripts]
        return [*acts, self.restart_database] if self._database is not None else acts

    def do(self, act: Act) -> None:
        at = time.monotonic() - self._began
        self.story.append(f"{at:6.1f} s  {act()}")

    def wait_until(self, moment: float) -> None:
        """Whoever has slept long enough is woken meanwhile, be it late."""
        while True:
            if self._sleeper is not None and time.monotonic() >= self._wake_at:
                self._sleeper.signal(signal.SIGCONT)
                self._woken, self._sleeper = self._sleeper, None
            if time.monotonic() >= moment:
                return
            time.sleep(_TICK)

    def wait_until_all_are_awake(self) -> None:
        while self._sleeper is not None:
            self.wait_until(self._wake_at + 2 * _TICK)

    # -- processes

    def kill_worker(self) -> str:
        number = self._rng.choice(
            [number for number, worker in self._workers.items() if self._may_die(worker)]
        )
        return f"{self._replace(number)} is killed and replaced"

    def kill_leader(self) -> str:
        """The process that leads, be it a worker or the coordinator."""
        try:
            term = self._fleet.ask(leader)
        except ShoalError as error:
            return f"nobody is killed: {error}"
        pid = int(term.holder.partition("-")[0]) if term is not None else 0
        if pid == self._coordinator.worker:
            self._coordinator.kill()
            self._coordinator = self._fleet.coordinator()
            return "the coordinator, which leads, is killed and replaced"
        for number, worker in self._workers.items():
            if pid == worker.worker and self._may_die(worker):
                return f"{self._replace(number)}, which leads, is killed and replaced"
        return "nobody is killed: nobody leads"

    def _may_die(self, worker: Member) -> bool:
        waking = worker is self._woken and time.monotonic() < self._wake_at + _SPARED
        return worker is not self._sleeper and not waking

    def _replace(self, number: int) -> str:
        self._workers[number].kill()
        self._workers[number] = self._start_worker(number)
        return f"worker {number}"

    def freeze_worker(self) -> str:
        if self._sleeper is not None:
            return "nobody is frozen: one sleeps already"
        number, self._sleeper = until(self._stop_a_worker, "a worker with pages in hand")
        self._wake_at = time.monotonic() + _OVERSLEEP * self._lease
        return f"worker {number} is frozen for {_OVERSLEEP:g} leases"

    def _stop_a_worker(self) -> tuple[int, Member] | None:
        """The one that was started first and has pages in hand, which it cannot settle once it is stopped."""
        for number, worker in sorted(self._workers.items(), key=lambda item: item[1].started):
            worker.signal(signal.SIGSTOP)
            if self._has_pages(worker):
                return number, worker
            worker.signal(signal.SIGCONT)
        return None

    def _has_pages(self, worker: Member) -> bool:
        try:
            flights = self._fleet.ask(lambda frontier: frontier.flights(FLIGHTS_SEEN))
        except ShoalError:
            return False  # the store is away
        return any(flight.worker.startswith(f"{worker.worker}-") for flight in flights)

    # -- servers

    def restart_store(self) -> str:
        """One server of several."""
        number = self._rng.randrange(len(self._store))
        # Only a lone server writes everything to its disk before it answers.
        power_cut = self._rng.random() < 0.5 and len(self._store) == 1
        return f"Valkey {number} {self._restart(self._store[number], power_cut)}"

    def restart_database(self) -> str:
        assert self._database is not None
        return f"PostgreSQL {self._restart(self._database, self._rng.random() < 0.5)}"

    def _restart(self, server: ValkeyServer | PostgresServer, power_cut: bool) -> str:
        began = time.monotonic()
        if power_cut:
            server.kill()
        else:
            server.stop()
        time.sleep(self._rng.uniform(0.0, _LONGEST_OUTAGE))
        server.start()
        return f"is {'killed' if power_cut else 'stopped'}, and back after {time.monotonic() - began:.1f} s"

    def forget_scripts(self) -> str:
        for server in self._store:
            server.command("SCRIPT", "FLUSH")
        return "Valkey forgets its scripts"
