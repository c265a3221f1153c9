"""What a spider may count, and how counts are told."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.errors import SpiderError
from shoal.limits import COUNTER_MOST, COUNTER_NAME, COUNTER_NAMES, COUNTER_STEP
from shoal.model import Response, Task
from shoal.model.counts import DROPPED, PAGES_DROPPED, Counts, dropped, own, with_reason, within_limits
from shoal.spider.page import Page


@pytest.fixture
def page() -> Page:
    return Page(Task(url="https://a.example/"), Response("https://a.example/", 200, {}, b""), "h")


def test_a_page_adds_up(page: Page) -> None:
    page.count("variants", 3)
    page.count("variants")
    page.count("none of them", 0)
    assert page._counts.settled() == (("variants", 4),)


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [
        (7, 1, "the name is 7; give a text in one line"),
        ("", 1, "the name is ''; give a text in one line"),
        ("a\nb", 1, "give a text in one line"),
        ("\ud800", 1, "give a text in one line"),
        ("x" * (COUNTER_NAME + 1), 1, f"has more than {COUNTER_NAME} characters"),
        ("rejected", 1, "Shoal itself counts 'rejected'; give another name"),
        ("dropped: by me", 1, "give another name"),
        ("pages dropped: by me", 1, "give another name"),
        ("(other)", 1, "give another name"),
        ("n", -1, "'n' by -1; give a whole number from 0"),
        ("n", 1.5, "'n' by 1.5; give a whole number"),
        ("n", True, "'n' by True; give a whole number"),
        ("n", None, "'n' by None; give a whole number"),
        ("n", COUNTER_STEP + 1, "to 999,999,999,999"),
    ],
)
def test_what_cannot_be_counted_is_told(page: Page, name: Any, number: Any, said: str) -> None:
    with pytest.raises(SpiderError, match=r"^page\.count: ") as caught:
        page.count(name, number)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not page._counts


def test_a_page_has_so_many_names() -> None:
    counts = Counts()
    for number in range(COUNTER_NAMES + 50):
        counts.add(f"n{number}")
    assert (len(counts), counts["(other)"]) == (COUNTER_NAMES + 1, 50)
    counts.add("n7", COUNTER_STEP)
    assert counts["n7"] == COUNTER_STEP


def test_a_reason_becomes_a_name_that_every_store_takes() -> None:
    assert with_reason(PAGES_DROPPED, "") == "pages dropped: no reason given"
    assert with_reason(DROPPED, "a\nb\ud800") == "dropped: a b\ufffd"
    assert with_reason(DROPPED, "at http://me:secret@shop.example/") == "dropped: at http://shop.example/"
    assert len(with_reason(DROPPED, "x" * 10_000)) == COUNTER_NAME


def test_shards_have_more_names_together() -> None:
    sums = {**{f"n{number}": 1 for number in range(COUNTER_NAMES + 9)}, "large": COUNTER_MOST, "(other)": 5}
    found = within_limits(sums)
    assert (len(found), found["large"], found["(other)"]) == (COUNTER_NAMES + 1, COUNTER_MOST, 5 + 10)
    assert list(found) == sorted(found)


def test_counts_are_told_apart() -> None:
    counts = {"(other)": 1, "dropped: no price": 2, "pages dropped: old": 3, "rejected": 4, "variants": 5}
    assert own(counts) == {"(other)": 1, "variants": 5}
    assert dropped(counts) == {"pages dropped (old)": 3, "items dropped (no price)": 2}
