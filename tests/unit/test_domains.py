"""The limit of a domain: what follows from the settings, and that it costs the same however many hosts wait for it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model import Done, Settlement
from shoal.policy.compose import domain_limit
from shoal.settings import Settings
from shoal.testing.conformance.domains import wild
from shoal.testing.conformance.tools import claim, make_task, spec
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyServer
from shoal.valve import FOREVER, Domain, DomainLimit, Valve, strictest

_number = itertools.count()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (Settings(), DomainLimit(0.1, 8)),  # 10 a second and 8 at once: several times what a host gets
        (Settings(rate=0.5, per_host=1), DomainLimit(0.4, 4)),
        (Settings(domain_rate=4.0, per_domain=3), DomainLimit(0.25, 3)),
        (Settings(domain_rate=0.0, per_domain=0), DomainLimit()),
        (Settings(rate=0.0), DomainLimit(0.0, 8)),  # whoever lifts the rate of hosts lifts that of domains
        (
            Settings(rate=4.0, domain_rate=1.0, per_host=6, per_domain=1),
            DomainLimit(0.25, 6),
        ),  # never stricter
    ],
)
def test_what_the_settings_allow_a_domain(settings: Settings, limit: DomainLimit) -> None:
    assert domain_limit(settings) == limit


def test_the_strictest_limit_is_that_of_the_longest_interval_and_the_fewest_places() -> None:
    assert strictest([DomainLimit(0.1, 0), DomainLimit(0.0, 5), DomainLimit(2.0, 9)]) == DomainLimit(2.0, 5)
    assert strictest([DomainLimit(), DomainLimit()]) == strictest([]) == DomainLimit()


def test_a_domain_at_its_cap_is_due_when_a_place_comes_back() -> None:
    domain, limit = Domain("wild.test", in_flight=2, next_at=5.0), DomainLimit(1.0, 2)
    assert domain.due(limit) == FOREVER
    assert domain.give_back(1).due(limit) == 5.0
    assert domain.allowance(DomainLimit(1.0, 1), True, 9.0) == 0  # a cap that has become smaller


# -- what it costs


async def _cpu_of_claims(
    frontier: Frontier, clock: ManualClock, hosts: int, cpu: Callable[[], float]
) -> float:
    """Seconds that the store takes for claims while all hosts but one wait for their domain, and others go on."""
    await frontier.open_job(spec(valve=Valve(interval=0.01, cap=1), domain=DomainLimit(interval=1.0)))
    await frontier.add("job", wild(hosts))
    await frontier.add("job", [make_task(f"http://h{n % 20}.test/{n}") for n in range(400)])
    leases = (await claim(frontier)).leases
    before = cpu()
    taken = 0
    for _ in range(60):
        taken += len(leases)
        await frontier.settle([Settlement(lease, Done()) for lease in leases])
        clock.advance(0.02)
        leases = (await claim(frontier)).leases
    assert taken >= 400
    return cpu() - before


@pytest.mark.slow
@pytest.mark.parametrize("home", ["sqlite", "redis"])
async def test_hosts_that_wait_for_their_domain_cost_nothing(
    home: str, tmp_path: Path, valkey_server: ValkeyServer
) -> None:
    def cpu() -> float:
        if home == "sqlite":
            return time.process_time()
        info = valkey_server.command("INFO", "cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def make(clock: ManualClock) -> Frontier:
        if home == "sqlite":
            return SqliteFrontier(tmp_path / f"{next(_number)}.db", clock)
        return RedisFrontier(f"{valkey_server.url}?prefix=d{next(_number)}", clock)

    async def measure(hosts: int) -> float:
        clock = ManualClock()
        async with make(clock) as frontier:
            return await _cpu_of_claims(frontier, clock, hosts, cpu)

    few = many = math.inf
    for _ in range(8):  # other programs only add to it
        few, many = min(few, await measure(20)), min(many, await measure(4000))
        if many < 3 * few:
            break
    assert many < 3 * few, f"{few:.3f} s with 20 hosts, {many:.3f} s with 4,000"
