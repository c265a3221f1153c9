from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.admit.known import KnownLinks
from shoal.admit.sending import sent_url

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
    assert not known.seen(BASE, href)
    known.learn(BASE, href)
    for base in (BASE, SIBLING, COUSIN, STRANGER):
        expected = base == BASE or base in also_known_on
        assert known.seen(base, href) is expected, base
        assert known.unknown(base, [href]) == ([] if expected else [href])


def test_unknown_keeps_order_and_drops_repeats() -> None:
    known = KnownLinks()
    known.learn(BASE, "/b")
    known.learn(BASE, "c")
    assert known.unknown(BASE, iter(["/z", "/b", "a", "c", "/z", "?q", "a"])) == ["/z", "a", "?q"]
    assert known.unknown(BASE, ["/b", "c", "/b"]) == []


def test_a_whole_base_is_not_mistaken_for_a_directory() -> None:
    known = KnownLinks()
    known.learn("https://a.example/", "?q")
    assert known.unknown("https://a.example/x", ["?q"]) == ["?q"]


def test_bases_without_a_path_are_kept_apart() -> None:
    known = KnownLinks()
    known.learn("https://a.example", "x")
    assert known.seen("https://a.example/", "x")
    assert not known.seen("https://b.example", "x")


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    known = KnownLinks(limit=100)
    for number in range(50):
        known.learn(f"https://{number}.example/", "/a")
        known.learn(f"https://{number}.example/", "/b")
        assert len(known) <= 100
    assert known.seen("https://49.example/", "/b")
    assert not known.seen("https://0.example/", "/a")


def test_one_site_alone_cannot_grow_beyond_the_limit() -> None:
    known = KnownLinks(limit=100)
    for number in range(1000):
        known.learn(BASE, f"/{number}")
        known.learn(BASE, f"/{number}")
        assert len(known) <= 100
    assert len(known) > 0


def test_huge_hrefs_are_not_kept() -> None:
    known = KnownLinks()
    known.learn(BASE, "data:" + "x" * 1000)
    assert len(known) == 0


hrefs = st.lists(st.sampled_from(["https:", *"ab/?#:.\\ \t"]), max_size=6).map("".join)
bases = st.sampled_from([BASE, SIBLING, COUSIN, STRANGER, "https://a.example/", "https://a.example/dir/"])


@given(hrefs, bases, bases)
def test_what_is_known_means_what_was_learnt(href: str, learnt_on: str, asked_on: str) -> None:
    known = KnownLinks()
    known.learn(learnt_on, href)

    if known.seen(asked_on, href):
        assert sent_url(href, asked_on) == sent_url(href, learnt_on)
    assert known.unknown(asked_on, [href]) == ([] if known.seen(asked_on, href) else [href])
