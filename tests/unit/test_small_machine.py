"""The benchmark of the small machine: its world, its figures, and a short day in virtual time."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from benchmarks.small_machine import day, plot, report
from benchmarks.small_machine.account import Account
from benchmarks.small_machine.run import Run, Visit, summarize
from benchmarks.small_machine.world import (
    COSTS,
    MIX,
    ProxyPlan,
    as_toml,
    crawl_settings,
    kind_of,
    make_hosts,
    make_proxies,
    names_of,
    urls_of,
)

from shoal.settings import Settings

NO_ACCOUNT = Account(0, {}, {}, {"datacenter": 0.5}, [])


def test_the_seed_decides_the_hosts() -> None:
    hosts = make_hosts(100, 5, 1.0, seed=1)
    assert hosts == make_hosts(100, 5, 1.0, seed=1)
    assert hosts != make_hosts(100, 5, 1.0, seed=2)
    assert Counter(map(kind_of, hosts)) == MIX


def test_ten_proxies_of_two_pools() -> None:
    plans = make_proxies(1.0)
    addresses = [f"127.0.0.1:{port}" for port in range(10)]
    urls = urls_of(plans, addresses)
    assert {pool: len(those) for pool, those in urls.items()} == {"datacenter": 8, "residential": 2}
    assert urls["datacenter"][2] == "socks5://shoal:right@127.0.0.1:2"
    assert names_of(plans, addresses)["residential/127.0.0.1:9"] == "locked"


@pytest.mark.parametrize(
    ("now", "bad"), [(0.0, False), (59.0, False), (61.0, True), (99.0, True), (101.0, False)]
)
def test_a_proxy_is_good_before_it_is_bad(now: float, bad: bool) -> None:
    assert ProxyPlan("dying", "cheap", habit="gone", period=100.0, bad=0.4).is_bad(now) is bad


def test_the_file_of_settings_says_the_same() -> None:
    settings = crawl_settings(1 / 30, {pool: [f"http://127.0.0.1/{pool}"] for pool in COSTS})
    assert msgspec.convert(tomllib.loads(as_toml(settings)), Settings) == settings


def made_run(rows: list[str], memory: int = 100) -> Run:
    """100 s in which a host has ten pages; each is asked for every ten seconds."""
    pages = [f"http://ordinary-0/{n}" for n in range(10)]
    visits = [Visit(10.0 * n, "ordinary-0", page, 200) for n, page in enumerate(pages)]
    return summarize(
        seconds=100.0,
        visits=[
            *visits,
            Visit(5.0, "hanging-1", "http://hanging-1/0", 0),
            Visit(5.0, "ordinary-0", pages[1], 429),
        ],
        rows=rows,
        expected={"ordinary-0": set(pages), "hanging-1": set()},
        memory=[(1.0, memory * 1024 * 1024), (99.0, memory * 1024 * 1024)],
        cut_short=False,
        killed=False,
        cpu=1.0,
        account=NO_ACCOUNT,
        store=0,
    )


def test_figures_count_each_page_once() -> None:
    run = made_run([f"http://ordinary-0/{n}" for n in (0, 1, 2, 3, 3)] + ["http://ordinary-0/none"])
    assert (run.obtained, run.there, run.doubled, run.strange) == (4, 10, 1, 1)
    assert (run.success, run.per_hour, run.growth) == (0.4, 144.0, 0)
    assert run.cost == 0.125
    ordinary, hanging = run.kinds["ordinary"], run.kinds["hanging"]
    assert (ordinary.requests, ordinary.good, ordinary.refused) == (11, 10, 1)
    assert (hanging.requests, hanging.good, hanging.there) == (1, 0, 0)
    assert sum(run.pages) == 4


def test_claims_fail_when_they_must() -> None:
    bad = report.claims(made_run(["http://ordinary-0/0"] * 2, memory=181))
    assert [holds for _, holds in bad.items()] == [False, False, False, True, False]
    good = report.claims(
        msgspec.structs.replace(made_run([f"http://ordinary-0/{n}" for n in range(10)]), seconds=8.0)
    )
    assert all(good.values())


def test_a_document_takes_the_figures_between_its_marks() -> None:
    run = made_run(["http://ordinary-0/0"])
    text = report.fill_in("before\n<!-- run -->\nold\n<!-- end of run -->\nafter\n", "run", run)
    assert text == f"before\n<!-- run -->\n{report.markdown(run)}<!-- end of run -->\nafter\n"
    assert "| of the obtainable pages | 94% | 10.0% |" in text
    with pytest.raises(SystemExit, match="end of run"):
        report.fill_in("no marks", "run", run)


def test_the_plot_has_two_lines_and_a_bar_for_each_kind() -> None:
    picture = ElementTree.fromstring(plot.svg(made_run(["http://ordinary-0/0"]), "A run"))
    spaces = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{spaces}polyline")) == 2
    assert len(picture.findall(f"{spaces}rect")) == 2  # the paper, and the bar of ordinary hosts


@pytest.mark.slow
def test_a_day_in_virtual_time_is_the_same_every_time(tmp_path: Path) -> None:
    def play(name: str) -> Run:
        (tmp_path / name).mkdir()
        hosts = make_hosts(20, 4, 1 / 30, seed=3)
        return day.play(hosts, make_proxies(1 / 30), 1 / 30, 3, folder=tmp_path / name, seconds=3600.0)

    one, other = play("one"), play("other")
    assert one.kinds == other.kinds
    assert one.account == other.account
    assert one.success >= 0.9
    assert (one.doubled, one.strange, one.cut_short) == (0, 0, False)
    assert one.kinds["hanging"].requests > 0  # it was tried
    assert one.cost > 0
    assert len([proxy for proxy in one.account.proxies if proxy.requests]) >= 8
