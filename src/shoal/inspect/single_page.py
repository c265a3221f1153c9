"""One page as Shoal sees it, for `shoal fetch`: robots.txt, redirects, the answer, links to follow."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from shoal.admit import Admission, origin, sent_url
from shoal.clock import SystemClock
from shoal.engine.etiquette import RobotsDirectives
from shoal.engine.page_hooks import PageHooks
from shoal.engine.process_hooks import ProcessHooks
from shoal.errors import UrlError
from shoal.fetch.guard import Guard
from shoal.fetch.own_transport import with_own_transport
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.pools import find_pools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.robots_fetch import AnyHost, RobotsRecord, agent_of, fetch_robots
from shoal.fetch.transport import FetchRequest, Transport
from shoal.fetch.transports import HostTransport, Transports
from shoal.model import Failure, Outcome, Refused, Response, Task
from shoal.model.request import Request
from shoal.policy.host_table import HostTable, settings_at
from shoal.policy.load import Traffic
from shoal.policy.outcomes import kind_of
from shoal.settings import Settings
from shoal.spider.default import summary_spider
from shoal.spider.handlers import Drop, Retry
from shoal.spider.hook_calls import HookFailed
from shoal.spider.page import Page
from shoal.spider.rendering import Rendered, Rendering
from shoal.spider.spider import Spider


class PageReport(Struct, frozen=True):
    task: Task  # where the redirects, its hops, have led
    robots: str  # "allowed", "forbidden (robots.txt: HTTP 503)", "not asked"
    outcome: Outcome
    kind: str
    title: str = ""
    links: int = 0
    admitted: int = 0  # of the links: those a crawl from here would follow
    refused: dict[str, int] = {}  # the others, by reason
    asks: tuple[str, ...] = ()  # of robots: noindex, nofollow
    picture: bytes = b""  # a PNG, from a browser
    moves: tuple[tuple[Task, Response], ...] = ()  # the redirects that led there


async def look(
    asked: str | Request,
    settings: Settings,
    *,
    rendering: Rendering | None = None,
    spider: Spider | None = None,
    typed: Sequence[str] | None = None,
    stays_open: AsyncExitStack | None = None,
) -> PageReport:
    """`spider`: its hooks change the request, as in a crawl. The answer is left as it is: whoever handles the page
    calls the hooks for that. `typed`: the URLs that a person wrote, whose hosts may be private; None: this one.
    `stays_open`: the browser stays until this stack is closed, so that the page can be worked on."""
    request = Request(url=asked) if isinstance(asked, str) else asked
    admission = Admission(settings, [request.url])
    task = admission.admit(request)
    if isinstance(task, Refused):
        raise UrlError(f"{task.url}: refused ({task.reason}), so a crawl would not fetch it")
    allowed = [task.url] if typed is None else [url for one in typed if (url := sent_url(one)) is not None]
    guard = Guard(settings.allow_network, map(_host_and_port, allowed))
    find_pools(settings, [], os.environ)
    transport = _routes(settings, guard)
    async with AsyncExitStack() as stack:
        (stays_open or stack).push_async_callback(transport.close)
        hooks = await stack.enter_async_context(
            _hooks(settings, spider or summary_spider("fetch", [task.url]))
        )
        if spider is not None:
            hooks.after_response = False
        report = await _follow(transport, admission, task, settings, rendering, hooks)
        return report if stays_open else replace(report, picture=await _picture(report.outcome))


@asynccontextmanager
async def _hooks(settings: Settings, spider: Spider) -> AsyncIterator[PageHooks]:
    """The hooks of the spider and of the plugins in the settings, as in a crawl."""
    process = ProcessHooks()
    hooks = process.of(spider, settings)
    await process.start(hooks, settings)
    try:
        yield PageHooks(hooks, spider, settings, SystemClock())
    finally:
        await process.close(failing=sys.exception() is not None)


def _routes(settings: Settings, guard: Guard) -> Transport:
    """The same way that a crawl takes: through the proxies of its settings, with what is set for the host."""
    clock, table = SystemClock(), HostTable(settings.host)
    return Routes(
        HostTransport(with_own_transport(settings, lambda: Transports(settings, guard, clock)), table.of),
        settings,
        LocalPools(),
        traffic=Traffic(),
        clock=clock,
        rng=random.Random(),
        now=clock.time,
        own=table.of,
    )


async def _follow(
    transport: Transport,
    admission: Admission,
    task: Task,
    settings: Settings,
    rendering: Rendering | None,
    hooks: PageHooks,
) -> PageReport:
    asked: dict[str, RobotsRecord] = {}
    table = HostTable(settings.host)
    moves: list[tuple[Task, Response]] = []
    while True:
        own = settings_at(settings, table.of(task.host))
        robots = await _ask_robots(transport, task, own, asked)
        if robots.startswith("forbidden"):
            detail = "robots.txt forbids it, or cannot be read; --no-robots fetches all the same"
            return PageReport(task, robots, Failure(kind="robots", detail=detail), "robots")
        outcome = await _fetch(transport, task, rendering, hooks)
        kind = kind_of(outcome)
        if kind != "redirect" or not isinstance(outcome, Response):
            seen = PageReport(task, robots, outcome, kind, moves=tuple(moves))
            return _described(seen, admission, RobotsDirectives(settings))
        moved = admission.moved(task, outcome.headers["Location"], outcome.cookies, outcome.status)
        if isinstance(moved, Refused):
            detail = f"redirects to {moved.url}, which is refused: {moved.reason}"
            return PageReport(task, robots, Failure(kind="policy", detail=detail), "policy")
        if len(moved.hops) > settings.max_redirects:
            detail = f"more than {settings.max_redirects} redirects; max_redirects allows no more"
            return PageReport(task, robots, Failure(kind="redirect_loop", detail=detail), "redirect_loop")
        if moved.goes_round:
            detail = f"redirects in a circle: {moved.url} was asked for before, with the same cookies"
            return PageReport(task, robots, Failure(kind="redirect_loop", detail=detail), "redirect_loop")
        moves.append((task, outcome))
        task = moved


async def _fetch(transport: Transport, task: Task, rendering: Rendering | None, hooks: PageHooks) -> Outcome:
    """The answer, as hooks let it through."""
    try:
        sent = await hooks.before(task) if hooks.before_request else task
        outcome = await transport.fetch(
            FetchRequest(
                sent.url,
                sent.method,
                sent.headers,
                sent.body,
                cookies=sent.cookies,
                referrer_url=sent.hops[-1] if sent.hops else None,
                pool=sent.pool,
                session=sent.session,
                asked_proxy=sent.options.proxy,
                rendering=rendering,
            )
        )
        if isinstance(outcome, Response) and outcome.url == sent.url != task.url:
            outcome = replace(outcome, url=task.url)
        if hooks.after_response and isinstance(outcome, Response) and kind_of(outcome) == "ok":
            return (await hooks.after(Page(task, outcome, handler=""))).response
        return outcome
    except HookFailed as error:
        return Failure("hook", str(error))
    except Drop as reason:
        return Failure("dropped", f"a hook drops it: {reason}")
    except Retry as reason:
        return Failure("retry_asked", f"a hook asks for it again: {reason}")


async def _picture(outcome: Outcome) -> bytes:
    if not isinstance(outcome, Rendered) or outcome.tab is None:
        return b""
    try:
        return await outcome.tab.screenshot(full=True)
    finally:
        await outcome.close()


async def _ask_robots(
    transport: Transport, task: Task, settings: Settings, asked: dict[str, RobotsRecord]
) -> str:
    if not settings.robots:
        return "not asked"
    site = origin(task.url)
    if site not in asked:
        asked[site] = await fetch_robots(
            transport,
            site,
            agent=agent_of(settings.user_agent),
            now=SystemClock().time(),
            pause=lambda: _pause(settings),
            other_hosts=AnyHost(),
        )
    record = asked[site]
    because = f" (robots.txt: {record.reason})" if record.reason else ""
    return f"allowed{because}" if record.allows(task.url) else f"forbidden{because}"


async def _pause(settings: Settings) -> None:
    await asyncio.sleep(1 / settings.rate if settings.rate else 0)


def _host_and_port(url: str) -> tuple[str, int]:
    parsed = URL(url, encoded=True)
    return parsed.host or "", parsed.port or 0


def _described(report: PageReport, admission: Admission, manners: RobotsDirectives) -> PageReport:
    """Adds what is in the page, if it is HTML."""
    if not isinstance(report.outcome, Response):
        return report
    page = Page(report.task, report.outcome, handler="")
    report = replace(report, asks=tuple(sorted(manners.asked(page))))
    if not page.is_html:
        return report
    links = page.links()
    requests = [Request(url=link) for link in links]
    followed = manners.followed(page, requests)
    answers = [admission.admit(request, parent=report.task) for request in followed]
    refused = Counter(answer.reason for answer in answers if isinstance(answer, Refused))
    if len(followed) < len(requests):
        refused["nofollow"] = len(requests) - len(followed)
    return replace(
        report,
        title=page.text("title"),
        links=len(links),
        admitted=len(links) - refused.total(),
        refused=dict(refused),
    )
