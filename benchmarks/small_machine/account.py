"""What a crawl says of itself, read from its store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from shoal.engine.history_recorder import read_history
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.inspect.lookup import look_at_proxies
from shoal.model.counts import costs

_LETTERS = 1_000_000


class ProxyAccount(Struct, frozen=True):
    name: str
    pool: str
    requests: int
    success: float | None  # share, weighted by how recent
    condition: str
    banned_by: int  # hosts, now


class Account(Struct, frozen=True):
    fetches: int  # robots.txt and retries included
    errors: dict[str, int]  # of these, by kind
    dead: dict[str, int]  # pages given up, by kind
    costs: dict[str, float]  # by pool
    proxies: list[ProxyAccount]


async def read_account(frontier: Frontier, names: Mapping[str, str]) -> Account:
    """`names` of proxies by what the crawl calls them: pool/address."""
    [job] = await frontier.jobs()
    total = (await read_history(frontier, job.spec.name)).total()
    letters = await frontier.dead(DeadFilter(job=job.spec.name, limit=_LETTERS))
    return Account(
        total.fetches,
        total.errors,
        dict(Counter(letter.kind for letter in letters)),
        dict(costs(job.counts)),
        [
            ProxyAccount(
                names.get(f"{one.pool}/{one.proxy}", one.proxy),
                one.pool,
                one.requests,
                one.success,
                one.condition,
                len(one.banned_by),
            )
            for one in await look_at_proxies(frontier)
        ],
    )
