"""Requests as the servers see them. A worker that froze or vanished closes no connection: its request goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from shoal.settings import Settings
from shoal.testing.simulation.check import Checker
from shoal.testing.simulation.process import Process
from shoal.testing.simulation.web import Host


class _Request(Struct):
    ends: float
    began: float
    process: Process


class Servers:
    """Those of all hosts, in the loop's time."""

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
