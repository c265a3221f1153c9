"""The hosts that hold a store's jobs back: those in trouble and those with long queues, each with the reason."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.event_loop import in_turns
from shoal.frontier.protocol import Hosts
from shoal.frontier.values import HostRecord
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import HostState, state_of
from shoal.inspect.host import CONDITIONS, Condition, HostView, causes, view_of, with_robots
from shoal.inspect.lookup import rules_for
from shoal.inspect.overview import Overview, SlowHost, slow_host, with_held
from shoal.model import is_items_host, is_webhook_host
from shoal.policy.quality_alarms import number_of_alarms
from shoal.text import humanize
from shoal.valve import FOREVER

_SHOWN = 12
_ASKED = 40  # hosts in trouble for which the store is asked whether pages wait


class Holdup(Struct, frozen=True):
    host: HostView
    waiting: int  # tasks of all jobs, delayed ones too
    through: float  # when they can be done at the earliest; inf: not as it is now; in the past: no telling
    why: str


class Holdups(Struct, frozen=True):
    hosts: Sequence[Holdup] = ()
    conditions: Mapping[str, int] | None = None  # how many hosts are in which; None: not counted
    alarms: int | None = None  # of the quality of rows, at all hosts


async def find_holdups(frontier: Hosts, overview: Overview, patience: float) -> Holdups:
    """Walks over all hosts, for `patience` seconds at most; after that the rest are left out, and not counted."""
    jobs = sorted(overview.jobs, key=lambda one: (one.job.state == "running", one.job.created_at))
    rules = rules_for(jobs[-1].job if jobs else None)
    worst, conditions, alarms = await _walk(frontier, rules, overview.now, patience)
    open_jobs = [one for one in overview.open if one.job.counters.open]
    if not open_jobs:
        return Holdups((), conditions, alarms)
    found = {host.record.name: host for one in open_jobs for host in one.slow}
    for name in worst:
        if name not in found and (host := await slow_host(frontier, name, overview.now)) is not None:
            found[name] = with_held(host, overview.held)
    waited_for = [_holdup(host, rules, overview.now) for host in found.values() if host.waiting]
    return Holdups(_ranked(waited_for), conditions, alarms)


def _ranked(hosts: Iterable[Holdup]) -> Sequence[Holdup]:
    """Takes hosts in trouble and healthy ones in turn; of each kind, the one that needs most time first."""
    slowest = sorted(hosts, key=lambda one: (one.host.held is None, -one.through))
    healthy = [one for one in slowest if one.host.condition == "healthy"]
    troubled = [one for one in slowest if one.host.condition != "healthy"]
    return [one for pair in zip_longest(troubled, healthy) for one in pair if one is not None][:_SHOWN]


async def _walk(
    frontier: Hosts, rules: HostRules, now: float, patience: float
) -> tuple[Sequence[str], Mapping[str, int] | None, int | None]:
    """Returns the hosts in the worst condition, then those that failed lately; and counts hosts by condition, and
    alarms of quality."""
    conditions: dict[str, int] = dict.fromkeys(CONDITIONS, 0)
    worst: list[tuple[int, str]] = []
    alarms = 0
    until = time.monotonic() + patience
    async for record in in_turns(frontier.hosts()):
        state = state_of(record)
        alarms += number_of_alarms(state.quality)
        healthy = _is_healthy(record, state, now)
        condition: Condition = "healthy" if healthy else view_of(record, rules, now).condition
        conditions[condition] += 1
        if not healthy and condition != "given up":  # the pages of a host that is given up do not wait
            heapq.heappush(worst, (CONDITIONS.index(condition), record.name))
            if len(worst) > _ASKED:
                heapq.heappop(worst)  # the least troubled
        if time.monotonic() > until:
            return [name for _, name in worst], None, None
    counted = {name: number for name, number in conditions.items() if number}
    return [name for _, name in worst], counted, alarms


def _is_healthy(record: HostRecord, state: HostState, now: float) -> bool:
    """Whether the host is clearly healthy. Most are, and to ask the policies takes ten times as long."""
    refused = state.given_up or any(origin.robots_missing for origin in state.origins.values())
    return not (state.errors or refused) and record.valve.blocked_until <= now


def _holdup(host: SlowHost, rules: HostRules, now: float) -> Holdup:
    view = with_robots(view_of(host.record, rules, now, host.pending), rules)
    view = replace(view, held=host.held)
    found = causes(view)
    why = _without_name(found[0].sentence, view.name) if found else _usual(view, host.waiting)
    forever = host.record.valve.blocked_until >= FOREVER
    return Holdup(view, host.waiting, now if host.held is not None and not forever else host.through, why)


def _without_name(sentence: str, host: str) -> str:
    """The sentence stands beside the host's name, so it does not repeat it."""
    return sentence.removeprefix(f"host {host}").lstrip(": ").replace(f" of {host} ", " ", 1)


def _usual(host: HostView, waiting: int) -> str:
    """What is said of a healthy host."""
    pace = f", {humanize.speed(host.pace)} a second at most" if host.pace is not None else ""
    error = f"; the latest error: {host.state.errors[-1]}" if host.state.errors else ""
    what = "item" if is_items_host(host.name) else "page"
    many = humanize.plural(waiting, what)
    if is_webhook_host(host.name):
        many, pace = humanize.plural(waiting, "delivery", "deliveries"), ""
    return f"{many} to go{pace}{error}"
