"""Settings for some hosts: which table counts for which host, and what follows from it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.policy.compose import HostPolicies
from shoal.policy.host_table import HostTable, host_pattern, merged, over, patterns_of, settings_at
from shoal.policy.protocol import Observation
from shoal.settings import HOST_KEYS, HostSettings, Settings

LABELS = st.sampled_from(["a", "b", "shop", "example"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.sampled_from(["", ":8080", ":81"])
HOSTS = st.tuples(NAMES, PORTS).map("".join)
PATTERNS = st.tuples(st.sampled_from(["", "*."]), NAMES, PORTS).map("".join)
TABLES = st.builds(
    HostSettings,
    rate=st.none() | st.floats(0, 9),
    per_host=st.none() | st.integers(1, 9),
    robots=st.none() | st.booleans(),
    headers=st.dictionaries(st.sampled_from(["A", "a", "B"]), st.text("xy", max_size=2), max_size=2),
)


@given(st.dictionaries(PATTERNS, TABLES, max_size=8), HOSTS)
def test_each_key_is_that_of_the_most_specific_table(tables: dict[str, HostSettings], host: str) -> None:
    """The second opinion: shell patterns, sorted by their length, the host itself first."""
    for_it = [name for name in tables if name == host or (name.startswith("*.") and fnmatchcase(host, name))]
    ranked = sorted(for_it, key=lambda name: (name != host, -len(name)))
    found = HostTable(tables).of(host)
    for key in HOST_KEYS:
        if key != "headers":
            said = [value for name in ranked if (value := getattr(tables[name], key)) is not None]
            assert getattr(found, key) == (said[0] if said else None)
    headers: dict[str, str] = {}
    for name in reversed(ranked):
        headers = merged(headers, tables[name].headers)
    assert found.headers == headers
    assert [name for name, _ in HostTable(tables).tables(host)] == ranked


@given(HOSTS)
def test_patterns_of_a_host_are_patterns(host: str) -> None:
    names = list(patterns_of(host))
    assert [host_pattern(name) for name in names] == names
    assert len(set(names)) == len(names)


def test_a_name_and_what_is_below_it_are_two() -> None:
    table = HostTable({"*.shop.example": HostSettings(rate=1), "*.example:8080": HostSettings(rate=2)})
    rates = {
        "shop.example": None,
        "a.shop.example": 1,
        "a.b.shop.example": 1,
        "a.shop.example:8080": 2,
        "eshop.example": None,
        "[::1]": None,
    }
    assert {host: table.of(host).rate for host in rates} == rates


@pytest.mark.parametrize(
    ("typed", "pattern"),
    [
        ("Shop.Example", "shop.example"),
        (" https://shop.example/ ", "shop.example"),
        ("shop.example:443", "shop.example"),
        ("shop.example:80", "shop.example"),
        ("*.Bücher.example:8080", "*.xn--bcher-kva.example:8080"),
        ("[::1]:8080", "[::1]:8080"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
    ],
)
def test_hosts_as_people_write_them(typed: str, pattern: str) -> None:
    assert host_pattern(typed) == pattern


def test_headers_are_one_whatever_their_case() -> None:
    assert merged({"Authorization": "weak", "X": "1"}, {"authorization": "strong"}) == {
        "X": "1",
        "authorization": "strong",
    }
    assert merged(None, None) == {}


@given(TABLES, TABLES, TABLES)
def test_tables_go_over_each_other_in_any_grouping(a: HostSettings, b: HostSettings, c: HostSettings) -> None:
    assert over(a, b, c) == over(over(a, b), c)


# -- what follows


def test_a_timeout_of_its_own_is_fixed() -> None:
    """Whatever the host's latency: a host that needs a minute is heard, and one that must not take long is cut off."""
    for timeout in (0.5, 90.0):
        policies = HostPolicies(settings_at(Settings(), HostSettings(timeout=timeout)))
        states: Any = policies.initial()
        for took, kind in (
            (0.1, "ok"),
            (0.1, "ok"),
            (timeout, "timeout"),
            (timeout, "timeout"),
            (80.0, "ok"),
        ):
            limits = policies.limits(states, 0.0)
            assert limits.timeout == limits.longest_timeout == timeout
            states = policies.observe(states, [Observation(1.0, 1.0 + took, kind)])


def test_what_is_not_said_is_as_in_the_settings() -> None:
    settings = Settings(rate=3, robots=False)
    assert settings_at(settings, HostSettings(headers={"A": "1"}, lane="urgent")) is settings
    own = settings_at(settings, HostSettings(rate=0, per_host=9, robots=True, pool="p"))
    assert (own.rate, own.per_host, own.robots, own.pool) == (0, 9, True, "p")
    assert (own.total_timeout, own.read_timeout) == (settings.total_timeout, settings.read_timeout)
