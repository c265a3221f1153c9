from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.admit.known import KnownLinks
from shoal.admit.sending import sent_url

HOST = "a.example"
BASE = "https://a.example/dir/one.html"
SIBLING = "https://a.example/dir/two.html"
COUSIN = "https://a.example/other/one.html"
STRANGER = "https://b.example/dir/one.html"


@pytest.mark.parametrize(
    ("href", "also_known_on"),
    [
        ("/about", {SIBLING, COUSIN}),
        ("//c.example/", {SIBLING, COUSIN}),
        ("https://c.example/", {SIBLING, COUSIN, STRANGER}),
        ("next.html", {SIBLING}),
        ("../up?u=http://x", {SIBLING}),
        ("./", {SIBLING}),
        ("?page=2", set()),
        (" ?page=2", set()),
        ("http:?page=2", set()),
        ("#top", set()),
        ("", set()),
    ],
)
def test_known_wherever_it_means_the_same(href: str, also_known_on: set[str]) -> None:
    known = KnownLinks()
    assert not known.seen(HOST, BASE, href)
    known.learn(HOST, BASE, href)
    for base in (BASE, SIBLING, COUSIN, STRANGER):
        expected = base == BASE or base in also_known_on
        assert known.seen(HOST, base, href) is expected, base
        assert known.unknown(HOST, base, [href]) == ([] if expected else [href])


def test_what_is_known_on_one_host_is_looked_at_on_another() -> None:
    """Also if both pages resolve it alike, because their <base> is the same."""
    known = KnownLinks()
    for href in ("https://c.example/", "/about", "next.html"):
        known.learn("a.example", BASE, href)
        assert known.seen("a.example", BASE, href)
        assert not known.seen("b.example", BASE, href)
        assert known.unknown("b.example", BASE, [href]) == [href]


def test_unknown_keeps_order_and_drops_repeats() -> None:
    known = KnownLinks()
    known.learn(HOST, BASE, "/b")
    known.learn(HOST, BASE, "c")
    assert known.unknown(HOST, BASE, ["/z", "/b", "a", "c", "/z", "?q", "a"]) == ["/z", "a", "?q"]
    assert known.unknown(HOST, BASE, ["/b", "c", "/b"]) == []


def test_a_whole_base_is_not_mistaken_for_a_directory() -> None:
    known = KnownLinks()
    known.learn(HOST, "https://a.example/", "?q")
    assert known.unknown(HOST, "https://a.example/x", ["?q"]) == ["?q"]


def test_bases_without_a_path_are_kept_apart() -> None:
    known = KnownLinks()
    known.learn(HOST, "https://a.example", "x")
    assert known.seen(HOST, "https://a.example/", "x")
    assert not known.seen(HOST, "https://b.example", "x")


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    known = KnownLinks(limit=100)
    for number in range(50):
        known.learn(HOST, f"https://{number}.example/", "/a")
        known.learn(HOST, f"https://{number}.example/", "/b")
        assert len(known) <= 100
    assert known.seen(HOST, "https://49.example/", "/b")
    assert not known.seen(HOST, "https://0.example/", "/a")


def test_one_site_alone_cannot_grow_beyond_the_limit() -> None:
    known = KnownLinks(limit=100)
    for number in range(1000):
        known.learn(HOST, BASE, f"/{number}")
        known.learn(HOST, BASE, f"/{number}")
        assert len(known) <= 100
    assert len(known) > 0


def test_huge_hrefs_are_not_kept() -> None:
    known = KnownLinks()
    known.learn(HOST, BASE, "data:" + "x" * 1000)
    assert len(known) == 0


hrefs = st.lists(st.sampled_from(["https:", *"ab/?#:.\\ \t"]), max_size=6).map("".join)
bases = st.sampled_from([BASE, SIBLING, COUSIN, STRANGER, "https://a.example/", "https://a.example/dir/"])


@given(hrefs, bases, bases)
def test_what_is_known_means_what_was_learnt(href: str, learnt_on: str, asked_on: str) -> None:
    known = KnownLinks()
    known.learn(HOST, learnt_on, href)

    if known.seen(HOST, asked_on, href):
        assert sent_url(href, asked_on) == sent_url(href, learnt_on)
    assert known.unknown(HOST, asked_on, [href]) == ([] if known.seen(HOST, asked_on, href) else [href])
