"""A generated web: hosts with habits, pages with links, and what a complete crawl must find on it. No input or output.

The same seed gives the same web. A host's chance is its own, so what happens to one does not change another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct, field

Kind = Literal["fast", "slow", "limited", "flapping", "dying", "redirecting", "hanging", "failing"]
Robots = Literal["missing", "rules", "refused", "late", "closed", "broken"]

KINDS: tuple[Kind, ...] = get_args(Kind)
_HABITS = (4, 3, 2, 2, 3, 2, 1, 0)  # how common the kinds are
_MANNERS: tuple[tuple[Robots, int], ...] = (
    ("missing", 5),  # 404: everything is allowed
    ("rules", 5),  # some pages are private, and there may be a Crawl-delay
    ("refused", 1),  # 403: everything is allowed
    ("late", 2),  # 503 at first
    ("closed", 1),  # nothing is allowed
    ("broken", 1),  # 500 for ever: nothing is allowed
)
_MOST_IN_A_ROW = 2  # failures by chance; a host that never answered would be given up after a few more
_FOR_EVER = 1e9


class Answer(Struct, frozen=True):
    """What a host does with a request: after `delay` it answers with a status, or fails with the kind given."""

    delay: float
    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    failure: str = ""


class Host(Struct):
    name: str
    kind: Kind
    robots: Robots
    chance: random.Random
    latency: float
    size: int  # pages
    crawl_delay: float = 0.0
    allowance: float = 1.0  # limited: requests a second
    tokens: float = 3.0
    filled_at: float = 0.0
    lives: int = 3  # dying: answers before the outage
    outage: float = 0.0  # … which takes this long
    down_until: float = 0.0
    robots_from: float = 0.0  # late: from when on robots.txt is served
    failures: int = 0  # in a row, by chance
    version_lasts: float = 0.0  # seconds until its pages change; 0: they never do
    tagged: bool = False  # whether it names the versions of its pages
    links: dict[str, list[str]] = field(default_factory=dict)  # path -> absolute URLs

    def url(self, path: str) -> str:
        return f"http://{self.name}{path}"

    # -- answering

    def answer(self, path: str, now: float, known: str = "") -> Answer:
        """`known`: the version that whoever asks has already."""
        delay = self.latency * self.chance.uniform(0.7, 1.5)
        if self.kind == "hanging":
            return Answer(_FOR_EVER)
        if self._is_down(now):
            return Answer(0.01, failure="connect")
        if path == "/robots.txt":
            return self._robots(delay, now)
        return self._trouble(delay, now) or self._page(path, delay, now, known)

    def _is_down(self, now: float) -> bool:
        if self.kind == "dying" and self.lives >= 0:
            self.lives -= 1
            if self.lives < 0:
                self.down_until = now + self.outage
        return now < self.down_until

    def _robots(self, delay: float, now: float) -> Answer:
        if self.robots == "broken" or (self.robots == "late" and now < self.robots_from):
            return Answer(delay, 503)
        if self.robots in ("missing", "late"):
            return Answer(delay, 404)
        if self.robots == "refused":
            return Answer(delay, 403)
        rule = "Disallow: /" if self.robots == "closed" else "Disallow: /private/"
        wait = f"Crawl-delay: {self.crawl_delay}\n" if self.crawl_delay else ""
        return Answer(delay, 200, body=f"User-agent: *\n{wait}{rule}\n".encode())

    def _trouble(self, delay: float, now: float) -> Answer | None:
        if self.kind == "failing":
            return Answer(delay, 503)
        if self.kind == "limited" and not self._within_limit(now):
            return Answer(0.02, 429, {"Retry-After": str(self.chance.randint(1, 4))})
        if self.kind == "flapping" and self.bad_luck(0.3):
            return Answer(delay, self.chance.choice((500, 502, 503)))
        return None

    def _within_limit(self, now: float) -> bool:
        self.tokens = min(3.0, self.tokens + (now - self.filled_at) * self.allowance)
        self.filled_at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def bad_luck(self, share: float) -> bool:
        """Whether chance lets this request fail: not too often in a row."""
        self.failures = self.failures + 1 if self.chance.random() < share else 0
        if self.failures > _MOST_IN_A_ROW:
            self.failures = 0
        return self.failures > 0

    def _page(self, path: str, delay: float, now: float, known: str) -> Answer:
        if target := redirect_of(path):
            return Answer(delay, 302, {"Location": target})
        if path not in self.links:
            return Answer(delay, 404)
        anchors = "".join(f'<a href="{url}">x</a>' for url in self.links[path])
        headers, text = {"Content-Type": "text/html"}, f"<p>{path}</p>{anchors}"
        if self.version_lasts:
            version = int(now / self.version_lasts)
            text += f"<b>{version}</b>"
            headers |= {"ETag": f'"{version}"'} if self.tagged else {}
            if known and known == headers.get("ETag"):
                return Answer(delay, 304, headers)
        return Answer(delay, 200, headers, text.encode())


def redirect_of(path: str) -> str | None:
    """/r/3 leads to /s/3, and that to /p/3; /loop leads in a circle."""
    match path[:3]:
        case "/r/":
            return f"/s/{path[3:]}"
        case "/s/":
            return f"/p/{path[3:]}"
        case "/lo":
            return "/loop-back" if path == "/loop" else "/loop"
    return None


class Web:
    def __init__(
        self,
        seed: int,
        *,
        failing: bool = False,
        hanging: bool = True,
        broken: bool = True,
        changes: bool = False,
    ) -> None:
        """`failing`: every page of every host is answered 503. Not `hanging`: no host keeps silent; not `broken`: every
        host has a robots.txt, or none. Without these two a world is through in a quarter of the time. `changes`: pages
        have versions."""
        self.changes = changes
        rng = random.Random(f"web {seed}")
        count = 5 + int(36 * rng.random() ** 5)
        most = max(2, 60 // count)
        self.hosts: dict[str, Host] = {}
        for number in range(count):
            host = _host(rng, seed, number, most)
            if failing:
                host.kind, host.robots = "failing", "missing"
            elif not hanging and host.kind == "hanging":
                host.kind = "fast"
            if not broken and host.robots == "broken":
                host.robots = "missing"
            if changes:
                own = random.Random(f"changes {seed} {number}")
                host.version_lasts, host.tagged = own.choice((4.0, 15.0, 40.0, 1e6)), own.random() < 0.5
            self.hosts[host.name] = host
        names = list(self.hosts)
        self.starts = [self.hosts[name].url("/p/0") for name in names[: rng.randint(2, count)]]
        for host in self.hosts.values():
            _link(rng, host, self)

    def links(self, url: str) -> list[str]:
        """What a page links to."""
        host, path = self.at(url)
        return host.links.get(path, [])

    def at(self, url: str) -> tuple[Host, str]:
        parts = urlsplit(url)
        return self.hosts[parts.netloc], parts.path

    def obtainable(self, *, robots: bool) -> set[str]:
        """The pages that a crawl must end up with, if it obeys robots.txt or if it does not."""
        pages: set[str] = set()
        seen, waiting = set(self.starts), list(self.starts)
        while waiting:
            url = waiting.pop()
            for more in self._reached(url, pages, robots=robots):
                if more not in seen:
                    seen.add(more)
                    waiting.append(more)
        return pages

    def _reached(self, url: str, pages: set[str], *, robots: bool) -> Iterator[str]:
        host, path = self.at(url)
        if host.kind in ("hanging", "failing") or (robots and forbids(host, path)):
            return
        if target := redirect_of(path):
            yield host.url(target)
        elif path in host.links and not path.startswith("/boom/"):
            pages.add(url)
            yield from host.links[path]


def forbids(host: Host, path: str) -> bool:
    if host.robots in ("closed", "broken"):
        return True
    return host.robots == "rules" and path.startswith("/private/")


def _host(rng: random.Random, seed: int, number: int, most: int) -> Host:
    kind = rng.choices(KINDS, _HABITS)[0]
    robots, weights = zip(*_MANNERS, strict=True)
    return Host(
        # In every third world, every second host is one of the same domain.
        f"{kind}{number}.shared.test" if seed % 3 == 0 and number % 2 else f"{kind}{number}.test",
        kind,
        rng.choices(robots, weights)[0],
        random.Random(f"host {seed} {number}"),
        latency=rng.uniform(1.0, 3.0) if kind == "slow" else rng.uniform(0.02, 0.4),
        size=rng.randint(2, most),
        crawl_delay=rng.choice((0.0, 0.0, 0.5, 2.0)),
        allowance=rng.uniform(0.7, 4.0),
        lives=rng.randint(0, 6),
        outage=rng.uniform(2.0, 25.0),
        robots_from=rng.uniform(1.0, 15.0),
    )


def _link(rng: random.Random, host: Host, web: Web) -> None:
    """Pages form a tree, so all can be reached, with some links across; the first page also has odd links."""
    others = list(web.hosts.values())
    for page in range(host.size):
        links = [child for child in (2 * page + 1, 2 * page + 2) if child < host.size]
        prefix = "/r/" if host.kind == "redirecting" and rng.random() < 0.7 else "/p/"
        host.links[f"/p/{page}"] = [host.url(f"{prefix}{child}") for child in links]
        for _ in range(rng.choice((0, 1, 1, 2))):
            other = rng.choice(others)
            host.links[f"/p/{page}"].append(other.url(f"/p/{rng.randrange(other.size)}"))
    odd = {"/private/0": 0.5, "/gone": 0.3, "/boom/0": 0.2, "/loop": 0.2, "/p/0": 0.5}
    host.links["/p/0"] += [host.url(path) for path, share in odd.items() if rng.random() < share]
    host.links["/private/0"] = [host.url("/p/0")]
    host.links["/boom/0"] = [host.url("/p/0")]
