"""What a worker process is told, and by which settings it works on a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shoal.config import load
from shoal.engine.vitals import Machine
from shoal.frontier.values import JobSpec
from shoal.jobs.note import SECRET, SUMMARY, is_for_fleet, note_of, settings_of
from shoal.runtime.trust import check_settings, own_output, own_reach, trusts_store
from shoal.settings import HostSettings, Settings
from shoal.sink import Output, lines_of
from shoal.spider.default import summary_spider
from shoal.spider.loading import SpiderSource, load_all
from shoal.spider.served_spiders import ServedSpiders
from shoal.spider.spider import Spider

# What a worker decides for itself: its machine is its own. Everything else is the job's.
OWN = frozenset(
    {
        "concurrency",
        "waiting_per_slot",
        "processes",
        "memory_limit",
        "grace",
        "lease",
        "settle_delay",
        "serve",
        "lane_caps",
        "backpressure",
        "store_high_water",
        "max_growth",
        "max_429_share",
        "max_slowdown",
        "max_retry_share",
        "max_sink_lag",
        "max_backlog",
        "max_loop_lag",
        "max_file_share",
        "max_proxy_error_share",
        "handler_warn",
        "dns_servers",
        "browser_path",
        "browser_tabs",
        "browser_memory",
        "trust",
    }
)


class CrawlPlan(Struct, frozen=True):
    """The one job of `shoal crawl --processes`, for each of its processes."""

    source: SpiderSource
    settings: Settings
    job: str
    output: tuple[str, ...]


class WorkerPlan(Struct, frozen=True):
    """Everything that makes up one worker or coordinator, in a form that another process can read."""

    spiders: tuple[str, ...]  # addresses
    store: str
    jobs: tuple[str, ...] = ()  # names, or patterns of names; empty: every job of its spiders
    flags: dict[str, Any] = {}
    config: str | None = None
    coordinates: bool = True
    until_done: bool = False
    metrics: str = ""  # where to answer how it is: [HOST:]PORT
    trace: bool = False
    crawl: CrawlPlan | None = None  # it works on this job alone, until it is done

    def load_spiders(self) -> ServedSpiders:
        if self.crawl is not None:
            return ServedSpiders({self.crawl.job: self.crawl.source.load()})
        spiders, factories = load_all(self.spiders)
        spiders[SUMMARY] = summary_spider(SUMMARY, ())
        return ServedSpiders(spiders, factories, trusted=trusts_store(self.settings(), self.store))

    def settings(self, spider: Spider | None = None) -> Settings:
        """The settings of this process."""
        if self.crawl is not None:
            return self.crawl.settings
        config = Path(self.config) if self.config is not None else None
        return load(config, spider.settings if spider is not None else {}, os.environ, self.flags)

    def divided(self, count: int) -> WorkerPlan:
        """The plan of one of `count` processes: they share the memory of this machine, and the slots of a crawl."""
        settings = self.settings()
        memory = Machine(settings.memory_limit, processes=count).read().memory_limit
        if self.crawl is None:
            return replace(self, flags={**self.flags, "memory_limit": memory}, metrics="")
        share = -(-settings.concurrency // count)
        settings = replace(settings, processes=1, concurrency=share, memory_limit=memory)
        return replace(self, crawl=replace(self.crawl, settings=settings), metrics="")

    def settings_for(self, spec: JobSpec, spider: Spider) -> Settings:
        """The settings that the job was submitted with. What concerns the machine, and what is not stored with a job
        because it may be secret, is this process's own."""
        mine, noted = self.settings(spider), settings_of(spec)
        if noted is None:
            return mine
        if not trusts_store(mine, self.store):
            check_settings(noted, mine)
        own = {key: getattr(mine, key) for key in OWN | SECRET}
        return replace(noted, **own, host=_with_headers(noted.host, mine.host))

    def serves(self, spec: JobSpec, spiders: Container[str]) -> bool:
        """Whether a job of that kind is for this process."""
        return (
            spec.spider in spiders
            and is_for_fleet(spec)
            and (not self.jobs or any(fnmatchcase(spec.name, pattern) for pattern in self.jobs))
        )

    def output_for(self, spec: JobSpec, spider: Spider) -> Output:
        """Where the job's rows go."""
        output, mine = lines_of(note_of(spec).output), self.settings(spider)
        if trusts_store(mine, self.store):
            return output or None
        return own_output(output, spec.name, mine, os.environ)

    def trusts(self, spider: Spider) -> bool:
        """Whether whoever writes to the store may decide everything."""
        return trusts_store(self.settings(spider), self.store)

    def reach_for(self, spider: Spider) -> Callable[[str], bool] | None:
        """Which URLs may be asked for with this process's headers; None: any."""
        mine = self.settings(spider)
        return None if trusts_store(mine, self.store) else own_reach(spider, mine)


def _with_headers(
    noted: Mapping[str, HostSettings], mine: Mapping[str, HostSettings]
) -> dict[str, HostSettings]:
    """The job's tables for hosts, with this process's own headers: a job notes the names of headers only."""
    tables = {name: replace(table, headers={}) for name, table in noted.items()}
    for name, table in mine.items():
        if table.headers:
            tables[name] = replace(tables.get(name, HostSettings()), headers=table.headers)
    return tables
