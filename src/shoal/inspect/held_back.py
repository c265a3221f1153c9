"""The hosts that hold a store's jobs back: ill ones, and those with long queues, each with the reason in words."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct

from shoal import humanize
from shoal.engine.event_loop import in_turns
from shoal.frontier.protocol import Hosts
from shoal.frontier.values import HostRecord
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import state_of
from shoal.inspect.host import CONDITIONS, Condition, HostView, causes, view_of, with_robots
from shoal.inspect.lookup import rules_for
from shoal.inspect.overview import Overview, SlowHost, slow_host

_SHOWN = 12
_ASKED = 40  # hosts that are not well, of which it is asked whether pages wait for them


class Holdup(Struct, frozen=True):
    host: HostView
    waiting: int  # tasks of all jobs, delayed ones too
    through: float  # when they can be done at the earliest; inf: no telling
    why: str


class Holdups(Struct, frozen=True):
    hosts: Sequence[Holdup] = ()
    conditions: Mapping[str, int] | None = (
        None  # how many hosts are in which, from well to ill; None: not counted
    )


async def find_holdups(frontier: Hosts, overview: Overview, patience: float) -> Holdups:
    """All hosts are walked over, for `patience` seconds at most: then those that were not met are left out."""
    jobs = sorted(overview.jobs, key=lambda one: (one.job.state == "running", one.job.created_at))
    rules = rules_for(jobs[-1].job if jobs else None)
    worst, conditions = await _walk(frontier, rules, overview.now, patience)
    open_jobs = [one for one in overview.open if one.job.counters.open]
    if not open_jobs:
        return Holdups((), conditions)
    found = {host.record.name: host for one in open_jobs for host in one.slow}
    for name in worst:
        if name not in found and (host := await slow_host(frontier, name, overview.now)) is not None:
            found[name] = host
    waited_for = [_holdup(host, rules, overview.now) for host in found.values() if host.waiting]
    return Holdups(_ranked(waited_for), conditions)


def _ranked(hosts: Iterable[Holdup]) -> Sequence[Holdup]:
    """Those that are not well and those that are in turn, of each the one that takes longest first."""
    slowest = sorted(hosts, key=lambda one: -one.through)
    well = [one for one in slowest if one.host.condition == "healthy"]
    ill = [one for one in slowest if one.host.condition != "healthy"]
    return [one for pair in zip_longest(ill, well) for one in pair if one is not None][:_SHOWN]


async def _walk(
    frontier: Hosts, rules: HostRules, now: float, patience: float
) -> tuple[Sequence[str], Mapping[str, int] | None]:
    """The most ill hosts, then such as have failed lately, and how many hosts are in which condition."""
    conditions: dict[str, int] = dict.fromkeys(CONDITIONS, 0)
    worst: list[tuple[int, str]] = []
    until = time.monotonic() + patience
    async for record in in_turns(frontier.hosts()):
        well = _is_well(record, now)
        condition: Condition = "healthy" if well else view_of(record, rules, now).condition
        conditions[condition] += 1
        if not well and condition != "given up":  # the pages of a host that is given up do not wait
            heapq.heappush(worst, (CONDITIONS.index(condition), record.name))
            if len(worst) > _ASKED:
                heapq.heappop(worst)  # the least ill
        if time.monotonic() > until:
            return [name for _, name in worst], None
    return [name for _, name in worst], {name: number for name, number in conditions.items() if number}


def _is_well(record: HostRecord, now: float) -> bool:
    """What can be said of most hosts without asking the policies, which takes ten times as long."""
    state = state_of(record)
    refused = state.given_up or any(origin.robots_missing for origin in state.origins.values())
    return not (state.errors or refused) and record.valve.blocked_until <= now


def _holdup(host: SlowHost, rules: HostRules, now: float) -> Holdup:
    sight = with_robots(view_of(host.record, rules, now, host.pending), rules)
    found = causes(sight)
    why = _without_name(found[0].sentence, sight.name) if found else _usual(sight, host.waiting)
    return Holdup(sight, host.waiting, host.through, why)


def _without_name(sentence: str, host: str) -> str:
    """Beside the host's name there is no room for it once more."""
    return sentence.removeprefix(f"host {host}").lstrip(": ").replace(f" of {host} ", " ", 1)


def _usual(host: HostView, waiting: int) -> str:
    """Of a host that nothing is wrong with."""
    pace = f", {humanize.speed(host.pace)} a second at most" if host.pace is not None else ""
    error = f"; the latest error: {host.state.errors[-1]}" if host.state.errors else ""
    return f"{humanize.plural(waiting, 'page')} to go{pace}{error}"
