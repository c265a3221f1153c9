"""Sends one request: with which timeout, with or without a browser, and through which proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.referrer import restored
from shoal.engine.escalation import Escalation
from shoal.fetch.deadline import check_handed_back
from shoal.fetch.guard import Guard, Pin
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import BodySink, FetchRequest, Transport
from shoal.frontier.clock import FrontierClock
from shoal.hosts.cache import HostCache, HostView
from shoal.model import COOKIE_MARK, Failure, Lease, Outcome, Response, Task
from shoal.settings import BROWSER
from shoal.spider.rendering import Rendering

if TYPE_CHECKING:
    from shoal.fetch.cookie_jar import CookieJar


class Fetched(Struct, frozen=True):
    request: FetchRequest
    outcome: Outcome
    started: float  # in the frontier's time


class Fetcher:
    def __init__(
        self,
        transport: Transport,
        hosts: HostCache,
        routes: Routes,
        guard: Guard,
        escalation: Escalation,
        clock: FrontierClock,
        waits: Mapping[str, str],
    ) -> None:
        self._transport = transport
        self._hosts = hosts
        self._guard = guard
        self._clock = clock
        self._escalation = escalation
        self._routes = routes
        self._waits = waits  # by handler: what its pages wait for in a browser
        self._told: dict[tuple[str, int], Pin] = {}  # the pins of typed hosts that the guard has

    async def fetch(
        self,
        task: Task,
        host: HostView,
        timeout: float | None,
        jar: CookieJar | None = None,
        sink: BodySink | None = None,
    ) -> Fetched:
        """`jar`: of the site, if the task has no session. `sink`: for a file."""
        started = self._clock.now()
        request = self._routes.with_route(self._request(task, host, timeout), task)
        if jar is not None and request.rendering is None:
            request = replace(request, jar=jar)
        if sink is not None:
            seconds = task.options.timeout or host.terms.settings.file_timeout
            request = replace(request, sink=sink, total_timeout=seconds)
        outcome = await self._transport.fetch(request)
        if isinstance(outcome, Failure):
            check_handed_back()
            if outcome.kind == "forbidden_address" and _is_listed(task):
                outcome = replace(
                    outcome, detail=f"{outcome.detail}, or -s trust_start=true for all start URLs"
                )
        return Fetched(request, outcome, started)

    def _request(self, task: Task, host: HostView, timeout: float | None) -> FetchRequest:
        rendering = None
        if task.lane == BROWSER and not self._escalation.is_plain(task):
            rendering = Rendering(task.options.wait_for or self._waits.get(task.handler, ""))
            # The host's own timeout is for single answers; a page with its scripts may take the longest time.
            timeout = host.terms.settings.total_timeout
        options = task.options
        request = FetchRequest(
            task.url,
            task.method,
            self._headers(task),
            task.body,
            tuple(line for line in task.cookies if not line.startswith(COOKIE_MARK)) if task.cookies else (),
            task.hops[-1] if task.hops else None,
            options.timeout or timeout,
            max_body=options.max_body,
        )
        return request if rendering is None else replace(request, rendering=rendering)

    def _headers(self, task: Task) -> Mapping[str, str] | None:
        """The headers of the request, and its Referer, unless a header of that name is given."""
        kept = task.options.referer
        if kept is None or any(name.lower() == "referer" for name in task.headers or ()):
            return task.headers
        return {"Referer": restored(kept, task.url), **(task.headers or {})}

    def guarded(self, task: Task, host: HostView) -> AbstractContextManager[None]:
        """Lets the guard connect to a host that was typed, if its address is in the network that it had at this job's
        first request; and stores the networks that the guard has learnt."""
        pin = self._hosts.pin_of(host)
        if pin is None and not self._told:
            return _NOTHING_TO_LEARN
        name = _host_and_port(task)
        if pin is not None and self._told.get(name) != pin:
            self._told[name] = pin
            self._guard.allow(*name, pin)
        is_known = pin is not None and pin.networks is not None
        if is_known or name not in self._told or self._guard.pin(*name) is None:  # or it is an address
            return _NOTHING_TO_LEARN
        return self._learning(task.host, name)

    @contextmanager
    def _learning(self, host: str, name: tuple[str, int]) -> Iterator[None]:
        try:
            yield
        finally:
            learnt = self._guard.pin(*name)
            if learnt is not None and learnt.networks is not None:
                self._hosts.pin(host, learnt)


_NOTHING_TO_LEARN = nullcontext()


def as_asked(fetched: Fetched, sent: Task, lease: Lease) -> tuple[Fetched, Lease]:
    """The answer to the URL of the task: what a hook wrote into it, such as a signature, is for the server alone. The
    pool and the session are those that the hook chose."""
    outcome, task = fetched.outcome, lease.task
    if isinstance(outcome, Response) and outcome.url == sent.url:
        fetched = replace(fetched, outcome=replace(outcome, url=task.url))
    return fetched, replace(lease, task=replace(task, pool=sent.pool, options=sent.options))


def _is_listed(task: Task) -> bool:
    """Whether it is a start URL from a file or a function, which is not trusted as a typed one is."""
    return task.parent == 0 and not task.typed and not task.hops


def _host_and_port(task: Task) -> tuple[str, int]:
    name, colon, port = task.host.rpartition(":")
    if colon and port.isdigit() and not name.endswith(":"):
        return name, int(port)
    return task.host, 443 if task.url.startswith("https:") else 80
