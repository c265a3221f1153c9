"""The steps of a page's path, put together: each is made of the others that it calls."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from shoal.admit import Admission
from shoal.engine.downloads import Downloads
from shoal.engine.escalation import Escalation
from shoal.engine.fetching import Fetcher
from shoal.engine.handling import Handling
from shoal.engine.history_recorder import HistoryRecorder
from shoal.engine.inner_fetch import InnerFetcher
from shoal.engine.judging import Judge
from shoal.engine.learning import Learner
from shoal.engine.letter_hooks import LetterHooks
from shoal.engine.links import Links
from shoal.engine.logins import Logins
from shoal.engine.page_hooks import PageHooks
from shoal.engine.page_line import PageLines
from shoal.engine.permission import Permission
from shoal.engine.pipeline import Pipeline
from shoal.engine.quality import Quality
from shoal.engine.revisiting import Revisiting
from shoal.engine.sessions import SessionKeeper
from shoal.engine.tally import Tally
from shoal.engine.webhooks import Webhooks
from shoal.fetch.challenge import Challenges
from shoal.fetch.guard import Guard
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import Transport
from shoal.fetch.transports import RestrictedTransport
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.hosts.cache import HostCache
from shoal.hosts.robots import RobotsFetcher
from shoal.hosts.session_notes import SessionNotes
from shoal.policy.load import Traffic
from shoal.policy.retry import RetryBudget
from shoal.settings import Settings
from shoal.sink.files import FileStore
from shoal.sink.outputs import NOTHING_MORE, Wanted
from shoal.spider.handlers import Yielded, collect
from shoal.spider.hooks import NO_HOOKS, Hooks
from shoal.spider.login import Account
from shoal.spider.spider import Spider
from shoal.spider.state import Values

if TYPE_CHECKING:
    from shoal.archive.cache import ArchiveCache
    from shoal.engine.archiving import Archiver


class PageSteps(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """The fields are what a job has of each kind; the properties are the steps."""

    spider: Spider
    settings: Settings
    frontier: Frontier
    hosts: HostCache
    robots: RobotsFetcher
    transport: Transport
    routes: Routes
    guard: Guard
    traffic: Traffic
    budget: RetryBudget
    admission: Admission
    tally: Tally
    recorder: HistoryRecorder
    clock: FrontierClock
    rng: random.Random
    job: str = ""
    notes: SessionNotes | None = None
    accounts: Mapping[str, Account] = field(default_factory=dict)
    browser: bool = False  # there is one to open pages with
    confined: RestrictedTransport | None = None
    files: Callable[[], FileStore] | None = None
    collecting: Callable[..., Awaitable[Yielded]] = collect
    hooks: Hooks = NO_HOOKS
    state: Values | None = None
    letters: LetterHooks | None = None
    archiver: Archiver | None = None
    cache: ArchiveCache | None = None
    wanted: Wanted = NOTHING_MORE  # what the output takes besides items
    webhooks: Webhooks | None = None
    replaces: bool = False  # rows go where there may be older ones

    def pipeline(self) -> Pipeline:
        return Pipeline(
            self.settings,
            hosts=self.hosts,
            permission=self.permission,
            sessions=self.sessions,
            logins=self.logins,
            fetcher=self.fetcher,
            judge=self.judge,
            learner=self.learner,
            handling=self.handling,
            links=self.links,
            admission=self.admission,
            tally=self.tally,
            recorder=self.recorder,
            routes=self.routes,
            revisits=self.revisits,
            clock=self.clock,
            state=self.state,
            letters=self.letters,
            archiver=self.archiver,
            cache=self.cache,
            lines=PageLines(self.spider.handler_named("").name),
            webhooks=self.webhooks or Webhooks(self.settings, self.clock, self.rng, os.environ),
        )

    # -- whether a page may be fetched, and what came of it

    @cached_property
    def permission(self) -> Permission:
        return Permission(
            self.settings,
            self.frontier,
            self.hosts,
            self.routes,
            self.robots,
            self.judge,
            self.learner,
            self.escalation,
            self.clock,
            self.rng,
            self.confined,
        )

    @cached_property
    def challenges(self) -> Challenges:
        return Challenges(self.settings, browser=self.browser)

    @cached_property
    def escalation(self) -> Escalation:
        return Escalation(self.hosts, self.clock, self.rng, on=self.challenges.escalates)

    @cached_property
    def judge(self) -> Judge:
        return Judge(
            self.settings, self.hosts, self.routes, self.budget, self.challenges, self.clock, self.rng
        )

    @cached_property
    def learner(self) -> Learner:
        return Learner(
            self.settings, self.hosts, self.routes, self.budget, self.escalation, self.traffic, self.clock
        )

    # -- requests

    @cached_property
    def fetcher(self) -> Fetcher:
        return Fetcher(
            self.transport,
            self.hosts,
            self.routes,
            self.guard,
            self.escalation,
            self.clock,
            by_handler(self.spider, "wait_for"),
        )

    @cached_property
    def sessions(self) -> SessionKeeper:
        notes = self.notes or SessionNotes(self.frontier, self.settings.session_key)
        return SessionKeeper(
            self.job, self.settings, notes, self.routes.sessions, self.routes.proxies, self.tally, self.clock
        )

    @cached_property
    def logins(self) -> Logins | None:
        if self.spider.logs_in is None:
            return None
        return Logins(
            self.spider.logs_in,
            self.accounts,
            self.settings,
            keeper=self.sessions,
            sessions=self.routes.sessions,
            inner=self._inner(),
            tally=self.tally,
            clock=self.clock,
            rng=self.rng,
        )

    def _inner(
        self,
        logins: Logins | None = None,
        archiver: Archiver | None = None,
        cache: ArchiveCache | None = None,
    ) -> InnerFetcher:
        return InnerFetcher(
            self.settings,
            frontier=self.frontier,
            hosts=self.hosts,
            permission=self.permission,
            fetcher=self.fetcher,
            judge=self.judge,
            learner=self.learner,
            admission=self.admission,
            tally=self.tally,
            clock=self.clock,
            sessions=self.sessions,
            hooks=self.page_hooks,
            logins=logins,
            archiver=archiver,
            cache=cache,
        )

    # -- handlers

    @cached_property
    def page_hooks(self) -> PageHooks:
        return PageHooks(self.hooks, self.spider, self.settings, self.clock)

    @cached_property
    def links(self) -> Links:
        return Links(
            self.settings,
            admission=self.admission,
            escalation=self.escalation,
            tally=self.tally,
            now=self.clock.time,
            hasten=self.frontier.hasten,
        )

    @cached_property
    def revisits(self) -> Revisiting:
        return Revisiting(
            self.spider,
            self.settings,
            hosts=self.hosts,
            admission=self.admission,
            clock=self.clock,
            rng=self.rng,
            wanted=self.wanted,
        )

    @cached_property
    def handling(self) -> Handling:
        inner = self._inner(self.logins, self.archiver, self.cache)
        files = self.files
        return Handling(
            self.spider,
            self.settings,
            links=self.links,
            tally=self.tally,
            clock=self.clock,
            rng=self.rng,
            hooks=self.page_hooks,
            inner=inner,
            downloads=Downloads(self.settings, inner, files, self.tally) if files is not None else None,
            collecting=self.collecting,
            is_standing=self.revisits.is_standing,
            quality=Quality(self.spider, self.settings, self.hosts, replaces=self.replaces),
        )


def by_handler(spider: Spider, option: Literal["country", "pool", "wait_for"]) -> dict[str, str]:
    """What handlers ask for their pages, such as a "pool", by the name that tasks have for the handler."""
    handlers = [*spider.handlers.items(), ("", spider.handler_named(""))]
    return {name: said for name, handler in handlers if (said := getattr(handler, option))}
