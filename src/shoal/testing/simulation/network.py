"""Fetching from the generated web: every request takes virtual time, and may fail on the way."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from multidict import CIMultiDict

from shoal.fetch.deadline import check_lease
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings
from shoal.testing.simulation.fault_injection import Faults
from shoal.testing.simulation.generated_web import Answer, Host, Web
from shoal.testing.simulation.invariants import Checker
from shoal.testing.simulation.virtual import Process, Story

_TROUBLED = ("dying", "hanging")  # hosts whose own failures, with chance on top, would get them given up


class _Request(Struct):
    ends: float
    began: float
    process: Process


class Servers:
    """Requests as the servers of all hosts see them, in the loop's time. A worker that froze or vanished closes no
    connection: its request goes on."""

    def __init__(self, settings: Settings, checker: Checker) -> None:
        self._settings = settings
        self._checker = checker
        self._under_way: defaultdict[str, list[_Request]] = defaultdict(list)
        self._heard_at = 0.0

    @contextmanager
    def working(self, host: Host, process: Process, seconds: float) -> Iterator[None]:
        """Around a request that the server answers after so many seconds. It works on until then, but no longer than a
        worker in good health would wait; or until it hears that the connection was closed."""
        time = process.loop.time
        request = _Request(time() + min(seconds, self._settings.total_timeout), time(), process)
        under_way = [one for one in self._under_way[host.name] if one.ends > time()]
        self._under_way[host.name] = under_way = [*under_way, request]
        self._checker.at_the_server(host, sum(not self._is_unknown(one) for one in under_way))
        try:
            yield
        finally:
            if not process.dead:  # else its machine was lost
                request.ends = min(request.ends, max(time(), process.paused_until))

    def store_goes_back(self, heard_at: float) -> None:
        """By when all workers have heard of it, if they are well."""
        self._heard_at = max(self._heard_at, heard_at)

    def _is_unknown(self, request: _Request) -> bool:
        """Whether nobody can know of it: the store may have forgotten the lease, and who has it is dead or stood still
        since, so that it could not end the request."""
        process, began = request.process, request.began
        return began <= self._heard_at and (process.dead or process.paused_until > began)


class SimulatedTransport:
    def __init__(
        self,
        web: Web,
        process: Process,
        settings: Settings,
        faults: Faults,
        checker: Checker,
        servers: Servers,
        story: Story,
    ) -> None:
        self._web = web
        self._process = process
        self._settings = settings
        self._faults = faults
        self._checker = checker
        self._servers = servers
        self._story = story

    async def fetch(self, request: FetchRequest) -> Outcome:
        self._process.check_alive()
        check_lease(asyncio.get_running_loop().time())
        host, path = self._web.at(request.url)
        self._checker.hit(self._process.name, host, path)
        outcome = await self._exchange(request, host, path)
        said = outcome.kind if isinstance(outcome, Failure) else outcome.status
        self._story.tell(self._process.name, f"fetched {request.url}: {said}")
        return outcome

    async def _exchange(self, request: FetchRequest, host: Host, path: str) -> Outcome:
        started = self._process.loop.time()
        limit = request.total_timeout or self._settings.total_timeout
        answer = self._disturbed(
            host, host.answer(path, started, (request.headers or {}).get("If-None-Match", ""))
        )
        with self._servers.working(host, self._process, answer.delay):
            await self._process.elapse(min(answer.delay, limit))
            if answer.failure == "death":
                self._story.tell(self._process.name, f"dies while it fetches {request.url}")
                raise self._process.die()
        elapsed = self._process.loop.time() - started
        if answer.delay >= limit:
            return Failure("timeout", "no answer in time", elapsed=elapsed)
        if answer.failure:
            return Failure(answer.failure, "simulated", elapsed=elapsed)
        if path == "/robots.txt":
            self._checker.robots_answered(host)
        headers = CIMultiDict(answer.headers)
        return Response(request.url, answer.status, headers, answer.body, elapsed, elapsed, len(answer.body))

    def _disturbed(self, host: Host, answer: Answer) -> Answer:
        """The answer, or what the network makes of it."""
        fault = self._faults.at_fetch()
        if fault == "death":
            return Answer(answer.delay * self._faults.pick(0, 1), failure="death")
        if fault is None or host.kind in _TROUBLED or answer.failure or answer.status >= 400:
            return answer
        if not host.bad_luck(1.0):
            return answer
        if fault == "slow body":
            return Answer(answer.delay + self._faults.pick(1, 30), answer.status, answer.headers, answer.body)
        return Answer(answer.delay * self._faults.pick(0, 1), failure=fault)

    async def close(self) -> None:
        pass
