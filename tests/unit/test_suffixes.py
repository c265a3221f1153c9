"""Which hosts belong to the same registrable domain, and that they live in the same shard."""

from __future__ import annotations

import time

import pytest
from publicsuffixlist import PublicSuffixList

from shoal.admit.identity import is_public_suffix, registrable_domain
from shoal.frontier.redis.keys import OWNED_BELOW, shard_key, shard_of


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.com", "example.com"),
        ("www.example.com:8080", "example.com"),
        ("a.b.c.example.com.", "example.com"),
        ("www.bbc.co.uk", "bbc.co.uk"),
        ("someone.github.io", "someone.github.io"),
        ("cdn.shop.myshopify.com", "shop.myshopify.com"),
        ("a.xn--55qx5d.cn", "a.xn--55qx5d.cn"),  # a suffix that is not ASCII
        ("x.y.test", "y.test"),  # no suffix of the list: the last label counts as one
        *((host, "") for host in ("github.io", "co.uk", "com", "localhost", "localhost:8000", "server")),
        *(
            (host, "")
            for host in ("127.0.0.1", "127.0.0.1:80", "[::1]", "[2001:db8::1]:8080", "", ".", "..", ":80")
        ),
    ],
)
def test_a_host_belongs_to_its_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def test_a_name_of_very_many_labels_costs_no_more() -> None:
    """The list looks at every label: a name of 100,000 would take seconds."""
    started = time.process_time()
    for name in ("a." * 100_000 + "example.com", "." * 200_000, "a" * 200_000):
        registrable_domain(name)
    assert registrable_domain("b." * 100_000 + "example.com") == "example.com"
    assert time.process_time() - started < 1


def test_hosts_of_one_domain_live_in_one_shard_whatever_the_list_says() -> None:
    listed = PublicSuffixList(accept_unknown=True)
    rules = [rule.lstrip("*!.") for rule in listed._publicsuffix]
    assert len(rules) > 5_000
    for rule in rules:
        one, two = f"a.owner.{rule}", f"b.c.owner.{rule}:81"
        if registrable_domain(one) and registrable_domain(one) == registrable_domain(two):
            assert shard_key(one) == shard_key(two), rule


def test_each_exception_of_the_shards_is_a_public_suffix() -> None:
    """Or hosts of one domain would be in several shards."""
    assert [name for name in OWNED_BELOW if not is_public_suffix(name)] == []


def test_owners_under_a_suffix_are_spread_over_the_shards() -> None:
    for pattern in ("shop{}.myshopify.com", "owner{}.co.uk", "owner{}.com", "10.0.0.{}", "server{}"):
        assert len({shard_of(pattern.format(n), 4) for n in range(100)}) == 4
    assert len({shard_of(f"n{n}.wild.com", 4) for n in range(100)}) == 1
