"""How each kind of host answers: one small class a kind, deciding from the path and the time alone."""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import ClassVar

from msgspec import structs

from shoal.testing.web.attacks import ATTACKS
from shoal.testing.web.profile import NO_ANSWER, HostProfile, Kind
from shoal.testing.web.site import Answer, site_of, small_page

_CACHED_PAGES = 4_096
_BLOCK = b"<!-- " + b"x" * 65_500 + b" -->\n"


class Host:
    """The habit of a well-behaved host, and the frame of all others."""

    via: ClassVar[str] = "/p/"
    corners: ClassVar[tuple[str, ...]] = ()  # where else the first page links to

    def __init__(self, profile: HostProfile, seed: int, neighbours: Sequence[str]) -> None:
        self.profile = profile
        self.seed = seed
        self.neighbours = neighbours  # base URLs of the hosts to send visitors to
        extra = (*self.corners, *(f"/private/{i}" for i in range(profile.private)))
        self.site = structs.replace(site_of(profile, seed), via=self.via, extra=extra)
        self._html = lru_cache(_CACHED_PAGES)(self.site.html)

    def answer(self, path: str, now: float, client: str = "") -> Answer:
        """`path` includes the query; `now` is monotonic; `client` is the address of who asks."""
        if path == "/robots.txt":
            return self._robots()
        return self.respond(path, now)

    def respond(self, path: str, now: float) -> Answer:
        section, number = _split(path)
        if section == "/p" and number is not None and number < self.profile.pages:
            return Answer(200, self._html(number))
        if section == "/private" and number is not None and number < self.profile.private:
            return Answer(200, small_page(f"Private {number}", ()))
        return self.corner(path)

    def corner(self, path: str) -> Answer:
        """Answers what is not a page of the site."""
        return Answer(404, small_page("Not found", ()))

    def _robots(self) -> Answer:
        robots = self.profile.robots
        if isinstance(robots, int):
            return Answer(robots)
        return Answer(200, robots.encode())


class Slow(Host):
    def answer(self, path: str, now: float, client: str = "") -> Answer:
        return structs.replace(super().answer(path, now, client), delay=self.profile.latency)


class Hanging(Host):
    def respond(self, path: str, now: float) -> Answer:
        return Answer(NO_ANSWER)


class _Bucket:
    """A token bucket that holds `burst` requests, or one second's worth, and one at least."""

    def __init__(self, profile: HostProfile) -> None:
        self._rate = profile.rate
        self._depth = max(1.0, profile.burst or profile.rate)
        self._tokens = self._depth
        self._filled_at = -math.inf

    def takes(self, now: float) -> bool:
        self._tokens = min(self._depth, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class _Window:
    """So many requests in a window of time: one after the other, or in the last seconds at any time."""

    def __init__(self, profile: HostProfile) -> None:
        self._seconds, self._slides = profile.window, profile.limiter == "sliding"
        self._most = max(1, math.floor(profile.rate * profile.window + 1e-9))
        self._times: deque[float] = deque()

    def takes(self, now: float) -> bool:
        begins = now - self._seconds if self._slides else now - now % self._seconds
        while self._times and self._times[0] < begins:
            self._times.popleft()
        if len(self._times) >= self._most:
            return False
        self._times.append(now)
        return True


class Limited(Host):
    """429 above a rate."""

    def __init__(self, profile: HostProfile, seed: int, neighbours: Sequence[str]) -> None:
        super().__init__(profile, seed, neighbours)
        self._limit = _Bucket(profile) if profile.limiter == "bucket" else _Window(profile)

    def respond(self, path: str, now: float) -> Answer:
        if self._limit.takes(now):
            return super().respond(path, now)
        asks = self.profile.retry_after
        return Answer(429, headers=(f"Retry-After: {asks:g}",) if asks else ())


class Flapping(Host):
    """Fails by chance that depends on the seed, the path and how often it was asked for, or by the clock."""

    statuses = (500, 502, 503)

    def __init__(self, profile: HostProfile, seed: int, neighbours: Sequence[str]) -> None:
        super().__init__(profile, seed, neighbours)
        self._visits: dict[str, int] = {}
        self._started_at: float | None = None

    def respond(self, path: str, now: float) -> Answer:
        visit = self._visits[path] = self._visits.get(path, 0) + 1
        chance = zlib.crc32(f"{self.seed} {path} {visit}".encode())
        if self._bad_period(now) if self.profile.period else self._bad_luck(visit, chance):
            return Answer(self.statuses[chance % 3])
        return super().respond(path, now)

    def _bad_luck(self, visit: int, chance: int) -> bool:
        # Two failures at most: with three attempts a page, what a complete crawl finds is certain.
        return visit <= 2 and chance < self.profile.failure_share * 2**32

    def _bad_period(self, now: float) -> bool:
        """The good part of each period comes first, the first one beginning with the first request."""
        if self._started_at is None:
            self._started_at = now
        phase = (now - self._started_at) % self.profile.period / self.profile.period
        return phase >= 1.0 - self.profile.failure_share


class Failing(Host):
    def respond(self, path: str, now: float) -> Answer:
        return Answer(503)


class Lifelike(Limited, Flapping):
    """The limiter stands in front and answers at once; whatever passes it takes its time, failures too."""

    def respond(self, path: str, now: float) -> Answer:
        answer = super().respond(path, now)
        if answer.status == 429:
            return answer
        return structs.replace(answer, delay=self._latency(path))

    def _latency(self, path: str) -> float:
        """By the seed, the path and how often it was asked for: the same for every crawler, in whatever order."""
        chance = zlib.crc32(f"{path} {self._visits[path]} {self.seed}".encode()) / 2**32
        return self.profile.latency * math.pow(1.0 + self.profile.jitter, 2.0 * chance - 1.0)


class Banning(Lifelike):
    """Counts the requests of each address. Requests while it is banned do not count: who goes on asking is not banned
    for longer."""

    def __init__(self, profile: HostProfile, seed: int, neighbours: Sequence[str]) -> None:
        super().__init__(profile, seed, neighbours)
        self._asked: dict[str, deque[float]] = {}
        self._banned_until: dict[str, float] = {}

    def answer(self, path: str, now: float, client: str = "") -> Answer:
        if now < self._banned_until.get(client, now):
            status = self.profile.ban_status
            return Answer(status, small_page("Too many requests" if status == 429 else "Access denied", ()))
        asked = self._asked.setdefault(client, deque())
        while asked and asked[0] < now - self.profile.ban_window:
            asked.popleft()
        asked.append(now)
        if len(asked) > self.profile.ban_after:
            self._banned_until[client] = now + self.profile.ban_seconds
            asked.clear()
        return super().answer(path, now, client)


class Redirecting(Host):
    """/r/i leads to page i over one to three redirects, /loop nowhere, /away/n to the first page of another host."""

    via = "/r/"
    corners = ("/loop/0", "/away/0", "/away/1")

    def corner(self, path: str) -> Answer:
        section, number = _split(path)
        if number is None:
            return super().corner(path)
        if section == "/r":
            return _redirect(f"/r{number % 3}/{number}" if number % 3 else f"/p/{number}")
        if section in ("/r1", "/r2"):
            return _redirect(f"/r1/{number}" if section == "/r2" else f"/p/{number}")
        if section == "/loop":
            return _redirect(f"/loop/{(number + 1) % 3}")
        if section == "/away":
            return _redirect(self.neighbours[number % len(self.neighbours)] + "/p/0")
        return super().corner(path)


class Trapping(Host):
    """Every corner leads on for ever."""

    corners = ("/calendar/2024/1", "/a/b", "/list?page=1", "/session?sid=1")

    def corner(self, path: str) -> Answer:
        section, number = _split(path)
        calendar, year = _split(section)
        if calendar == "/calendar" and year is not None and number is not None:
            following = f"/calendar/{year + number // 12}/{number % 12 + 1}"
            return Answer(200, small_page(f"{year}-{number}", [following, f"/calendar/{year + 1}/{number}"]))
        if path.startswith("/a/b"):
            return Answer(200, small_page(f"Deeper than {path}", [path + "/a/b"]))
        if section in ("/list?page", "/session?sid") and number is not None:
            return Answer(200, small_page(f"{section} {number}", [f"{section}={number + 1}"]))
        return super().corner(path)


class Huge(Host):
    """/big says how long it is, /endless does not and never ends."""

    corners = ("/big", "/endless")

    def corner(self, path: str) -> Answer:
        if path == "/big":
            size = self.profile.huge_bytes
            return Answer(200, stream=_blocks(size), length=size)
        if path == "/endless":
            return Answer(200, stream=repeat(_BLOCK))
        return super().corner(path)


class Scripted(Host):
    """A page that is a shell holds nothing but a script, which fetches /data/i.json and writes what is in it."""

    def __init__(self, profile: HostProfile, seed: int, neighbours: Sequence[str]) -> None:
        super().__init__(profile, seed, neighbours)
        self._served = 0

    def respond(self, path: str, now: float) -> Answer:
        section, page = _split(path.removesuffix(".json"))
        if page is None or page >= self.profile.pages:
            return super().respond(path, now)
        if section == "/data":
            return Answer(200, self.site.data(page), media_type="application/json")
        if path != self.site.path(page):
            return self.corner(path)
        if not self.site.is_shell(page) or 0 < self.profile.plain_after <= self._served:
            return Answer(200, self._html(page))
        self._served += 1
        return Answer(200, self.site.shell(page))


class Hostile(Host):
    """Page 0 links to all others, and page i is an attack: the kinds take turns."""

    def __init__(self, profile: HostProfile, seed: int, neighbours: Sequence[str]) -> None:
        super().__init__(profile, seed, neighbours)
        self._attacks = [ATTACKS[name] for name in profile.attacks or ATTACKS]

    def respond(self, path: str, now: float) -> Answer:
        section, page = _split(path)
        if section not in ("/p", "/again") or page is None:
            return self.corner(path)
        if section == "/again":
            return ATTACKS["redirects"](page, self.profile.attack_bytes)
        if page >= self.profile.pages:
            return self.corner(path)
        if page == 0:
            return Answer(200, small_page("Welcome", [f"/p/{n}" for n in range(1, self.profile.pages)]))
        return self._attacks[(page - 1) % len(self._attacks)](page, self.profile.attack_bytes)


# What closes or refuses a connection never sees a request.
HABITS: dict[Kind, type[Host]] = {
    "fast": Host,
    "slow": Slow,
    "hanging": Hanging,
    "limited": Limited,
    "flapping": Flapping,
    "failing": Failing,
    "redirecting": Redirecting,
    "trapping": Trapping,
    "lifelike": Lifelike,
    "banning": Banning,
    "huge": Huge,
    "scripted": Scripted,
    "hostile": Hostile,
    "closing": Host,
    "down": Host,
}


def _split(path: str) -> tuple[str, int | None]:
    """The last number of a path and what stands before it: /p/17 → ("/p", 17), /list?page=3 → ("/list?page", 3)."""
    section, _, last = path.rpartition("=" if "=" in path else "/")
    return section, int(last) if last.isdecimal() and len(last) < 12 else None


def _redirect(to: str) -> Answer:
    return Answer(302, headers=(f"Location: {to}",))


def _blocks(size: int) -> Iterator[bytes]:
    while size > 0:
        yield _BLOCK[:size]
        size -= len(_BLOCK)
