"""A fleet behind proxies on loopback, some of which are bad, towards hosts that answer 429 to whoever asks too often.

Of ten proxies six are good. The others are slow, refuse connections, refuse them from time to time, or hang from time
to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.small_machine.proxies import ProxyProcess
from benchmarks.small_machine.world import ProxyPlan
from shoal.testing import HostProfile

DELAY = 0.1  # seconds before a good proxy passes a request on
POOL = "some"
BAD = (
    ProxyPlan("slow", POOL, delay=2.0),
    ProxyPlan("refusing", POOL, habit="gone"),
    ProxyPlan("dying", POOL, delay=DELAY, habit="gone", period=20.0, bad=0.4),
    ProxyPlan("hanging", POOL, delay=DELAY, habit="silent", period=20.0, bad=0.4),
)


def make_plans(count: int) -> list[ProxyPlan]:
    """Every ten begin with six good ones."""
    good = ProxyPlan("good", POOL, delay=DELAY)
    return [([good] * 6 + list(BAD))[number % 10] for number in range(count)]


def limited_host(pages: int, latency: float, rate: float) -> HostProfile:
    """It takes twice the rate that crawlers are told, and answers 429 to what is more."""
    return HostProfile(
        "lifelike",
        pages=pages,
        links=12,
        body_bytes=4_000,
        latency=latency,
        jitter=0.3,
        failure_share=0.0,
        rate=2 * rate,
        burst=4,
    )


def urls_of(proxies: ProxyProcess) -> list[str]:
    return [f"http://{address}" for address in proxies.addresses]


def write_settings(file: Path, proxies: Sequence[str]) -> Path:
    """Of Shoal, for the commands that run in the fleet."""
    urls = msgspec.json.encode(list(proxies)).decode()  # JSON's lists of texts are TOML's
    file.write_text(
        f'pool = "{POOL}"\nallow_network = ["127.0.0.0/8"]\n\n[proxies]\n{POOL} = {urls}\n', "utf-8"
    )
    return file
