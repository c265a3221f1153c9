"""Gathers what a store knows: about one URL, its hosts, its proxies. Whoever asks need not be part of the crawl."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit import Admission, Canonicaliser, fingerprint, host_key, sent_url
from shoal.admit.identity import scheme
from shoal.config import load
from shoal.errors import SettingsError, UsageError
from shoal.frontier.protocol import Frontier, Hosts, Jobs
from shoal.frontier.values import HostQueue, Job, Whereabouts
from shoal.hosts.host_limits import HostRules, OtherJobs
from shoal.hosts.host_state import state_of
from shoal.hosts.proxy_pools import StoredPools
from shoal.hosts.stored_settings import read_stored_settings
from shoal.humanize import plural
from shoal.inspect.host import Cause, HostSight, sight_of, with_robots, with_sources
from shoal.inspect.retention import unknown_job
from shoal.inspect.why import Answer, Facts, explain
from shoal.jobs.note import settings_of
from shoal.model import Refused, Request, Task
from shoal.policy.compose import BUILT_IN
from shoal.policy.host_table import NOTHING, over
from shoal.policy.proxy import condition
from shoal.settings import HostSettings, Settings
from shoal.text import command

_PAGE = 500  # hosts that are read at once
_MOST_LOOKED = 5_000  # hosts that are looked at for one answer


async def chosen_jobs(frontier: Jobs, name: str | None) -> Sequence[Job]:
    """The job of that name, or all of them, the one to ask first being first: running, and the newest."""
    jobs = await frontier.jobs()
    chosen = [job for job in jobs if name in (None, job.spec.name)]
    if name is not None and not chosen:
        raise await unknown_job(frontier, name)
    return sorted(chosen, key=lambda job: (job.state == "running", job.created_at), reverse=True)


def settings_for(job: Job | None) -> Settings:
    """Those the job last ran by; without, those that a crawl begun here and now would have."""
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
    """A page of hosts that were asked for."""

    now: float
    hosts: Sequence[HostSight]
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
    """About `limit` hosts that have `part` in their names and are in that condition. Where few match, it looks at so
    many hosts and no more, and says where to go on."""
    jobs = await chosen_jobs(frontier, job)
    rules, now = rules_for(jobs[0] if jobs else None), await frontier.now()
    standing = (await read_stored_settings(frontier)).table
    found: list[HostSight] = []
    looked = 0
    while True:
        page = await frontier.host_page(job, after, _PAGE if part or condition else limit)
        looked, after = looked + len(page.hosts), page.after
        for record, pending in page.hosts:
            if part in record.name:
                sight = sight_of(record, rules, now, pending)
                if condition in ("", sight.condition):
                    found.append(with_sources(sight, rules, standing))
        if not after or len(found) >= limit or looked >= _MOST_LOOKED:
            return HostsFound(now, found, after)
        await asyncio.sleep(0)


async def look_at_hosts(frontier: Frontier, job: str | None) -> AsyncIterator[HostSight]:
    """All of them."""
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


async def look_at_host(frontier: Frontier, host: str) -> tuple[HostSight, Sequence[HostQueue]]:
    record = await frontier.host(host)
    if record is None:
        raise unknown_host(host)
    queues = await frontier.host_queues(host)
    rules = await rules_of_host(frontier, queues)
    pending = sum(queue.pending for queue in queues)
    now = await frontier.now()
    sight = await _with_its_jobs(frontier, sight_of(record, rules, now, pending))
    sight = with_sources(sight, rules, (await read_stored_settings(frontier)).table)
    return with_robots(sight, rules), queues


async def settings_to_come(frontier: Frontier, host: str) -> HostSettings | None:
    """What is set for a host that nobody has met yet; None: it is known, or nothing is."""
    if await frontier.host(host) is not None:
        return None
    jobs = await chosen_jobs(frontier, None)
    by_job = rules_for(jobs[0] if jobs else None).table.of(host)
    found = over((await read_stored_settings(frontier)).table.of(host), by_job)
    return None if found == NOTHING else found


async def _with_its_jobs(frontier: Frontier, host: HostSight) -> HostSight:
    """Without the words of jobs that have no work there any more: the next page sets its limits right."""
    silent = await OtherJobs(frontier, job="").silent(host.name, host.state, host.now)
    asks = {job: ask for job, ask in host.state.asks.items() if job not in silent}
    return replace(host, state=replace(host.state, asks=asks))


async def rules_of_host(frontier: Jobs, queues: Sequence[HostQueue]) -> HostRules:
    """By the settings of a job that has work for the host, or else of the job to ask first."""
    job = _job_of(queues, await chosen_jobs(frontier, None))
    return rules_for(job)


def _job_of(queues: Sequence[HostQueue], jobs: Sequence[Job]) -> Job | None:
    busy = {queue.job for queue in queues}
    jobs = [job for job in jobs if job.spec.name in busy] or jobs
    return jobs[0] if jobs else None


class RulesOfHosts:
    """The same for many hosts, by jobs that are looked at once."""

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


class ProxySight(Struct, frozen=True):
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


async def look_at_proxies(frontier: Frontier) -> list[ProxySight]:
    """Those that crawls on this store have met."""
    jobs = await chosen_jobs(frontier, None)
    costs = settings_for(jobs[0] if jobs else None).pool_costs
    now = await frontier.now()
    return [
        ProxySight(
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


# -- one URL


async def answers_about(frontier: Frontier, typed: str, job: str | None) -> list[Answer]:
    """One answer for each job that knows the URL; if none does, one for the job that might."""
    jobs = await chosen_jobs(frontier, job)
    pruned = len(await frontier.past_jobs()) if job is None else 0
    gone = f"{plural(pruned, 'job')} pruned, and with {'it' if pruned == 1 else 'them'} what was seen"
    if not jobs and pruned:
        raise UsageError(f"no jobs in this store any more: {gone}; see {command('jobs')}")
    if not jobs:
        raise UsageError(f"no jobs in this store yet; start one with: {command('crawl URL')}")
    answers = [explain(await inquire(frontier, job, typed)) for job in jobs]
    known = [answer for answer in answers if answer.place != "unknown"]
    if known or not pruned:
        return known or answers[:1]
    cause = Cause("pruned", f"{gone}: whether one of those had it is not known any more")
    return [replace(answers[0], causes=(*answers[0].causes, cause))]


async def inquire(frontier: Frontier, job: Job, typed: str) -> Facts:
    """What is known about a URL in a job; `typed` must be one that can be crawled."""
    rules = rules_for(job)
    url = sent_url(typed, routes=rules.settings.hash_routes)
    assert url is not None, typed
    page = fingerprint(Canonicaliser(rules.settings.tracking_params)(url))
    task = Task(url, host=host_key(url), fingerprint=page)
    where = await frontier.find(job.spec.name, task)
    now_at = where.task or task
    record = await frontier.host(now_at.host)
    now = await frontier.now()
    host = None
    if record is not None:
        host = with_robots(await _with_its_jobs(frontier, sight_of(record, rules, now)), rules)
        host = with_sources(host, rules, (await read_stored_settings(frontier)).table)
        its_own = {name: known for name, known in host.origins.items() if name == scheme(now_at.url)}
        host = replace(host, origins=its_own)
    queues = await frontier.host_queues(now_at.host)
    elsewhere = [q.pending for q in queues if (q.job, q.lane) != (job.spec.name, now_at.lane)]
    return Facts(
        url,
        now,
        job,
        where,
        host,
        host is None or _allows(host, now_at.url),
        await _refusal(frontier, job, rules.settings, url, where),
        sum(elsewhere),
        await frontier.workers(),
        rules.settings.robots_meta,
        rules.settings.robots_meta or rules.settings.rel_nofollow,
    )


def _allows(host: HostSight, url: str) -> bool:
    robots, known = host.robots.get(scheme(url)), host.state.origin(scheme(url))
    if not host.asks_robots or robots is None or known.robots_missing:
        return True  # or not known
    return robots.allows(url)


async def _refusal(frontier: Hosts, job: Job, settings: Settings, url: str, where: Whereabouts) -> str | None:
    """Why a link to a URL never seen would not be admitted."""
    if where.place != "unknown":
        return None
    admission = Admission(settings)
    async for record in frontier.hosts(job.spec.name):
        if state_of(record).start:
            admission.welcome(record.name)
    answer = admission.admit(Request(url, depth=0), parent=Task(url))
    return answer.reason if isinstance(answer, Refused) else None
