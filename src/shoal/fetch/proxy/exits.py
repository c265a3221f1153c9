"""Where in the world a request leaves a provider's network: proxies by country, and user names that say which exit.

Providers sell one address whose user name has the country and a session in it: with the same session, requests leave by
the same exit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2s

from shoal.admit.identity import host_key
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.proxy.sessions import Session
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure
from shoal.settings import PoolSettings


def not_in(proxies: Sequence[Proxy], country: str) -> frozenset[str] | None:
    """The proxies that are not in the country; None: all of them."""
    there = {proxy.name for proxy in proxies if proxy.takes("country") or proxy.country == country.lower()}
    return frozenset(proxy.name for proxy in proxies) - there if there else None


def with_exit(
    proxy: Proxy,
    own: PoolSettings | None,
    request: FetchRequest,
    session: Session | None,
    rng: random.Random,
) -> Proxy | Failure:
    """The proxy with the country and the session that it has in its user name."""
    country = request.country or (own.country if own is not None else "")
    if not country and proxy.takes("country"):
        return Failure("invalid_request", f"proxy {proxy.name} wants a country, and the request names none")
    if session is not None:
        exit_of = f"{session.name} {session.generation}"  # the same in all processes
    elif own is not None and own.strategy == "sticky":
        exit_of = host_key(request.url)
    else:
        exit_of = str(rng.getrandbits(64))  # a fresh one for every request
    return proxy.filled_in(country, blake2s(exit_of.encode(), digest_size=5).hexdigest())
