"""A job as a value, before it is made, and whether its parts exist."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from difflib import get_close_matches

from msgspec import Struct

from shoal.errors import SettingsError, SpiderError, UsageError
from shoal.fetch.browser.executable import available, why_not
from shoal.fetch.proxy.pools import find_pools
from shoal.frontier import is_local
from shoal.frontier.values import OWN_START, Job, JobSpec
from shoal.jobs.note import FedBy, handlers_of, write_note
from shoal.jobs.schedule import read_times
from shoal.model import CHANGES
from shoal.model.pace import read_pace
from shoal.policy.compose import HostPolicies, domain_limit, first_valve
from shoal.policy.host_table import table_name
from shoal.policy.lanes import no_such_lane, served
from shoal.settings import BROWSER, Settings
from shoal.sink import Output, is_database, output_key
from shoal.sink.objects.object_store import is_object_store
from shoal.sink.outputs import read_output, wanted_by
from shoal.spider.arguments import read_key, spider_key
from shoal.spider.loading import SpiderSource, import_address
from shoal.spider.plugins import check_plugins
from shoal.spider.revisits import visits_again
from shoal.spider.schemas import kinds_of
from shoal.spider.spider import Spider
from shoal.text import command
from shoal.text.humanize import read_span


class JobPlan(Struct, frozen=True):
    """Everything that makes up one job: of a crawl, or for the workers of a fleet."""

    spider: Spider
    settings: Settings
    job: str
    store: str = ":memory:"
    output: Output = None  # files, databases …; None: standard output, or the caller's memory
    fresh: bool = False
    source: SpiderSource | None = None  # how another process gets the same spider
    fed_by: FedBy = "crawl"
    feeds: str = OWN_START  # the name of its start among the sources of the job
    priority: int = 0  # among the jobs of a store
    metrics: str = ""  # where to answer how it is: [HOST:]PORT
    trace: bool = False
    start: Spider | None = (
        None  # of a submitted job: the same spider with the URLs that were given, named by `feeds`
    )
    address: str = "FILE.py"  # of the spider of a submitted job, for what to do next

    @property
    def is_crawl(self) -> bool:
        """The process that makes the job also works on it."""
        return self.fed_by == "crawl"


def spec_of(plan: JobPlan) -> JobSpec:
    settings = plan.settings
    # On other machines a file's path means what it means there: one that is not absolute, the worker's folder.
    elsewhere = not (plan.is_crawl or is_local(plan.store) or plan.output is None or is_database(plan.output))
    output = output_key(plan.output, here=not elsewhere)
    return JobSpec(
        plan.job,
        spider=spider_key(plan.spider),
        valve=first_valve(settings),
        max_attempts=settings.max_attempts,
        max_pages=settings.max_pages,
        max_pages_per_host=settings.max_pages_per_host,
        # The output is noted before anything is written to it: a crash in the very first write leaves rows in a file
        # that no commit vouches for, and without the note they would look like somebody else's.
        settings=write_note(
            output, settings, plan.fed_by, handlers_of(plan.spider), fresh=elsewhere and plan.fresh
        ),
        priority=plan.priority,
        dedupe=settings.dedupe,
        capacity=settings.dedupe_capacity if settings.dedupe == "bloom" else 0,
        domain=domain_limit(settings),
        dedupe_expires=read_expiry(settings.dedupe_expires),
    )


def check_parts(plan: JobPlan) -> None:
    """Checks that the parts which the settings name exist: once, and not in every process."""
    serves_browser = plan.fed_by == "crawl" and BROWSER in served(plan.settings)
    HostPolicies(plan.settings)
    check_plugins(plan.settings)
    check_cache(plan.settings)
    check_revisit(plan.settings)
    read_expiry(plan.settings.dedupe_expires)
    read_times(plan.settings.every, plan.settings.cron)
    if plan.settings.transport:
        import_address("transport", plan.settings.transport)
    if plan.fed_by == "crawl":  # the workers of a fleet have proxies and webhooks of their own
        pools = [handler.pool for handler in plan.spider.handlers.values() if handler.pool]
        find_pools(plan.settings, pools, os.environ)
        if plan.settings.webhook:
            from shoal.fetch.webhook_sending import read_receivers  # with it comes the HTTP client

            read_receivers(plan.settings, os.environ)
    lanes = plan.settings.lane_weights
    for name, table in plan.settings.host.items():
        if table.lane is not None and table.lane not in lanes:
            raise SettingsError(f"{table_name(name, table)} lane: {no_such_lane(table.lane, lanes)}")
        if table.lane == BROWSER and serves_browser and not available(plan.settings):
            raise SettingsError(f"{table_name(name, table)} lane: {why_not(plan.settings)}")
    for handler in plan.spider.handlers.values():
        if handler.lane not in lanes:
            problem = no_such_lane(handler.lane, lanes)
            raise SpiderError(f"spider {plan.spider.name!r}: handler {handler.name!r}: {problem}")
        if handler.lane == BROWSER and serves_browser and not available(plan.settings):
            raise SpiderError(f"handler {handler.name!r} is in the browser lane: {why_not(plan.settings)}")
    _check_kinds(plan)


def without_effect(plan: JobPlan) -> Iterator[str]:
    """What was asked for and does nothing, in a line each."""
    settings = plan.settings
    if plan.is_crawl and (times := settings.every or settings.cron):
        what = "every" if settings.every else "cron"
        yield f"{what} {times!r} is for {command('submit')}, which runs it again and again; this crawl runs once"
    if foreign := _foreign_columns(plan):
        from shoal.spider.default import SummarySpider

        # A crawl without code may find the settings file of any spider.
        if not isinstance(plan.spider, SummarySpider):
            yield from (_no_such_kind(plan, f"columns.{kind}", "") for kind in foreign)
    if settings.max_pages or settings.offline:
        why = f"with {'max_pages' if settings.max_pages else 'offline'}, every page is visited once"
    elif not visits_again(plan.spider, settings):
        why = "neither the settings nor a handler say revisit, as --revisit 1h does"
    else:
        return
    for name, asked in (("-o changes=", wanted_by(plan.output).changes), ("--webhook", settings.webhook)):
        if asked:
            yield f"{name} gets what has changed on pages that are visited again; {why}"


def check_revisit(settings: Settings) -> None:
    for name, text in (
        ("revisit", settings.revisit),
        ("revisit_min, revisit_max", f"auto {settings.revisit_min}-{settings.revisit_max}"),
    ):
        try:
            read_pace(text, 1, 2)
        except ValueError as error:
            raise SettingsError(f"{name}: {error}") from None


def read_expiry(text: str) -> float:
    """Seconds; 0: never."""
    if not text.strip():
        return 0.0
    if not (seconds := read_span(text)):
        raise SettingsError(f"dedupe_expires: {text[:40]!r} is no time: write 12h, 7d or 4w")
    return seconds


def check_cache(settings: Settings) -> None:
    if not settings.cache:
        if settings.offline:
            raise SettingsError("offline: it needs a cache: --cache DIR, or cache = true")
        return
    if not settings.archive and settings.offline:
        raise SettingsError("offline: it needs pages to read: --cache DIR, such as .shoal/pages of shoal try")
    if not settings.archive or is_object_store(settings.archive):
        raise SettingsError("cache: it needs an archive in a folder on this machine: --cache DIR, or archive")


def _check_kinds(plan: JobPlan) -> None:
    """An output for a kind of item that no handler makes would stay empty, and columns for it would be nowhere."""
    kinds = kinds_of(plan.spider)
    for place in read_output(plan.output, stored=True):
        if place.kind != "archive" and place.item and place.item not in (*kinds, CHANGES):
            meant = _meant(plan.spider, place.item)
            raise UsageError(_no_such_kind(plan, f"-o {place.item}=", f"{meant}=" if meant else ""))
    given = plan.spider.settings.get("columns")
    own = given if isinstance(given, dict) else {}
    for kind in _foreign_columns(plan):
        meant = _meant(plan.spider, kind)
        # A settings file may be for several spiders, and the kind one of another.
        if kind in own or (meant and meant not in plan.settings.columns):
            raise SettingsError(_no_such_kind(plan, f"columns.{kind}", meant))


def _no_such_kind(plan: JobPlan, where: str, meant: str) -> str:
    hint = f"did you mean {meant}? " if meant else ""
    return (
        f"{where}: no handler of spider {plan.spider.name!r} makes items of that kind; {hint}"
        f"there are {', '.join(kinds_of(plan.spider))}"
    )


def _meant(spider: Spider, kind: str) -> str:
    """The kind that a person may mean: the handler makes items of another name, or it is misspelt."""
    handler = spider.handlers.get(kind)
    if handler is not None:
        return handler.schemas[0].table if handler.schemas else handler.item or handler.name
    return next(iter(get_close_matches(kind.lower(), kinds_of(spider), 1)), "")


def _foreign_columns(plan: JobPlan) -> list[str]:
    """The kinds that the setting `columns` names, and no handler makes."""
    kinds = {*kinds_of(plan.spider), CHANGES}
    return [kind for kind in plan.settings.columns if kind not in kinds]


def check_start(plan: JobPlan, known: Job | None) -> None:
    """A job that has pages can go on without a start; a new one would end before it has begun."""
    spider = plan.spider
    if plan.fed_by == "submit":
        return  # its start was given beside the spider
    if not spider.start and (known is None or plan.fresh):
        raise SpiderError(
            f"spider {spider.name!r} has no start, so there is nothing to crawl: Spider({spider.name!r}, start=…)"
        )


def check_arguments(plan: JobPlan, known: Job | None) -> None:
    """A job goes on with the arguments that it was made with. Secrets may change."""
    if known is None or plan.fresh:
        return
    made_by = plan.spider.made_by
    given = made_by.identity if made_by is not None else ()
    pairs = read_key(known.spec.spider)[1]
    noted = made_by.without_secret(pairs) if made_by is not None else pairs
    if given != noted:
        what = " ".join(f"-a {shlex.quote(pair)}" for pair in noted) or "no arguments"
        raise UsageError(
            f"job {plan.job} was made with {what}: give it the same, another --job, or start again with --fresh"
        )
