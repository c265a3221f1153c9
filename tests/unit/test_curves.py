"""The curves of the frontier: what is said of them, and that they are drawn for any number of sizes."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.curves.plot import svg
from benchmarks.curves.point import Point, slowdown, table


def point(hosts: int, urls: int, adds: float, add_cpu: float) -> Point:
    return Point(hosts, urls, adds, add_cpu, 20_000.0, 40.0, 400.0, 10.0, 131.0, 120.0)


POINTS = [
    point(1, 10_000, 50_000.0, 9.0),
    point(1, 100_000, 100_000.0, 5.0),
    point(1, 5_000_000, 60_000.0, 8.0),
    point(1_000, 30_000, 80_000.0, 6.0),
]


def test_adds_are_compared_with_those_at_a_hundred_thousand_urls() -> None:
    assert slowdown(POINTS).splitlines() == [
        "1 hosts: at 5,000,000 URLs adds are 60% as quick as at 100,000, by CPU 62%",
        "1,000 hosts: at 30,000 URLs adds are 100% as quick as at 30,000, by CPU 100%",
    ]


def test_the_table_and_the_plot_have_every_point() -> None:
    assert len(table(POINTS).splitlines()) == 2 + len(POINTS)
    circles = ElementTree.fromstring(svg(POINTS)).findall(".//{*}circle")
    assert len(circles) == 2 + 6 * len(POINTS)  # one a number of hosts in the legend
