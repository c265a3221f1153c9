"""Reads hosts and proxies from a store, with the settings of the jobs that use them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from shoal.config import load
from shoal.errors import SettingsError, UsageError
from shoal.frontier.protocol import Frontier, Jobs, Viewing
from shoal.frontier.values import HostQueue, HostRecord, Job
from shoal.hosts.host_limits import HostRules, OtherJobs
from shoal.hosts.proxy_pools import StoredPools
from shoal.hosts.stored_settings import read_stored_settings
from shoal.inspect.held_pages import HeldPages, filling, find_held
from shoal.inspect.host import HostView, view_of, with_robots, with_sources
from shoal.inspect.job import unknown_job
from shoal.jobs.note import settings_of
from shoal.policy.compose import BUILT_IN
from shoal.policy.host_table import NOTHING, over
from shoal.policy.proxy_state import condition
from shoal.settings import HostSettings, Settings
from shoal.text import command

_PAGE = 500  # hosts that are read at once
_MOST_LOOKED = 5_000  # hosts that are looked at for one answer


async def chosen_jobs(frontier: Jobs, name: str | None) -> Sequence[Job]:
    """The job of that name, or all jobs: running ones first, and of those the newest first."""
    jobs = await frontier.jobs()
    chosen = [job for job in jobs if name in (None, job.spec.name)]
    if name is not None and not chosen:
        raise await unknown_job(frontier, name)
    return sorted(chosen, key=lambda job: (job.state == "running", job.created_at), reverse=True)


def settings_for(job: Job | None) -> Settings:
    """The settings that the job last ran with. Without a job: those that a crawl started here would have."""
    known = settings_of(job.spec) if job is not None else None
    return known if known is not None else load(None, {}, os.environ, {})


def rules_for(job: Job | None) -> HostRules:
    settings = settings_for(job)
    try:
        return HostRules(settings)
    except SettingsError:
        # A policy of the spider's own that cannot be imported from here; the workers keep to it all the same.
        ours = [name for name in settings.policies if name in BUILT_IN]
        return HostRules(replace(settings, policies=ours))


# -- hosts


class HostsFound(Struct, frozen=True):
    """A page of a list of hosts."""

    now: float
    hosts: Sequence[HostView]
    after: str  # where the next page begins; "": there is none


async def find_hosts(
    frontier: Frontier,
    job: str | None = None,
    *,
    part: str = "",
    condition: str = "",
    after: str = "",
    limit: int = _PAGE,
) -> HostsFound:
    """Returns about `limit` hosts that have `part` in their names and are in that condition. If few match, it stops
    after some thousand hosts and says where to go on."""
    jobs = await chosen_jobs(frontier, job)
    rules, now = rules_for(jobs[0] if jobs else None), await frontier.now()
    standing = (await read_stored_settings(frontier)).table
    found: list[HostView] = []
    looked = 0
    while True:
        page = await frontier.host_page(job, after, _PAGE if part or condition else limit)
        looked, after = looked + len(page.hosts), page.after
        for record, pending in page.hosts:
            if part in record.name:
                view = view_of(record, rules, now, pending)
                if condition in ("", view.condition):
                    found.append(with_sources(view, rules, standing))
        if not after or len(found) >= limit or looked >= _MOST_LOOKED:
            return HostsFound(now, found, after)
        await asyncio.sleep(0)


async def look_at_hosts(frontier: Frontier, job: str | None) -> AsyncIterator[HostView]:
    """Walks over all hosts."""
    met: set[str] = set()
    page = await find_hosts(frontier, job)
    while True:
        for host in page.hosts:
            if host.name not in met:
                met.add(host.name)
                yield host
        if not page.after:
            return
        page = await find_hosts(frontier, job, after=page.after)


async def look_at_host(frontier: Frontier, host: str) -> tuple[HostView, Sequence[HostQueue]]:
    record = await frontier.host(host)
    if record is None:
        raise unknown_host(host)
    queues = await frontier.host_queues(host)
    rules = await rules_of_host(frontier, queues)
    pending = sum(queue.pending for queue in queues)
    now = await frontier.now()
    view = await with_its_jobs(frontier, view_of(record, rules, now, pending))
    view = with_sources(view, rules, (await read_stored_settings(frontier)).table)
    return replace(with_robots(view, rules), held=await held_at(frontier, record)), queues


async def held_at(frontier: Viewing, host: HostRecord) -> HeldPages | None:
    """The pages of workers that are gone, if they take all places of the host."""
    if host.valve.in_flight < host.valve.cap:
        return None
    return filling(await find_held(frontier), host)


async def settings_to_come(frontier: Frontier, host: str) -> HostSettings | None:
    """What is set for a host that nobody has met yet; None: it is known, or nothing is."""
    if await frontier.host(host) is not None:
        return None
    jobs = await chosen_jobs(frontier, None)
    by_job = rules_for(jobs[0] if jobs else None).table.of(host)
    found = over((await read_stored_settings(frontier)).table.of(host), by_job)
    return None if found == NOTHING else found


async def with_its_jobs(frontier: Frontier, host: HostView) -> HostView:
    """Leaves out the limits of jobs that have no work there any more: the next request drops them."""
    silent = await OtherJobs(frontier, job="").silent(host.name, host.state, host.now)
    asks = {job: ask for job, ask in host.state.asks.items() if job not in silent}
    return replace(host, state=replace(host.state, asks=asks))


async def rules_of_host(frontier: Jobs, queues: Sequence[HostQueue]) -> HostRules:
    """The rules of a job that has work for the host, or else of the newest job."""
    job = _job_of(queues, await chosen_jobs(frontier, None))
    return rules_for(job)


def _job_of(queues: Sequence[HostQueue], jobs: Sequence[Job]) -> Job | None:
    busy = {queue.job for queue in queues}
    jobs = [job for job in jobs if job.spec.name in busy] or jobs
    return jobs[0] if jobs else None


class RulesOfHosts:
    """Finds the rules of many hosts; jobs are read once."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._jobs: Sequence[Job] | None = None
        self._rules: dict[str, HostRules] = {}

    async def of(self, host: str) -> HostRules:
        if self._jobs is None:
            self._jobs = await chosen_jobs(self._frontier, None)
        job = _job_of(await self._frontier.host_queues(host), self._jobs)
        name = job.spec.name if job is not None else ""
        if name not in self._rules:
            self._rules[name] = rules_for(job)
        return self._rules[name]


def unknown_host(host: str) -> UsageError:
    return UsageError(f"no host {host} in this store; {command('hosts --all')} shows which there are")


# -- proxies


class ProxyView(Struct, frozen=True):
    """A proxy of a pool, without its credentials."""

    pool: str
    proxy: str  # host and port
    requests: int
    success: float | None  # share; None: too few requests
    latency: float | None  # seconds
    condition: str
    until: float | None  # when its quarantine ends, in the frontier's time
    banned_by: tuple[str, ...]  # hosts
    cost: float | None = None  # of a request


class PoolUse(Struct, frozen=True):
    """What went through a pool to a host."""

    pool: str
    host: str
    requests: int
    success: float | None  # share that was answered and not refused
    refused: int
    median: float | None  # seconds
    bytes: int
    cost: float


async def look_at_uses(frontier: Frontier) -> list[PoolUse]:
    """What went through each pool, by host; the most used first."""
    return [
        PoolUse(pool, host, use.requests, use.success, use.refused, use.median, use.bytes, use.cost)
        for pool, state in (await StoredPools(frontier).read_all()).items()
        for host, use in sorted(state.uses.items(), key=lambda item: (-item[1].requests, item[0]))
    ]


async def look_at_proxies(frontier: Frontier) -> list[ProxyView]:
    """The proxies that crawls on this store have used."""
    jobs = await chosen_jobs(frontier, None)
    costs = settings_for(jobs[0] if jobs else None).pool_costs
    now = await frontier.now()
    return [
        ProxyView(
            pool,
            name.partition("/")[2] or name,
            proxy.requests,
            proxy.success(),
            proxy.latency or None,
            condition(proxy, now),
            proxy.hold.until if proxy.hold.strikes and proxy.hold.until > now else None,
            tuple(sorted(host for host, pair in proxy.hosts.items() if pair.hold.strikes)),
            costs.get(pool),
        )
        for pool, state in (await StoredPools(frontier).read_all()).items()
        for name, proxy in state.proxies.items()
    ]
