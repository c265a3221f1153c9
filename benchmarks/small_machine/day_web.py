"""The web of a day in virtual time, and the way there through the plans' proxies: no sockets, the same answers.

The web answers from a process of its own, so that its memory is not the crawl's.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct
from multidict import CIMultiDict

from benchmarks.small_machine.run import Visit
from benchmarks.small_machine.world import ProxyPlan
from shoal.admit.identity import host_key
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings
from shoal.testing import HostProfile
from shoal.testing.web.habits import HABITS
from shoal.testing.web.profile import NO_ANSWER

_SUFFIX = ".test"
_PORT = 3128  # of the first proxy
_NEAR = 0.002  # seconds to a proxy, or to a host that refuses

_Answer: TypeAlias = tuple[int, float, list[str], bytes]  # status, seconds it takes, headers, body


def url_of(host: str, path: str) -> str:
    return f"http://{host}{_SUFFIX}{path}"


def proxy_addresses(plans: Sequence[ProxyPlan]) -> list[str]:
    return [f"127.0.0.1:{_PORT + number}" for number, _ in enumerate(plans)]


class Asked(Struct, frozen=True, array_like=True):
    host: str
    path: str
    now: float
    client: str


class DistantWeb:
    """`with DistantWeb(hosts, seed) as web: web.ask(Asked(…))`

    Hosts answer at once; whoever asks lets the time pass."""

    def __init__(self, hosts: Mapping[str, HostProfile], seed: int) -> None:
        self._pipe, self._theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(hosts, seed, self._theirs), daemon=True
        )

    def __enter__(self) -> DistantWeb:
        self._process.start()
        self._theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()  # which ends it
        self._process.join()

    def ask(self, asked: Asked) -> _Answer:
        self._pipe.send_bytes(msgspec.msgpack.encode(asked))
        return cast(_Answer, msgspec.msgpack.decode(self._pipe.recv_bytes()))


def _serve(hosts: Mapping[str, HostProfile], seed: int, pipe: Connection) -> None:
    habits = {
        name: HABITS[profile.kind](profile, seed + number, ())
        for number, (name, profile) in enumerate(hosts.items())
    }
    decode = msgspec.msgpack.Decoder(Asked).decode
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            asked = decode(pipe.recv_bytes())
            answer = habits[asked.host].answer(asked.path, asked.now, asked.client)
            pipe.send_bytes(
                msgspec.msgpack.encode((answer.status, answer.delay, answer.headers, answer.body))
            )


class ProxiedTransport:
    """Fetches through the plans' proxies. What a real transport would say of each failure, it says too."""

    def __init__(
        self,
        web: DistantWeb,
        hosts: Mapping[str, HostProfile],
        plans: Sequence[ProxyPlan],
        settings: Settings,
        visit: Callable[[Visit], None],
    ) -> None:
        self._web = web
        self._hosts = hosts
        self._plans = dict(zip(proxy_addresses(plans), plans, strict=True))
        self._settings = settings
        self._visit = visit

    async def fetch(self, request: FetchRequest) -> Outcome:
        assert request.proxy is not None, "everything goes through proxies"
        plan = self._plans[request.proxy.address]
        started = _now()
        if (failed := await self._at_the_proxy(plan, request, started)) is not None:
            return failed
        await asyncio.sleep(plan.delay)
        return await self._at_the_host(plan, request, started)

    async def close(self) -> None:
        pass

    async def _at_the_proxy(self, plan: ProxyPlan, request: FetchRequest, started: float) -> Outcome | None:
        if plan.password != plan.known_password:
            return await _failed("proxy_auth", _NEAR, started)
        if not plan.is_bad(started):
            return None
        if plan.habit == "gone":
            return await _failed("proxy_connect", _NEAR, started)
        if plan.habit == "unavailable":
            await asyncio.sleep(_NEAR)
            return _response(request.url, 503, [], b"<h1>Out of order</h1>", started)
        return await _failed("proxy_timeout", self._settings.connect_timeout, started)

    async def _at_the_host(self, plan: ProxyPlan, request: FetchRequest, started: float) -> Outcome:
        name, path = host_key(request.url).removesuffix(_SUFFIX), "/" + request.url.split("/", 3)[3]
        kind = self._hosts[name].kind
        if kind == "closing":
            return await _failed("reset", _NEAR, started)
        if kind == "down":
            return await _unreachable(plan, request, started)
        arrived = _now()
        status, delay, headers, body = self._web.ask(Asked(name, path, arrived, plan.name))
        left = max(0.0, self._patience(request) - (arrived - started))
        if status == NO_ANSWER or delay >= left:
            failed = await _failed("read_timeout", left, started)
            self._visit(Visit(started, name, request.url, NO_ANSWER))
            return failed
        await asyncio.sleep(delay)
        self._visit(Visit(_now(), name, request.url, status))
        return _response(request.url, status, headers, body, started)

    def _patience(self, request: FetchRequest) -> float:
        return min(
            request.total_timeout or self._settings.total_timeout,
            request.read_timeout or self._settings.read_timeout,
        )


async def _unreachable(plan: ProxyPlan, request: FetchRequest, started: float) -> Outcome:
    """A proxy that forwards says 502 by itself; one that tunnels says that it cannot."""
    if plan.scheme == "socks5":
        return await _failed("proxy_gateway", _NEAR, started)
    await asyncio.sleep(_NEAR)
    return _response(request.url, 502, [], b"", started)


async def _failed(kind: str, seconds: float, started: float) -> Failure:
    await asyncio.sleep(seconds)
    return Failure(kind, "simulated", elapsed=_now() - started)


def _response(url: str, status: int, headers: Sequence[str], body: bytes, started: float) -> Response:
    named = CIMultiDict({"Content-Type": "text/html; charset=utf-8"})
    for line in headers:
        name, _, value = line.partition(": ")
        named.add(name, value)
    elapsed = _now() - started
    return Response(url, status, named, body, elapsed, elapsed, len(body))


def _now() -> float:
    return asyncio.get_running_loop().time()
