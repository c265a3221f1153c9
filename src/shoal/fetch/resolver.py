"""Resolves names to addresses, so that no name server can stop the lookups of others.

A lookup has a deadline (`dns_timeout`). Lookups at once are bounded, in all and by registrable domain; a few more may
wait for a place in their domain, and the others fail as busy, so that their pages come back later. Requests for the
same name share one lookup. Answers are cached as long as their records say, and failures for a short while.

A domain whose name servers leave many lookups unanswered is paused: further ones fail at once, until one that is let
through is answered. While a name is looked up, the page holds no slot.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from msgspec import Struct

from shoal.admit.identity import registrable_domain
from shoal.fetch.dns_lookup import Lookup, UnresolvedError, Why, check_servers, make_lookup
from shoal.fetch.slots import waiting
from shoal.settings import Settings

_AT_ONCE = 512
_AT_ONCE_PER_DOMAIN = 32
_QUEUE_PER_DOMAIN = 64
_ENTRIES = 10_000
_SHORTEST, _LONGEST = 30.0, 3600.0  # seconds that an answer is cached, whatever its records say
_NO_SUCH_NAME = 60.0
_FAILED = 5.0  # seconds that other failures are cached
_UNANSWERED = 16  # lookups, and the domain is paused; an answer halves the count
_PAUSE, _LONGEST_PAUSE = 15.0, 240.0  # seconds of a pause, doubled each time


class Answer(Struct, frozen=True):
    """What is known about a name: its addresses, or why there are none."""

    addresses: tuple[str, ...]
    until: float
    why: Why = "failed"
    error: str = ""


class _Domain:
    """The lookups in one registrable domain."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(_AT_ONCE_PER_DOMAIN)
        self.users = 0  # running or waiting lookups
        self.running = 0
        self.unanswered = 0
        self.pause = _PAUSE
        self.paused_until = 0.0

    @property
    def is_full(self) -> bool:
        return self.users >= _AT_ONCE_PER_DOMAIN + _QUEUE_PER_DOMAIN

    def refuses(self, now: float) -> bool:
        """Whether it is paused. After the pause, one lookup shows whether it answers again."""
        return self.unanswered >= _UNANSWERED and (self.running > 0 or now < self.paused_until)

    def record(self, *, answered: bool, now: float) -> None:
        if answered:
            self.unanswered //= 2
            self.pause = _PAUSE
            return
        self.unanswered += 1
        if self.unanswered >= _UNANSWERED and now >= self.paused_until:
            self.paused_until = now + self.pause
            self.pause = min(_LONGEST_PAUSE, 2 * self.pause)


class Resolver:
    """Looks names up for one job. Must be made inside a running loop, and closed in it."""

    def __init__(self, settings: Settings, lookup: Lookup | None = None) -> None:
        self._timeout = settings.dns_timeout
        self._servers = settings.dns_servers
        check_servers(self._servers)
        self._lookup = lookup
        self._now: Callable[[], float] = asyncio.get_running_loop().time
        self._known: dict[str, Answer] = {}
        self._asking: dict[str, asyncio.Task[Answer]] = {}
        self._domains: dict[str, _Domain] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Resolver: {len(self._known)} names known, {len(self._asking)} asked for>"

    async def resolve(self, name: str) -> tuple[str, ...]:
        """The addresses of a name. Raises UnresolvedError."""
        name = name.lower().rstrip(".")
        if (address := _literal(name)) is not None:
            return (address,)
        answer = self._known.get(name)
        if answer is None or answer.until <= self._now():
            with waiting():
                answer = await asyncio.shield(self._task(name))
        if not answer.addresses:
            raise UnresolvedError(answer.why, answer.error)
        return answer.addresses

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        if self._lookup is not None:
            await self._lookup.close()

    def _task(self, name: str) -> asyncio.Task[Answer]:
        """The lookup that all requests for the name share. It goes on when they are cancelled: others may ask soon."""
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(self._ask(name))
            task.add_done_callback(lambda _: self._asking.pop(name))
        return task

    async def _ask(self, name: str) -> Answer:
        its = domain_of(name)
        domain = self._domains.get(its)
        if domain is None:
            domain = self._domains[its] = _Domain()
        if domain.is_full:
            return self._no("busy", f"many names of {its} are being looked up", 0.0)
        domain.users += 1
        try:
            async with domain.places, self._places:
                answer = await self._ask_in(domain, name)
        finally:
            domain.users -= 1
            self._forget(its, domain)
        self._remember(name, answer)
        return answer

    async def _ask_in(self, domain: _Domain, name: str) -> Answer:
        if domain.refuses(self._now()):
            error = f"the name servers of {domain_of(name)} have not answered lately"
            return self._no("unanswered", error, _FAILED)
        domain.running += 1
        try:
            answer = await self._look_up(name)
        finally:
            domain.running -= 1
        domain.record(answered=answer.why != "unanswered", now=self._now())
        return answer

    async def _look_up(self, name: str) -> Answer:
        if self._lookup is None:
            self._lookup = make_lookup(self._servers, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._lookup.ask(name)
        except UnresolvedError as error:
            return self._no(
                error.why, error.message, _NO_SUCH_NAME if error.why == "no_such_name" else _FAILED
            )
        except TimeoutError:
            return self._no("unanswered", f"no answer within dns_timeout ({self._timeout:g} s)", _FAILED)
        ttl = min(_LONGEST, max(_SHORTEST, found.ttl))
        return Answer(found.addresses, self._now() + ttl)

    def _no(self, why: Why, error: str, wait: float) -> Answer:
        return Answer((), self._now() + wait, why, error)

    def _remember(self, name: str, answer: Answer) -> None:
        self._known.pop(name, None)
        if len(self._known) >= _ENTRIES:
            del self._known[next(iter(self._known))]
        self._known[name] = answer

    def _forget(self, name: str, domain: _Domain) -> None:
        """Drops a domain with nothing to remember; if there are too many, the oldest that is idle."""
        if not domain.users and not domain.unanswered:
            del self._domains[name]
        elif len(self._domains) > _ENTRIES:
            idle = next((key for key, one in self._domains.items() if not one.users), None)
            if idle is not None:
                del self._domains[idle]


def domain_of(name: str) -> str:
    """The registrable domain, whose owner runs the name servers. A name without one stands for itself."""
    return registrable_domain(name) or name


def _literal(name: str) -> str | None:
    """The address, if the name is one, also in an old spelling that systems accept: 127.1, 0x7f.1, 2130706433."""
    if ":" in name or name.rpartition(".")[2][:1].isdigit():
        with suppress(ValueError):
            return str(ip_address(name))
        with suppress(OSError):
            return socket.inet_ntoa(socket.inet_aton(name))
    return None
