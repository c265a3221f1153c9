"""The proxies in a process of their own: `with ProxyProcess(plans) as proxies: … proxies.addresses`.

It reads the plans from its standard input and answers with the ports; it ends when that input closes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Self

import msgspec
import uvloop

import shoal
from benchmarks.small_machine.world import ProxyPlan
from shoal.testing.proxy_server import ProxyServer

_ROOT = Path(__file__).parents[2]
_LOOK = 0.25  # seconds between two looks at whether a proxy is bad now


class ProxyProcess:
    def __init__(self, plans: Sequence[ProxyPlan]) -> None:
        self._plans = plans
        self.addresses: list[str] = []  # of the plans, in their order

    def __enter__(self) -> Self:
        path = os.pathsep.join([str(Path(shoal.__file__).parents[1]), str(_ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.small_machine.proxies"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(self._plans) + b"\n")
        self._process.stdin.flush()
        ports = msgspec.json.decode(self._process.stdout.readline(), type=list[int])
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10.0)
        self._process.stdout.close()


async def _serve(plans: Sequence[ProxyPlan], lines: IO[bytes]) -> None:
    servers = [
        ProxyServer(
            plan.scheme,
            user=plan.user,
            password=plan.password,
            delay=plan.delay,
            leaves_by=f"127.0.200.{number}",
        )
        for number, plan in enumerate(plans, 1)
    ]
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        print(msgspec.json.encode([server.port for server in servers]).decode(), flush=True)
        moods = [
            asyncio.create_task(_change(plan, server)) for plan, server in zip(plans, servers, strict=True)
        ]
        await asyncio.to_thread(lines.read)  # until it closes
        for mood in moods:
            mood.cancel()


async def _change(plan: ProxyPlan, server: ProxyServer) -> None:
    began, is_gone = asyncio.get_running_loop().time(), False
    while True:
        bad = plan.is_bad(asyncio.get_running_loop().time() - began)
        if plan.habit != "gone":
            server.habit = plan.habit if bad else "good"
        elif bad != is_gone:
            await (server.stop() if bad else server.start())
            is_gone = bad
        await asyncio.sleep(_LOOK)


if __name__ == "__main__":
    # Unbuffered, so that nothing of what is read later waits in a buffer.
    with open(0, "rb", buffering=0) as lines:
        uvloop.run(_serve(msgspec.json.decode(lines.readline(), type=list[ProxyPlan]), lines))
