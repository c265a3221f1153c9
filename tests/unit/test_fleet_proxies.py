"""The benchmark of a fleet behind proxies: which proxies there are, what the fleets are told, what is shown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.fleet.manners import Manners
from benchmarks.fleet.measure import Figures
from benchmarks.fleet.proxied import POOL, limited_host, make_plans, write_settings
from benchmarks.fleet.report import PROXIED, markdown

from shoal.config import load

FIGURES = Figures(
    contender="shoal",
    workers=3,
    pages=950,
    seconds=60.0,
    cpu=1.9,
    store_cpu=0.38,
    memory=60e6,
    manners=Manners(2, 0.5, 1.01, 0.0),
    proxies=10,
    refused=50,
    given_up=10,
    obtained=990,
)


def test_of_ten_proxies_four_are_bad() -> None:
    assert Counter(plan.name for plan in make_plans(50)) == {
        "good": 30, "slow": 5, "refusing": 5, "dying": 5, "hanging": 5
    }  # fmt: skip


def test_a_host_takes_twice_the_rate_that_crawlers_are_told() -> None:
    assert limited_host(10, 1.0, rate=0.5).rate == 1.0


def test_the_settings_send_every_page_through_the_proxies(tmp_path: Path) -> None:
    file = write_settings(tmp_path / "shoal.toml", ["http://127.0.0.1:1", "http://127.0.0.1:2"])
    settings = load(file, {}, {}, {})
    assert settings.pool == POOL
    assert settings.proxies[POOL] == ["http://127.0.0.1:1", "http://127.0.0.1:2"]


def test_the_table_has_shares_of_pages_and_of_answers() -> None:
    row = markdown(PROXIED, [FIGURES]).splitlines()[2]
    assert row == "| shoal | 3 | 10 | 950 | 317 | 2.0 | 0.40 | 60 | 99.0 % | 5.0 % | 1.01 |"
