"""What a process answers when it is asked over HTTP how it is: /metrics, /healthz and /readyz.

Healthy means that a restart would not help: the event loop turns, and the engine either moves or waits for the store.
Ready means that there is work it could do: the store answers, and nobody has told it to stop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from shoal.engine.tally import TallyReport
from shoal.engine.vitals import StatusSource, Vitals
from shoal.errors import ShoalError
from shoal.frontier.protocol import Frontier
from shoal.telemetry.endpoint import Answer, listening
from shoal.telemetry.metrics import CONTENT_TYPE, check_installed, render_process, render_store

if TYPE_CHECKING:
    from shoal.inspect.overview import Overview

_STORE_PATIENCE = 3.0  # seconds for the store to answer
_FRESH = 1.0  # seconds for which a look at the store may be shown again


class Probes:
    def __init__(self) -> None:
        self._frontier: Frontier | None = None
        self._process: StatusSource | None = None
        self._whole_store = False
        self._looking = asyncio.Lock()
        self._overview: Overview | None = None
        self._until = 0.0

    def watch(self, frontier: Frontier, process: StatusSource, *, whole_store: bool) -> None:
        """From now on there is something to tell. `whole_store`: of the jobs and queues too. Of a fleet's workers
        each would tell the same, and ask the store for it every time."""
        self._frontier, self._process, self._whole_store = frontier, process, whole_store

    async def metrics(self) -> Answer:
        if self._process is None:
            return Answer(render_process(TallyReport(), Vitals()), content_type=CONTENT_TYPE)
        own = render_process(self._process.report(), self._process.vitals())
        overview = await self._look() if self._whole_store else None
        up = overview is not None or (not self._whole_store and await self._store_answers())
        return Answer(own + render_store(overview, up=up), content_type=CONTENT_TYPE)

    async def healthz(self) -> Answer:
        trouble = self._process.hangs() if self._process is not None else ""
        if trouble and await self._store_answers():
            return _no(trouble)
        return Answer(b"ok\n")

    async def readyz(self) -> Answer:
        if self._process is None:
            return _no("starting")
        if self._process.stopping():
            return _no("stopping")
        return Answer(b"ok\n") if await self._store_answers() else _no("the store does not answer")

    async def _store_answers(self) -> bool:
        assert self._frontier is not None
        try:
            async with asyncio.timeout(_STORE_PATIENCE):
                await self._frontier.now()
        except (ShoalError, TimeoutError):
            return False
        return True

    async def _look(self) -> Overview | None:
        """None: the store does not answer."""
        from shoal.inspect.overview import look

        assert self._frontier is not None
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(_STORE_PATIENCE), self._looking:
                if now() >= self._until:
                    self._overview = await look(self._frontier)
                    self._until = now() + _FRESH
        except (ShoalError, TimeoutError):
            return None
        return self._overview


def _no(why: str) -> Answer:
    return Answer(f"{why}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


@asynccontextmanager
async def probes_at(address: str) -> AsyncIterator[Probes]:
    """Answers at the address until left, and says where; without one, nobody is told anything."""
    probes = Probes()
    if not address:
        yield probes
        return
    check_installed()
    routes = {"/metrics": probes.metrics, "/healthz": probes.healthz, "/readyz": probes.readyz}
    async with listening(address, routes) as url:
        sys.stderr.write(f"metrics are at {url}/metrics\n")
        yield probes
