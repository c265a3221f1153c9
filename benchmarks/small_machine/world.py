"""What is crawled, and through what: a hundred hosts and ten proxies, decided by the seed alone.

`pace` is how many requests a second each host gets at most. What hosts bear, how long they are in a bad mood, how soon
they ban and how long proxies live go by the pace, so that a slow crawl of a day meets what a quick one of minutes does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from shoal.settings import PoolSettings, Settings
from shoal.testing import HostProfile

Habit = Literal["good", "silent", "closing", "unavailable"]

MIX = {
    "ordinary": 52,
    "slow": 12,
    "flapping": 8,
    "limited": 8,
    "banning": 10,
    "hanging": 4,
    "failing": 2,
    "closing": 2,
    "down": 2,
}
HOPELESS = frozenset({"hanging", "failing", "closing", "down"})  # kinds that no crawler gets a page from

ORDINARY, SLOW = (0.1, 0.8), (2.0, 8.0)  # seconds; an answer takes up to 1.5 times longer, or shorter
LIMITED = 0.6  # of the pace, above which a host answers 429
BAN_AFTER = (10, 25)  # requests through one proxy, in the time in which a host gets 60 in all …
BAN_WINDOW, BAN_TIME = 60.0, 120.0  # … at a request a second
MOOD, BAD_SHARE = (20.0, 60.0), (0.2, 0.5)  # seconds between two bad times, and the share of them that is bad
BODY, LINKS = 8_000, 20


def make_hosts(hosts: int, pages: int, pace: float, seed: int) -> dict[str, HostProfile]:
    """By name: "ordinary-0" … `pages` are those of each host."""
    rng = random.Random(f"small machine {seed}")
    kinds = [kind for kind, share in MIX.items() for _ in range(round(share * hosts / 100))]
    kinds += ["ordinary"] * (hosts - len(kinds))
    rng.shuffle(kinds)
    return {f"{kind}-{number}": _host(kind, pages, pace, rng) for number, kind in enumerate(kinds)}


def kind_of(host: str) -> str:
    return host.partition("-")[0]


def _host(kind: str, pages: int, pace: float, rng: random.Random) -> HostProfile:
    latency = _between(*(SLOW if kind == "slow" else ORDINARY), rng)
    period, bad = rng.uniform(*MOOD) / pace, rng.uniform(*BAD_SHARE)
    status, ban_after = rng.choice((403, 403, 429)), rng.randint(*BAN_AFTER)
    if kind in HOPELESS:
        return HostProfile(kind, pages=pages)  # type: ignore[arg-type]
    return HostProfile(
        "banning" if kind == "banning" else "lifelike",
        pages=pages,
        links=LINKS,
        body_bytes=BODY,
        latency=latency,
        jitter=0.5,
        rate=pace * (LIMITED if kind == "limited" else 10.0),
        burst=5 if kind == "limited" else 50,
        retry_after=math.ceil(2 / pace),
        failure_share=bad if kind == "flapping" else 0.0,
        period=period,
        ban_after=ban_after,
        ban_window=BAN_WINDOW / pace,
        ban_seconds=BAN_TIME / pace,
        ban_status=status,
    )


def _between(low: float, high: float, rng: random.Random) -> float:
    """Evenly on a logarithmic scale: many short ones, few long ones."""
    return low * math.pow(high / low, rng.random())


class ProxyPlan(Struct, frozen=True):
    """One proxy. Every `period`, it is as its `habit` says for the share `bad` of the time; else it is good."""

    name: str
    pool: str
    scheme: Literal["http", "socks5"] = "http"
    delay: float = 0.0  # seconds before it passes a request on
    habit: Habit | Literal["gone"] = "good"  # gone: connections are refused
    period: float = 0.0  # seconds; 0: it is always so
    bad: float = 1.0
    user: str = ""
    password: str = ""  # that it wants
    known_password: str = ""  # that the crawl has

    def is_bad(self, now: float) -> bool:
        """The good part of each period comes first."""
        if self.habit == "good":
            return False
        return not self.period or now % self.period >= self.period * (1.0 - self.bad)

    @property
    def login(self) -> str:
        return f"{self.user}:{self.known_password}@" if self.user else ""


# A cheap pool and a dear one, in any currency: 0.50 and 5.00 for a thousand requests.
COSTS = {"datacenter": 0.0005, "residential": 0.005}


def make_proxies(pace: float) -> tuple[ProxyPlan, ...]:
    cheap, dear = COSTS
    return (
        ProxyPlan("good", cheap),
        ProxyPlan("good-2", cheap),
        ProxyPlan("good-socks", cheap, "socks5", user="shoal", password="right", known_password="right"),
        ProxyPlan("slow", cheap, delay=2.0),
        ProxyPlan("dying", cheap, habit="gone", period=90.0 / pace, bad=0.4),
        ProxyPlan("5xx", cheap, habit="unavailable", period=60.0 / pace, bad=0.5),
        ProxyPlan("hanging", cheap, "socks5", habit="silent"),
        ProxyPlan("refusing", cheap, habit="gone"),
        ProxyPlan("home", dear, delay=0.3),
        ProxyPlan("locked", dear, user="shoal", password="right", known_password="wrong"),
    )


def urls_of(plans: Sequence[ProxyPlan], addresses: Sequence[str]) -> dict[str, list[str]]:
    """By pool, with the user and password that the crawl knows."""
    urls: dict[str, list[str]] = {}
    for plan, address in zip(plans, addresses, strict=True):
        urls.setdefault(plan.pool, []).append(f"{plan.scheme}://{plan.login}{address}")
    return urls


def names_of(plans: Sequence[ProxyPlan], addresses: Sequence[str]) -> dict[str, str]:
    """By what the crawl calls them: pool/address."""
    return {f"{plan.pool}/{address}": plan.name for plan, address in zip(plans, addresses, strict=True)}


def crawl_settings(pace: float, proxies: dict[str, list[str]]) -> Settings:
    """As a user would set them: everything else is as by default. `proxies`: addresses by pool."""
    pools = {pool: PoolSettings(urls=urls, cost=COSTS[pool]) for pool, urls in proxies.items()}
    return Settings(rate=pace, fallback=list(COSTS), proxies=pools, allow_network=["127.0.0.0/8"])


def as_toml(settings: Settings) -> str:
    """What is not as by default. JSON's strings, numbers and lists are TOML's."""
    usual = Settings()
    changed = {
        name: msgspec.to_builtins(getattr(settings, name))
        for name in Settings.__struct_fields__
        if getattr(settings, name) != getattr(usual, name)
    }
    pools = changed.pop("proxies", {})
    lines = [f"{name} = {_json(value)}" for name, value in changed.items()]
    for name, pool in pools.items():
        lines += ["", f"[proxies.{name}]", *(f"{key} = {_json(value)}" for key, value in pool.items())]
    return "\n".join(lines) + "\n"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
